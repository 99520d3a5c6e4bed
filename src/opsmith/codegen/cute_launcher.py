"""Generates the file that calls the host functions of a CuTe DSL kernel, with the tensors as these take them."""

from __future__ import annotations

from collections.abc import Iterator

from opsmith.codegen.launcher import any_data, choose_values, generate_launcher
from opsmith.codegen.variants import Variants
from opsmith.spec.kernel_arguments import KernelArgument
from opsmith.spec.quantities import view_rank

__all__ = ["generate_cute_launcher"]


def generate_cute_launcher(variants: Variants) -> str:
    """Return the C++ file that calls a definition's CuTe DSL kernels."""
    return generate_launcher(variants, [*choose_values(variants), *_call(variants)], hosted=True)


def _call(variants: Variants) -> Iterator[str]:
    definition = variants.definition
    passed = [argument for argument in variants.arguments if argument.role not in ("constant", "choice")]
    slots = sum(_slots(variants, argument) for argument in passed)
    yield f"  const int64_t kernel = first + choice * {len(variants.configs)} + config;"
    yield f"  embedded::HostedArguments<{len(passed)}, {slots}> arguments;"
    for argument in passed:
        yield f"  {_added(definition.name, argument)}"
    yield (
        f'  embedded::call("{definition.name}", embedded::{variants.table}[kernel], arguments, '
        f"{any_data(definition.signature)});"
    )


def _slots(variants: Variants, argument: KernelArgument) -> int:
    """Return how many times 8 bytes an argument has: a tensor's data, its sizes, and its strides but the last."""
    if argument.role != "tensor":
        return 1
    rank = view_rank(variants.definition.signature, argument.name)
    return 1 + rank + max(0, rank - 1)


def _added(operator: str, argument: KernelArgument) -> str:
    name = argument.name
    if argument.role == "tensor":
        condition = f"if (arg_{name}) " if argument.values else ""
        return f"{condition}arguments.add(arg_{name});"
    if argument.role == "stream":
        return "arguments.add(stream);"
    if argument.role == "flag":
        return f"arguments.add(static_cast<uint8_t>(arg_{name}));"
    if argument.quantity is None:
        return f"arguments.add(static_cast<{argument.type}>(arg_{name}));"
    if argument.type == "int64_t":
        return f"arguments.add(number_{name});"
    fitting = f'"{operator}", "{name}", number_{name}, "cutlass.Int64"'
    return f"arguments.add(embedded::fit<{argument.type}>({fitting}));"
