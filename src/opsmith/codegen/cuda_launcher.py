"""Generates the file that launches a `__global__` function: the integers' width, and the arguments in their types."""

from __future__ import annotations

from collections.abc import Iterator

from opsmith.codegen.launcher import any_data, choose_values, generate_launcher
from opsmith.codegen.variants import Variants

__all__ = ["generate_cuda_launcher"]


def generate_cuda_launcher(variants: Variants) -> str:
    """Return the C++ file that launches a definition's CUDA kernels."""
    return generate_launcher(variants, [*choose_values(variants), *_kernel(variants), *_arguments(variants)])


def _kernel(variants: Variants) -> Iterator[str]:
    """Yield the computation of `kernel`, the place in the table."""
    widths = len(variants.specialisations)
    place = f"choice * {len(variants.configs)} + config"
    if widths == 1:
        yield f"  const int64_t kernel = first + {place};"
        return
    yield "  embedded::Facts facts;"
    for argument in variants.arguments:
        if argument.role == "tensor":
            yield f"  facts.tensor(arg_{argument.name});"
        elif argument.quantity is not None:
            yield f"  facts.number(number_{argument.name});"
    yield f"  const int64_t kernel = first + ({place}) * {widths} + (facts.is_wide() ? 1 : 0);"


def _arguments(variants: Variants) -> Iterator[str]:
    """Yield the kernel's arguments and the launch."""
    definition = variants.definition
    passed = [argument for argument in variants.arguments if argument.role not in ("constant", "choice")]
    yield f"  embedded::Arguments<{max(1, len(passed))}> arguments;"
    for argument in passed:
        name = f"arg_{argument.name}"
        if argument.role == "tensor":
            # An optional one that is absent is a null pointer.
            yield f"  arguments.add({name}.data);"
        elif argument.quantity is None:
            yield f"  arguments.add(static_cast<{argument.type}>({name}));"
        elif argument.type == "int64_t":
            yield f"  arguments.add(number_{argument.name});"
        else:
            fitting = f'embedded::fit<{argument.type}>("{definition.name}", "{argument.name}", number_{argument.name})'
            yield f"  arguments.add({fitting});"
    yield (
        f'  embedded::launch("{definition.name}", embedded::{variants.table}[kernel], '
        f"loaded_{definition.name}[kernel], grid, block, arguments, {any_data(definition.signature)}, stream);"
    )
