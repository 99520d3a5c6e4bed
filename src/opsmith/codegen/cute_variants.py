"""Writes what a CuTe DSL kernel is compiled for, as the step that compiles it reads it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

from opsmith.codegen.variants import SPECIALISATIONS, Variants, make_variants
from opsmith.spec.cute import match_cute_arguments
from opsmith.spec.cute_function import CuteFunction
from opsmith.spec.definition import Definition
from opsmith.spec.dtypes import DType
from opsmith.spec.kernel_arguments import KernelArgument
from opsmith.spec.launch import Config, Constant
from opsmith.spec.quantities import tensors_of, view_rank

__all__ = ["cute_request_text", "find_cute_variants"]

# An element type as CuTe DSL has it.
_TYPES = {
    "float16": "Float16",
    "bfloat16": "BFloat16",
    "float32": "Float32",
    "float64": "Float64",
    "uint8": "Uint8",
    "int8": "Int8",
    "int16": "Int16",
    "int32": "Int32",
    "int64": "Int64",
    "bool": "Boolean",
}
_NUMBERS = {"int32_t": "Int32", "int64_t": "Int64", "float": "Float32", "double": "Float64"}


def find_cute_variants(definition: Definition, function: CuteFunction) -> Variants:
    """Return what a kernel is compiled for; raises SignatureError if it does not fit, or if that is too much."""
    arguments = match_cute_arguments(definition, function)
    places = [0] * len(SPECIALISATIONS)  # sizes and strides have 64 bits, data is aligned
    return make_variants(definition, arguments, places, advice="as `cutlass.Boolean`")


def cute_request_text(variants: Variants, function: CuteFunction, module: str) -> str:
    """Return what the compile step (build/ahead/compile_kernels) reads: a line for each kernel.

    `module` is what the kernel's file is imported as.
    """
    head = {
        "operator": variants.definition.name,
        "function": function.name,
        "line": function.line,
        "module": module,
    }
    lines = [json.dumps({"arguments": dict(line)}) for line in _kernels(variants)]
    return json.dumps(head)[:-1] + ',\n"kernels": [\n' + ",\n".join(lines) + "\n]}\n"


def _kernels(variants: Variants) -> Iterator[Iterator[tuple[str, dict[str, object]]]]:
    for dtypes, choice, config in itertools.product(variants.dtypes, variants.choices, variants.configs):
        yield _arguments(variants, dtypes, choice, config)


def _arguments(
    variants: Variants, dtypes: tuple[DType, ...], choice: tuple[Constant | None, ...], config: Config
) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the name of each parameter, and what a kernel is compiled for there."""
    signature = variants.definition.signature
    chosen, constants = iter(choice), dict(config.constants)
    for argument in variants.arguments:
        name = argument.name
        value = next(chosen) if argument.values else None
        if argument.role == "constant":
            yield name, {"constant": constants[name]}
        elif argument.role == "choice" or (argument.role == "tensor" and value is False):
            # An optional tensor that is absent is None.
            yield name, {"constant": value if argument.role == "choice" else None}
        elif argument.role == "tensor":
            yield name, {"tensor": _element(variants, name, dtypes), "rank": view_rank(signature, name)}
        elif argument.role == "stream":
            yield name, {"stream": True}
        else:
            yield name, {"number": _number(argument)}


def _number(argument: KernelArgument) -> str:
    return "Boolean" if argument.role == "flag" else _NUMBERS[argument.type]


def _element(variants: Variants, name: str, dtypes: tuple[DType, ...]) -> str:
    signature = variants.definition.signature
    tensor = tensors_of(signature)[name]
    if tensor.pinned is not None:
        return _TYPES[tensor.pinned.name]
    return _TYPES[dict(zip(signature.letters, dtypes, strict=True))[tensor.letter or ""].name]
