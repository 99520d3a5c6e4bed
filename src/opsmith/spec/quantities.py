"""Lists the numbers of a call that a launched kernel may take by name, and that its launch may be computed from.

M                 a size that the shapes name; also S where a shape has 3*S
n                 the number of elements of a variadic group "*n"
x_stride_0        a stride of a tensor, in elements; dimensions count as in the annotation
x_size_1          a size of a tensor
x_numel           a tensor's number of elements
k                 an int argument
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from opsmith.spec.signature import Kind, Signature, TensorType
from opsmith.spec.sizes import BindGroup, BindSize, SolveSize, plan_sizes

__all__ = ["Quantity", "quantities", "tensors_of", "view_rank"]


@dataclass(frozen=True)
class Quantity:
    """One number: a size, stride or element count of `tensor`, whose dimension is `axis`, or an int argument.

    `is_inner` tells whether that it is a multiple of 16 matters for the kernel: it then widens the accesses to memory.
    `step` is set for a size that is solved for, such as S of 3*S.
    """

    name: str
    kind: Literal["size", "stride", "numel", "argument"]
    tensor: str = ""
    axis: int = 0
    is_inner: bool = False
    is_unit: bool = False
    step: SolveSize | None = None


def tensors_of(signature: Signature) -> dict[str, TensorType]:
    """Return the type of each tensor that a kernel gets a pointer to: inputs, then outputs."""
    inputs = {
        parameter.name: parameter.tensor_type
        for parameter in signature.tensors
        if parameter.kind is not Kind.TENSOR_LIST
    }
    return inputs | {output.name: output.tensor for output in signature.outputs}


def view_rank(signature: Signature, tensor: str) -> int:
    """Return the rank of the view that a kernel gets of a tensor."""
    return tensors_of(signature)[tensor].shape.rank


def quantities(signature: Signature) -> dict[str, Quantity]:
    """Return every number that a call of an operator offers, by name. The shapes' own names come first."""
    found: dict[str, Quantity] = {}
    for quantity in itertools.chain(_named(signature), _of_tensors(signature)):
        found.setdefault(quantity.name, quantity)
    return found


def _named(signature: Signature) -> Iterator[Quantity]:
    """Yield what has a name in the definition: sizes and int arguments."""
    innermost = {
        dim.expression.names
        for type_ in tensors_of(signature).values()
        for dim in type_.shape.dims[-1:]
        if dim.expression is not None
    }
    inner = frozenset().union(*innermost)
    for parameter in signature.parameters:
        if parameter.kind is Kind.INT:
            yield Quantity(parameter.name, "argument")
    for step in plan_sizes(signature).steps:
        if isinstance(step, (BindSize, SolveSize)):
            name = step.name if isinstance(step, BindSize) else step.affine.name
            axis = step.axis % step.parameter.tensor_type.shape.rank
            solved = step if isinstance(step, SolveSize) else None
            yield Quantity(name, "size", step.parameter.name, axis, is_inner=name in inner, step=solved)
        elif isinstance(step, BindGroup):
            yield Quantity(step.group, "size", step.parameter.name, step.index, is_inner=True)


def _of_tensors(signature: Signature) -> Iterator[Quantity]:
    for name, type_ in tensors_of(signature).items():
        last = type_.shape.rank - 1
        for axis in range(type_.shape.rank):
            yield Quantity(f"{name}_size_{axis}", "size", name, axis, is_inner=axis == last)
            yield Quantity(f"{name}_stride_{axis}", "stride", name, axis, is_inner=True, is_unit=axis == last)
        yield Quantity(f"{name}_numel", "numel", name, is_inner=True)
