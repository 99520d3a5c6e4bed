"""Registers how an operator runs on DTensors: which dimensions may be sharded, and what the outputs are then.

Everything may be replicated. Along a dimension of independent samples (see `spec.samples`) every tensor that has it may
be sharded, the others are replicated, and an output of a backward that lacks it is a sum of what each device holds.

Importing torch.distributed.tensor takes most of a second, so nothing is registered until other code imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opsmith._forks import Lock
from opsmith.runtime.torch_ops import overload_of
from opsmith.spec.definition import Definition
from opsmith.spec.shapes import Shape
from opsmith.spec.signature import Kind, Parameter

if TYPE_CHECKING:
    from opsmith.spec.samples import Samples

__all__ = ["add_sharding_rule", "ensure_sharding_rules", "find_shardings"]

_pending: list[Definition] = []
_lock = Lock()

# What one way to run an operator says: for each output and for each tensor argument the axis that is sharded, None for a
# replicated tensor, or "sum".
Sharding = tuple[list["int | str | None"], list["int | None"]]


def add_sharding_rule(definition: Definition) -> None:
    """Note an operator that is being registered; its rule follows at once where DTensor is in use already."""
    if definition.signature.mutated and definition.rules.sharding is None:
        # What is written to a redistributed copy of an argument would be lost: such an operator has no derived rule.
        return
    _pending.append(definition)
    ensure_sharding_rules()


def ensure_sharding_rules() -> None:
    """Register the rules of all operators that were loaded since, if torch.distributed.tensor is imported.

    It is free if there is nothing to do, and must be called before an operator sees a DTensor.
    """
    if not _pending:
        return
    if not hasattr(sys.modules.get("torch.distributed.tensor"), "DTensor"):
        return  # not imported, or being imported right now
    from torch.distributed.tensor.experimental import register_sharding

    with _lock:
        while _pending:
            definition = _pending.pop()
            overload = overload_of(definition.qualified_name)
            register_sharding(overload)(definition.rules.sharding or _derived_rule(definition))


def find_shardings(definition: Definition, values: Sequence[Any]) -> list[Sharding]:
    """Return every way to run a call; `values` are its positional arguments, of whose tensors only `ndim` is looked at."""
    from opsmith.spec.samples import find_samples

    signature = definition.signature
    given = list(zip(signature.parameters, values, strict=False))
    ranks = _group_ranks(given)
    shardings: list[Sharding] = [([None] * len(signature.outputs), [None] * len(list(_tensors(given))))]
    for samples in find_samples(definition):
        for offset in range(ranks.get(samples.name, 0) if samples.is_group else 1):
            inputs = [_axis(p.tensor_type.shape, samples, ranks, offset) for p, _ in _tensors(given)]
            outputs = [_axis(output.tensor.shape, samples, ranks, offset) for output in signature.outputs]
            shardings.append((["sum" if axis is None else axis for axis in outputs], inputs))
    return shardings


def _derived_rule(definition: Definition) -> Callable[..., Any]:
    """Return the rule in the form that torch.distributed.tensor.experimental.register_sharding takes."""

    def rule(*args: Any, **kwargs: Any) -> list[tuple[list[Any], list[Any]]]:
        from torch.distributed.tensor import Partial, Replicate, Shard

        def placement(axis: int | str | None) -> Any:
            return Replicate() if axis is None else Partial("sum") if axis == "sum" else Shard(int(axis))

        return [
            ([placement(axis) for axis in outputs], [placement(axis) for axis in inputs])
            for outputs, inputs in find_shardings(definition, args)
        ]

    return rule


def _tensors(given: Sequence[tuple[Parameter, Any]]) -> Iterator[tuple[Parameter, Any]]:
    """Yield every tensor of a call with its parameter, those of lists one by one."""
    for parameter, value in given:
        if parameter.kind is Kind.TENSOR_LIST:
            yield from ((parameter, tensor) for tensor in value)
        elif parameter.kind.is_tensor and value is not None:
            yield parameter, value


def _group_ranks(given: Sequence[tuple[Parameter, Any]]) -> dict[str, int]:
    """Return how many dimensions each variadic group stands for."""
    ranks = {}
    for parameter, tensor in _tensors(given):
        shape = parameter.tensor_type.shape
        if shape.group is not None:
            ranks[shape.group] = tensor.ndim - (shape.rank - 1)
    return ranks


def _axis(shape: Shape, samples: Samples, ranks: Mapping[str, int], offset: int) -> int | None:
    """Return which axis of a tensor the samples' dimension is (the group's dimension number `offset`), or None."""
    index = samples.index_in(shape)
    if index is None:
        return None
    behind_group = shape.variadic_index is not None and index > shape.variadic_index
    return index - 1 + ranks[shape.group or ""] if behind_group else index + offset
