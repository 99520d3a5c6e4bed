"""Compares the annotation of each gradient with that of its input: number of dimensions, sizes and element types.

A backward has its own names for sizes. What one of them is in the forward follows from the tensors that it takes from
there, whose dimensions have a name in both. A name that none of these tensors has is not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opsmith.errors import DefinitionError
from opsmith.spec.shapes import Dim, Shape
from opsmith.spec.signature import Output, Parameter, Signature, TensorType

__all__ = ["check_gradient_types"]

# A name of the backward -> the names that it stands for in the forward; None where that is a number or is computed.
_Meanings = Mapping[str, set[str | None]]


def check_gradient_types(
    forward: Signature,
    backward: Signature,
    pairs: Iterable[tuple[TensorType, TensorType]],
    gradients: Iterable[tuple[Output, Parameter]],
) -> None:
    """Reject a gradient that its input cannot have; raises DefinitionError with both annotations.

    `pairs` are the tensors that the backward takes, each as annotated there and in the forward; `gradients` are its
    outputs, each with the input it is the gradient of.
    """
    meanings = _meanings(pairs)
    for output, parameter in gradients:
        if reason := _why_impossible(forward, backward, output.tensor, parameter.tensor_type, meanings):
            raise DefinitionError(
                f"{backward.name}: {output.name} is annotated {output.tensor.text}, but {parameter.name} is "
                f"{parameter.tensor_type.text}: {reason}. A gradient has the shape and the element type of its input; "
                "gradients are returned in the order of the inputs, or in that of outputs="
            )


def _meanings(pairs: Iterable[tuple[TensorType, TensorType]]) -> _Meanings:
    meanings: dict[str, set[str | None]] = {}
    for own, other in pairs:
        for dim, same in _aligned(own.shape, other.shape):
            if (name := _name_of(dim)) is not None:
                meanings.setdefault(name, set()).add(_name_of(same))
    return meanings


def _why_impossible(
    forward: Signature, backward: Signature, found: TensorType, expected: TensorType, meanings: _Meanings
) -> str:
    """Return why a tensor annotated `found` is never the gradient of one annotated `expected`; empty if it may be."""
    if not set(backward.allowed(found)) & set(forward.allowed(expected)):
        return "they have no element type in common"
    if not _can_have_equal_ranks(found.shape, expected.shape):
        return f"they have {len(found.shape.dims)} and {len(expected.shape.dims)} dimensions"
    for dim, other in _aligned(found.shape, expected.shape):
        constants = [one.expression.constant if one.expression else None for one in (dim, other)]
        if None not in constants and constants[0] != constants[1]:
            return f"{dim.text} is not {other.text}"
        wanted, known = _name_of(other), meanings.get(_name_of(dim) or "", set())
        # Where a meaning is computed or a number, the sizes may be equal.
        if wanted is not None and known and None not in known and wanted not in known:
            same = " or ".join(sorted(name for name in known if name is not None))
            return f"the size {dim.text} of {backward.name} is {same} of {forward.name}, not {wanted}"
    return ""


def _can_have_equal_ranks(a: Shape, b: Shape) -> bool:
    least = [len(shape.dims) - (shape.variadic_index is not None) for shape in (a, b)]
    if a.variadic_index is None and b.variadic_index is None:
        return least[0] == least[1]
    if a.variadic_index is not None and b.variadic_index is not None:
        return True
    fixed, open_ = least if a.variadic_index is None else reversed(least)
    return fixed >= open_


def _aligned(a: Shape, b: Shape) -> Iterable[tuple[Dim, Dim]]:
    """Return the dimensions of two annotations in pairs, where it is clear which belong together."""
    if len(a.dims) != len(b.dims) or a.variadic_index != b.variadic_index:
        return ()
    return zip(a.dims, b.dims, strict=True)


def _name_of(dim: Dim) -> str | None:
    """Return the name that a dimension is, a variadic one with its star; None for a number, a computed one or `_`."""
    if dim.variadic:
        return dim.text if dim.group else None
    return dim.expression.name if dim.expression else None
