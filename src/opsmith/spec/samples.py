"""Finds the dimensions along which an operator's samples are independent; vmap and sharding rules follow from them.

Two things say so. A variadic group ("*n" or "*batch") of every output stands for any number of dimensions that the
operator does not tell apart: a view kernel sees them as one. Whatever else computes the operator might, by an argument
such as `dim: int`, so where it has integers nothing is concluded from a group. And `batch="B"`, or `batch=("N", "C")`,
names dimensions along each of which samples are computed by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from opsmith.errors import DefinitionError
from opsmith.spec.definition import Batch, Definition
from opsmith.spec.shapes import Shape
from opsmith.spec.signature import Kind, Signature, TensorType

__all__ = ["Samples", "check_batch", "find_samples"]

_INTEGERS = (Kind.INT, Kind.OPTIONAL_INT, Kind.INT_LIST)


@dataclass(frozen=True)
class Samples:
    """One dimension, or one variadic group of them, along which samples are independent."""

    name: str
    is_group: bool

    def index_in(self, shape: Shape) -> int | None:
        """Return which of the declared dimensions it is, or None if it is not one of them."""
        for index, dim in enumerate(shape.dims):
            if self.is_group and dim.variadic and dim.group == self.name:
                return index
            if not self.is_group and dim.expression is not None and dim.expression.name == self.name:
                return index
        return None

    def is_in(self, tensor: TensorType) -> bool:
        """Whether a tensor has the dimension."""
        return self.index_in(tensor.shape) is not None


def find_samples(definition: Definition) -> tuple[Samples, ...]:
    """Return the dimensions of independent samples, a variadic group first: adding to it needs no copy.

    A backward has those of its forward and none of its own: the gradient of a mean over "*n" has that group too, and
    depends on how many elements it has. Outputs of a backward that lack the dimension are gradients of inputs that all
    samples share, and so sums over the samples.
    """
    signature = definition.signature
    if definition.batch is False:
        return ()
    found = [] if definition.forward is not None or _may_count_dimensions(definition) else _groups(signature)
    found += [Samples(name, is_group=False) for name in _names(definition.batch)]
    if definition.forward is not None:
        present = [parameter.tensor_type for parameter in signature.tensors]
        inherited = [s for s in find_samples(definition.forward) if any(map(s.is_in, present))]
        found += [s for s in inherited if s not in found and (s.is_group or _misfit(signature, s) is None)]
    return tuple(sorted(found, key=lambda samples: not samples.is_group))


def check_batch(signature: Signature, batch: Batch, *, is_backward: bool) -> None:
    """Reject a `batch=` that does not name a dimension of independent samples; raises DefinitionError.

    Every output must have the dimension, except a backward's: its gradient of a weight is a sum over it.
    """
    if batch is None or batch is False:
        return
    if not isinstance(batch, str | tuple) or not all(isinstance(name, str) for name in batch):
        raise DefinitionError(
            f"{signature.name}: batch= is {batch!r}; give the name of a dimension, a tuple of names, False or None"
        )
    for name in _names(batch):
        samples = Samples(name, is_group=False)
        if (misfit := _misfit(signature, samples)) is not None:
            raise DefinitionError(f"{signature.name}: batch= names {name}, {misfit}")
        if not any(samples.is_in(parameter.tensor_type) for parameter in signature.tensors):
            raise DefinitionError(f"{signature.name}: batch= names {name}, which is a dimension of no input")
        for output in signature.outputs:
            if not is_backward and not samples.is_in(output.tensor):
                raise DefinitionError(
                    f"{signature.name}: batch= names {name}, but the output {output.name} has no such dimension "
                    f"({output.tensor.text}), so it does not belong to one sample"
                )


def _names(batch: Batch) -> tuple[str, ...]:
    return (batch,) if isinstance(batch, str) else batch or ()


def _groups(signature: Signature) -> list[Samples]:
    """Return the variadic group that all results and all arguments that are written to have, if there is one."""
    results = [output.tensor for output in signature.outputs] + [p.tensor_type for p in signature.mutated]
    groups = {tensor.shape.group for tensor in results}
    return [Samples(group, is_group=True) for group in groups if group is not None and len(groups) == 1]


def _may_count_dimensions(definition: Definition) -> bool:
    """Whether the operator could depend on a dimension's position in a group."""
    kernels = definition.kernels.values()
    if kernels and all(kernel.style == "view" for kernel in kernels):
        return False
    return any(parameter.kind in _INTEGERS for parameter in definition.signature.parameters)


def _misfit(signature: Signature, samples: Samples) -> str | None:
    """Return why a dimension cannot change in size without changing more than the number of samples, or None."""
    if any(parameter.kind is Kind.INT and parameter.name == samples.name for parameter in signature.parameters):
        return "which is an int argument: it would no longer be the size"
    for tensor in [p.tensor_type for p in signature.tensors] + [output.tensor for output in signature.outputs]:
        dims = [dim for dim in tensor.shape.dims if dim.expression and samples.name in dim.expression.names]
        if any(dim.expression and dim.expression.name is None for dim in dims):
            return f"which is part of the size {dims[0].text} in {tensor.text}: a batch must be a dimension by itself"
        if len(dims) > 1:
            return f"which occurs twice in {tensor.text}"
    return None
