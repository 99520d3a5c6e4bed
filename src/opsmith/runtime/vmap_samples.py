"""Batches an operator that has a dimension for samples: torch.vmap's dimension is merged into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from opsmith.runtime.differentiate import tensors_of
from opsmith.spec.definition import Definition
from opsmith.spec.samples import Samples
from opsmith.spec.shapes import Shape
from opsmith.spec.signature import Output, Parameter

__all__ = ["BatchedCall", "call_once"]


@dataclass(frozen=True)
class BatchedCall:
    """A call under torch.vmap, one transform of it taken off.

    `dims` tells for each positional argument which dimension of its tensor counts the samples: an int, None for an
    argument that all samples share, and a list of them for a list. `size` is the number of samples.
    """

    definition: Definition
    overload: Any
    arguments: Mapping[str, Any]
    dims: Mapping[str, Any]
    size: int
    randomness: str

    @property
    def name(self) -> str:
        """The operator's name, for error messages."""
        return self.definition.name

    @cached_property
    def batched(self) -> tuple[Parameter, ...]:
        """The arguments that differ from sample to sample."""
        return tuple(p for p in self.definition.signature.tensors if any(d is not None for d in self.dims_of(p)))

    def dims_of(self, parameter: Parameter) -> list[int | None]:
        """Return that dimension for each tensor of an argument."""
        dims = self.dims.get(parameter.name)
        if isinstance(dims, (list, tuple)):
            return list(dims)
        return [dims] * len(tensors_of(self.arguments[parameter.name]))

    def fits(self, samples: Samples) -> bool:
        """Whether everything that differs from sample to sample has the dimension, arguments and outputs."""
        signature = self.definition.signature
        if signature.mutated and not samples.is_group:
            return False  # joining two dimensions may copy, and what is written to a copy is lost
        tensors = [p.tensor_type for p in self.batched] + [output.tensor for output in signature.outputs]
        return all(map(samples.is_in, tensors))

    def run(self, arguments: Mapping[str, Any]) -> tuple[Tensor, ...]:
        """Call the operator with some arguments in place of its own; return its outputs as a tuple."""
        parameters = self.definition.signature.parameters
        given = {**self.arguments, **arguments}
        results = self.overload(
            *(given[parameter.name] for parameter in parameters if not parameter.keyword_only),
            **{parameter.name: given[parameter.name] for parameter in parameters if parameter.keyword_only},
        )
        return results if isinstance(results, tuple) else () if results is None else (results,)

    def is_skipped(self, output: Output) -> bool:
        """Whether the caller does not need an output, which then has no elements."""
        return output.needed_by is not None and not self.arguments[output.needed_by]


def call_once(call: BatchedCall, samples: Samples) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Call the operator once; return its outputs, and which dimension of each counts the samples.

    A variadic group takes one more dimension as it is. With a single dimension B the samples are merged, to size * B; an
    argument that has B and is the same for all samples is repeated, for the kernel sees one of it in each row.
    """
    joined = {}
    lengths = []
    for parameter in call.definition.signature.tensors:
        index = samples.index_in(parameter.tensor_type.shape)
        given = call.arguments[parameter.name]
        if index is None or given is None:
            continue
        tensors = []
        for tensor, dim in zip(tensors_of(given), call.dims_of(parameter), strict=True):
            axis = _axis(parameter.tensor_type.shape, index, tensor.dim() - (dim is not None))
            if dim is None:
                sizes = list(tensor.shape)
                spread = tensor.unsqueeze(axis).expand(*sizes[:axis], call.size, *sizes[axis:])
            else:
                spread = tensor.movedim(dim, axis)
            if not samples.is_group:
                lengths.append(spread.shape[axis + 1])
            tensors.append(spread if samples.is_group else spread.flatten(axis, axis + 1))
        joined[parameter.name] = tensors if isinstance(given, (list, tuple)) else tensors[0]
    results, dims = [], []
    for output, result in zip(call.definition.signature.outputs, call.run(joined), strict=True):
        if call.is_skipped(output):
            rank = result.dim() - samples.is_group
            results.append(result.new_empty((call.size, *(0,) * rank)))
            dims.append(0)
            continue
        index = samples.index_in(output.tensor.shape)
        assert index is not None
        axis = _axis(output.tensor.shape, index, result.dim())
        results.append(result if samples.is_group else result.unflatten(axis, (call.size, lengths[0])))
        dims.append(axis)
    return tuple(results), tuple(dims)


def _axis(shape: Shape, index: int, rank: int) -> int:
    """Return which axis of a tensor of some rank a declared dimension is; the first one where it is a group."""
    axis = index if index == shape.variadic_index else shape.axis(index)
    return axis + rank if axis < 0 else axis
