"""How a binding passes a call on to a view kernel: tensors become views, everything else goes through."""

from __future__ import annotations

from collections.abc import Iterator

from opsmith.codegen.cpp import view_type
from opsmith.spec.dtypes import DType
from opsmith.spec.signature import Kind, Signature, TensorType

__all__ = ["kernel_arguments"]

# A non-tensor argument as the kernel takes it, made from the binding's `arg_<name>`.
_PASSED = {
    Kind.STR: "{}.c_str()",
    Kind.INT_LIST: "list_of({})",
    Kind.FLOAT_LIST: "list_of({})",
    Kind.OPTIONAL_INT: "optional_of({})",
    Kind.OPTIONAL_FLOAT: "optional_of({})",
    Kind.OPTIONAL_BOOL: "optional_of({})",
}


def kernel_arguments(signature: Signature, dtypes: tuple[DType, ...]) -> Iterator[str]:
    """Yield the arguments of one instantiation, in the order of its parameters."""
    elements = {letter: dtype.cpp for letter, dtype in zip(signature.letters, dtypes, strict=True)}
    elementwise = {parameter.name for parameter in signature.elementwise}
    for parameter in signature.parameters:
        if parameter.tensor is None:
            yield _PASSED.get(parameter.kind, "{}").format(f"arg_{parameter.name}")
            continue
        kind = view_type(parameter.tensor, Kind.TENSOR, written=parameter.mutated, elements=elements)
        if parameter.kind is Kind.TENSOR_LIST:
            yield f"list_of(views<{_arguments(kind)}>(in_{parameter.name}))"
        else:
            flat = parameter.name in elementwise
            yield _view(f"in_{parameter.name}", kind, parameter.tensor, flat)
    for output in signature.outputs:
        kind = view_type(output.tensor, Kind.TENSOR, written=True, elements=elements)
        yield _view(f"out_{output.name}", kind, output.tensor, bool(signature.group))


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
