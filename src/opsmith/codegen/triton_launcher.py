"""Generates the file that launches a Triton kernel: which of its specialisations, and the arguments that this takes."""

from __future__ import annotations

from collections.abc import Iterator

from opsmith.codegen.launcher import any_data, choose_values, generate_launcher
from opsmith.codegen.triton_variants import number_type
from opsmith.codegen.variants import Variants

__all__ = ["generate_triton_launcher"]


def generate_triton_launcher(variants: Variants) -> str:
    """Return the C++ file that launches a definition's Triton kernels."""
    return generate_launcher(
        variants,
        [*choose_values(variants), *_facts(variants), *_arguments(variants)],
        number=lambda dtypes: "double" if number_type(dtypes, variants.definition) == "float64" else "float",
    )


def _facts(variants: Variants) -> Iterator[str]:
    """Yield the computation of `kernel`, the place in the table."""
    yield "  embedded::Facts facts;"
    for argument in variants.arguments:
        if argument.role == "tensor":
            yield f"  facts.tensor(arg_{argument.name});"
        elif argument.quantity is not None:
            quantity, name = argument.quantity, f"number_{argument.name}"
            if quantity.is_unit:
                yield f"  facts.unit(arg_{quantity.tensor}.size[{quantity.axis}], {name});"
            else:
                yield f"  facts.{'inner' if quantity.is_inner else 'number'}({name});"
    places = ", ".join(map(str, variants.places))
    yield "  const int specialisation = facts.specialisation();"
    yield f"  constexpr int places[] = {{{places}}};"
    at = f"(choice * {len(variants.configs)} + config) * {len(variants.specialisations)} + places[specialisation]"
    yield f"  const int64_t kernel = first + {at};"


def _arguments(variants: Variants) -> Iterator[str]:
    """Yield the kernel's arguments, without those that it is compiled for, and the launch."""
    definition = variants.definition
    yield f"  embedded::Arguments<{max(1, len(variants.arguments))}> arguments;"
    if any(argument.quantity is not None and argument.quantity.is_unit for argument in variants.arguments):
        yield "  // What is compiled for unit strides does not take them."
        yield "  const bool has_strides = specialisation == 2 || specialisation == 4;"
    for argument in variants.arguments:
        name = f"arg_{argument.name}"
        if argument.role == "tensor":
            condition = f"if ({name}) " if argument.values else ""
            yield f"  {condition}arguments.add({name}.data);"
        elif argument.quantity is not None:
            condition = "if (has_strides) " if argument.quantity.is_unit else ""
            yield f"  {condition}arguments.add(number_{argument.name});"
        elif argument.role == "number":
            yield f"  arguments.add(static_cast<Number>({name}));"
        elif argument.role == "flag":
            yield f"  arguments.add(static_cast<uint8_t>({name}));"
    data = any_data(definition.signature)
    yield (
        f'  embedded::launch("{definition.name}", embedded::{variants.table}[kernel], '
        f"loaded_{definition.name}[kernel], grid, arguments, {data}, stream);"
    )
