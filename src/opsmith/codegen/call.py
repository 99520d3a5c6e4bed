"""Generates the call of a kernel: a view kernel gets views, a native one torch's C++ types."""

from __future__ import annotations

from collections.abc import Iterator

from opsmith.codegen.cpp import view_type
from opsmith.spec.dtypes import DType
from opsmith.spec.signature import Kind, Signature, TensorType

__all__ = ["kernel_arguments", "native_arguments"]

# An argument other than a tensor, as a view kernel takes it, made from the binding's `arg_<name>`.
_PASSED = {Kind.STR: "{}.text()", Kind.INT_LIST: "{}.list()", Kind.FLOAT_LIST: "{}.list()"}
# What a native kernel takes as it is.
_PLAIN = frozenset({Kind.INT, Kind.FLOAT, Kind.BOOL})


def kernel_arguments(signature: Signature, dtypes: tuple[DType, ...]) -> Iterator[str]:
    """Yield the arguments of one instantiation of a view kernel, in the order of its parameters."""
    elements = {letter: dtype.cpp for letter, dtype in zip(signature.letters, dtypes, strict=True)}
    elementwise = {parameter.name for parameter in signature.elementwise}
    for parameter in signature.parameters:
        if parameter.tensor is None:
            yield _PASSED.get(parameter.kind, "{}").format(f"arg_{parameter.name}")
            continue
        kind = view_type(parameter.tensor, Kind.TENSOR, written=parameter.mutated, elements=elements)
        if parameter.kind is Kind.TENSOR_LIST:
            yield f"Views<{_arguments(kind)}>(arg_{parameter.name}).list()"
        else:
            flat = parameter.name in elementwise
            yield _view(f"arg_{parameter.name}", kind, parameter.tensor, flat)
    for output in signature.outputs:
        kind = view_type(output.tensor, Kind.TENSOR, written=True, elements=elements)
        yield _view(f"out_{output.name}", kind, output.tensor, bool(signature.group))


def native_arguments(signature: Signature) -> Iterator[str]:
    """Yield the arguments of a native kernel, in the order of its parameters."""
    for parameter in signature.parameters:
        name = f"arg_{parameter.name}"
        if parameter.kind in _PLAIN:
            yield name
        else:
            yield f"native_optional({name})" if parameter.kind is Kind.OPTIONAL_TENSOR else f"native({name})"


def _view(name: str, kind: str, tensor: TensorType, flat: bool) -> str:
    arguments = _arguments(kind)
    if flat:
        return f"flat_view<{arguments.rpartition(',')[0]}>({name})"
    index = tensor.shape.variadic_index
    if index is not None:
        return f"group_view<{arguments}>({name}, {index}, {tensor.shape.rank - index - 1})"
    return f"view<{arguments}>({name})"


def _arguments(kind: str) -> str:
    """The template arguments of a view's type: `View<const T, 2>` gives `const T, 2`."""
    return kind.partition("<")[2].removesuffix(">")
