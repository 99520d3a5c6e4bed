"""Spells a signature's parts in C++: the one table that prototypes, instantiations and bindings share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opsmith.spec.cpp_names import identifier
from opsmith.spec.dtypes import DType
from opsmith.spec.signature import Kind, Parameter, Signature, Struct, TensorType

__all__ = [
    "SCALARS",
    "Spelling",
    "comment",
    "dtype_constant",
    "instance_parameters",
    "kernel_parameters",
    "string_literal",
    "symbol",
    "view_type",
]


@dataclass(frozen=True)
class Spelling:
    """How a non-tensor argument is written: in a view kernel and in a native kernel."""

    view: str
    native: str


SCALARS: dict[Kind, Spelling] = {
    Kind.INT: Spelling("int64_t", "int64_t"),
    Kind.FLOAT: Spelling("double", "double"),
    Kind.BOOL: Spelling("bool", "bool"),
    Kind.STR: Spelling("const char*", "const std::string&"),
    Kind.INT_LIST: Spelling("List<int64_t>", "const std::vector<int64_t>&"),
    Kind.FLOAT_LIST: Spelling("List<double>", "const std::vector<double>&"),
    Kind.OPTIONAL_INT: Spelling("Optional<int64_t>", "std::optional<int64_t>"),
    Kind.OPTIONAL_FLOAT: Spelling("Optional<double>", "std::optional<double>"),
    Kind.OPTIONAL_BOOL: Spelling("Optional<bool>", "std::optional<bool>"),
}


def string_literal(text: str) -> str:
    """Return a text as a C++ string literal in ASCII."""
    return f'"{"".join(map(_escaped, text.encode()))}"'


def _escaped(byte: int) -> str:
    if byte in b'"\\':
        return f"\\{chr(byte)}"
    # Octal, because an octal escape ends after three digits; a hexadecimal one would take in the digits behind it.
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"


def comment(text: str) -> str:
    """Return a text as a comment of one line, whatever the text holds."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return f"// {line}".rstrip("\\ ")  # a backslash at the end would make the next line part of the comment


def dtype_constant(dtype: DType) -> str:
    """Return what a binding compares a tensor's element type with."""
    return f"dtypes::{identifier(dtype.name)}"


def symbol(name: str, device: str, dtypes: tuple[DType, ...]) -> str:
    """Return the name of one instantiation of a kernel, which the binding calls."""
    return "__".join([name, device, *(dtype.name for dtype in dtypes)])


def view_type(tensor: TensorType, kind: Kind, *, written: bool, elements: Mapping[str, str]) -> str:
    """Return the type of a tensor in a view kernel; `elements` spells the template parameters."""
    element = tensor.pinned.cpp.removeprefix("opsmith::") if tensor.pinned else elements[tensor.letter or ""]
    container = "ViewList" if kind is Kind.TENSOR_LIST else "View"
    return f"{container}<{element if written else f'const {element}'}, {tensor.shape.rank}>"


def kernel_parameters(signature: Signature, elements: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (type, name) of a view kernel's parameters: the inputs as they are declared, then the outputs."""
    return _inputs(signature.declared, elements) + _outputs(signature, elements)


def instance_parameters(signature: Signature, elements: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (type, name) of what the binding calls: as the kernel's, with the fields of structs in their place."""
    return _inputs(signature.parameters, elements) + _outputs(signature, elements)


def _inputs(items: Iterable[Parameter | Struct], elements: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(_parameter_type(item, elements), identifier(item.name)) for item in items]


def _outputs(signature: Signature, elements: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (view_type(output.tensor, Kind.TENSOR, written=True, elements=elements), identifier(output.name))
        for output in signature.outputs
    ]


def _parameter_type(parameter: Parameter | Struct, elements: Mapping[str, str]) -> str:
    if isinstance(parameter, Struct):
        return parameter.cpp_name
    if parameter.tensor is None:
        return SCALARS[parameter.kind].view
    return view_type(parameter.tensor, parameter.kind, written=parameter.mutated, elements=elements)
