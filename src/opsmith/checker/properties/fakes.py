"""Calls an operator on fake tensors, which hold no data, and compares the results with the real ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode, UnsupportedOperatorException
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from opsmith.subject.subject import Subject

__all__ = ["MissingFakeError", "call_fake", "depends_on_data", "difference"]

_MISSING = ("does not support running with fake tensors", "no fake impl registered", "no fake kernel", "Meta' backend")


class MissingFakeError(Exception):
    """The operator does not have a fake kernel."""


def call_fake(subject: Subject, values: Mapping[str, Any], *, symbolic: bool) -> list[Tensor]:
    """Return the results of the fake kernel for arguments like these, with symbols for sizes or without.

    Raises MissingFakeError if there is none, and whatever the fake kernel raises.
    """
    mode = FakeTensorMode(shape_env=ShapeEnv())

    def fake(value: Any) -> Any:
        if isinstance(value, Tensor):
            if not symbolic:
                return mode.from_tensor(value, static_shapes=True)
            dynamic = [DimDynamic.DYNAMIC] * value.dim()
            context: StatelessSymbolicContext[Any, Any] = StatelessSymbolicContext(dynamic_sizes=dynamic)
            return mode.from_tensor(value, symbolic_context=context)
        return [fake(item) for item in value] if isinstance(value, list) else value

    given = {name: fake(value) for name, value in values.items()}
    try:
        with mode:
            return subject.kernel_results(given)
    except UnsupportedOperatorException as error:
        raise MissingFakeError(str(error)) from error
    except (NotImplementedError, RuntimeError) as error:
        if any(words in str(error) for words in _MISSING):
            raise MissingFakeError(str(error)) from error
        raise


def difference(real: list[Tensor], fake: list[Tensor], inputs: list[Tensor]) -> str | None:
    """Return in what results of the fake kernel differ from the real ones, in words, or None.

    Real results that lie in the memory of an input are compared by shape and type alone: how such a one lies is that
    input's matter. Sizes that depend on the data are unknown to a fake kernel, and so are the strides after them.
    """
    if len(real) != len(fake):
        return f"the fake kernel returns {_count(len(fake))}, the real one {len(real)}"
    memory = {tensor.untyped_storage().data_ptr() for tensor in inputs if tensor.numel() > 0}
    for index, (one, other) in enumerate(zip(real, fake, strict=True)):
        is_alias = one.numel() > 0 and one.untyped_storage().data_ptr() in memory
        if (found := _difference(one, other, is_alias)) is not None:
            what, fakes, reals = found
            return f"{what} of output {index}: the fake kernel says {fakes}, the real one returns {reals}"
    return None


def depends_on_data(subject: Subject, values: Mapping[str, Any]) -> bool:
    """Tell whether the fake kernel leaves a size open, because it depends on the data."""
    try:
        results = call_fake(subject, values, symbolic=True)
    except Exception:
        return False
    return any(size is None for result in results for size in _numbers(result.shape))


def _difference(real: Tensor, fake: Tensor, is_alias: bool) -> tuple[str, Any, Any] | None:
    sizes = _numbers(fake.shape)
    if len(sizes) != real.dim() or any(a is not None and a != b for a, b in zip(sizes, real.shape, strict=True)):
        return "the shape", _shown(sizes), tuple(real.shape)
    for what, mine, theirs in (
        ("the element type", fake.dtype, real.dtype),
        ("the device", fake.device, real.device),
        ("requires_grad", fake.requires_grad, real.requires_grad),
    ):
        if mine != theirs:
            return what, mine, theirs
    if is_alias:
        return None
    if real.numel() > 0:
        strides = _numbers(fake.stride())
        pairs = zip(real.shape, strides, real.stride(), strict=True)
        # The stride of a dimension of size 1 is never used.
        if any(size > 1 and mine is not None and mine != theirs for size, mine, theirs in pairs):
            return "the strides", _shown(strides), tuple(real.stride())
    (offset,) = _numbers((fake.storage_offset(),))
    if offset is not None and offset != real.storage_offset():
        return "the storage offset", offset, real.storage_offset()
    return None


def _numbers(sizes: Any) -> tuple[int | None, ...]:
    """Return sizes as numbers: those that symbols stand for, and None for what depends on the data."""
    found: list[int | None] = []
    for size in sizes:
        if isinstance(size, torch.SymInt):
            node = size.node
            found.append(int(node.hint) if node.has_hint() else None)
        else:
            found.append(int(size))
    return tuple(found)


def _shown(sizes: tuple[int | None, ...]) -> str:
    inner = ", ".join("?" if size is None else str(size) for size in sizes)
    return f"({inner},)" if len(sizes) == 1 else f"({inner})"


def _count(number: int) -> str:
    return "one result" if number == 1 else f"{number} results"
