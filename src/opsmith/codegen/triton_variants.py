"""Writes what a Triton kernel is compiled for, as the step that compiles it reads it.

Triton compiles a kernel anew for each combination of properties of its arguments that it meets. Ahead of time they are
five (`SPECIALISATIONS`), of which a launch takes the first that holds for its arguments.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

from opsmith.codegen.variants import SPECIALISATIONS, Specialisation, Variants, make_variants
from opsmith.spec.definition import Definition
from opsmith.spec.dtypes import DType
from opsmith.spec.kernel_arguments import KernelArgument
from opsmith.spec.launch import Constant
from opsmith.spec.quantities import tensors_of
from opsmith.spec.triton import KernelFunction, match_arguments

__all__ = ["find_variants", "number_type", "request_text"]

# An element type as Triton writes it.
_TYPES = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "uint8": "u8",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "bool": "i1",
}


def find_variants(definition: Definition, function: KernelFunction) -> Variants:
    """Return what a kernel is compiled for; raises SignatureError if it does not fit, or if that is too much."""
    arguments = match_arguments(definition, function)
    dtypes = definition.signature.combinations()
    choices = tuple(itertools.product(*(argument.values for argument in arguments if argument.values)))
    seen = [
        json.dumps([_signature(arguments, definition, dtypes[0], choices[0], each), _multiples(arguments, each)])
        for each in SPECIALISATIONS
    ]
    distinct = list(dict.fromkeys(seen))
    places = [distinct.index(each) for each in seen]
    return make_variants(definition, arguments, places, advice="without `tl.constexpr`")


def request_text(variants: Variants, module: str) -> str:
    """Return what the compile step (build/ahead/compile_kernels) reads: a line for each kernel.

    `module` is what the kernel's file is imported as.
    """
    kernel = variants.definition.kernels["cuda"]
    head = {"operator": variants.definition.name, "function": kernel.entry, "module": module}
    lines = [json.dumps(line) for line in _kernels(variants)]
    return json.dumps(head)[:-1] + ',\n"kernels": [\n' + ",\n".join(lines) + "\n]}\n"


def number_type(dtypes: tuple[DType, ...], definition: Definition) -> str:
    """Return the element type of a kernel's floating-point numbers: float64 where its tensors are, else float32."""
    names = {dtype.name for dtype in dtypes}
    names |= {tensor.pinned.name for tensor in tensors_of(definition.signature).values() if tensor.pinned}
    return "float64" if "float64" in names else "float32"


def _kernels(variants: Variants) -> Iterator[dict[str, object]]:
    definition, arguments = variants.definition, variants.arguments
    wide = {place for place, each in zip(variants.places, SPECIALISATIONS, strict=True) if each.is_wide}
    for dtypes, choice, config, special in itertools.product(
        variants.dtypes, variants.choices, variants.configs, variants.specialisations
    ):
        types, constants = _signature(arguments, definition, dtypes, choice, special)
        is_near = not special.is_wide and variants.specialisations.index(special) not in wide
        yield {
            "types": types,
            "constants": {**constants, **dict(config.constants)},
            "multiples": [name for name in _multiples(arguments, special) if types[name] != "constexpr"],
            # Tensors that end within 2 GB; where one kernel serves narrow and wide numbers, that is not known.
            "near": [name for name, kind in types.items() if kind.startswith("*")] if is_near else [],
            "options": dict(config.options),
        }


def _signature(
    arguments: tuple[KernelArgument, ...],
    definition: Definition,
    dtypes: tuple[DType, ...],
    choice: tuple[Constant | None, ...],
    special: Specialisation,
) -> tuple[dict[str, str], dict[str, Constant | None]]:
    """Return the type of each parameter as Triton writes it, and the values of those that are constants."""
    types: dict[str, str] = {}
    constants: dict[str, Constant | None] = {}
    chosen = iter(choice)
    for argument in arguments:
        name = argument.name
        value = next(chosen) if argument.values else None
        if argument.role == "tensor" and value is not False:
            types[name] = f"*{_TYPES[_element(definition, name, dtypes)]}"
        elif argument.role == "quantity" and not _is_constant(argument, special):
            types[name] = "i64" if special.is_wide else "i32"
        elif argument.role in ("number", "flag"):
            types[name] = _TYPES[number_type(dtypes, definition)] if argument.role == "number" else "u1"
        else:
            types[name] = "constexpr"
            if argument.role != "constant":
                constants[name] = 1 if argument.role == "quantity" else None if argument.role == "tensor" else value
    return types, constants


def _is_constant(argument: KernelArgument, special: Specialisation) -> bool:
    return argument.quantity is not None and argument.quantity.is_unit and special.is_aligned


def _multiples(arguments: tuple[KernelArgument, ...], special: Specialisation) -> list[str]:
    """Return the parameters that are multiples of 16: aligned pointers, and what decides how wide accesses may be."""
    return [
        argument.name
        for argument in arguments
        if (argument.role == "tensor" and special.is_aligned)
        or (argument.quantity is not None and argument.quantity.is_inner and special.is_multiple)
    ]


def _element(definition: Definition, name: str, dtypes: tuple[DType, ...]) -> str:
    tensor = tensors_of(definition.signature)[name]
    if tensor.pinned is not None:
        return tensor.pinned.name
    return dict(zip(definition.signature.letters, dtypes, strict=True))[tensor.letter or ""].name
