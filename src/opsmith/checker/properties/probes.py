"""Makes the calls that an operator must refuse: valid calls with one thing wrong at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from opsmith.spec.signature import Kind
from opsmith.subject.case import Case
from opsmith.subject.subject import Subject

__all__ = ["Probe", "probes_of"]

# What is wrong with the call, and what decides whether it may be answered:
#   size, dtype, layout, overlap   the definition, or the reference of an operator that has none
#   empty                          likewise, and what the reference refuses by a `raise` of its own
#   broadcast                      as for sizes; an answer must be the reference's
#   device                         the definition; not on the CPU, where PyTorch sends such a call elsewhere
#   missing                        must be refused
#   view                           an answer must be the reference's
#   leaf                           must be refused by operators with a definition
#   number                         the reference
About = Literal[
    "size", "empty", "broadcast", "dtype", "layout", "overlap", "device", "missing", "view", "leaf", "number"
]

_INTS = (-1, 0, 2**31, 2**32 + 1, -(2**31) - 1, 2**63 - 1, -(2**63))
_FLOATS = (math.nan, math.inf, -math.inf)
_INDICES = (-(2**63), -(2**40), -1 - 2**31, 2**31 - 1, 2**31, 2**63 - 1)
_INT_LISTS: tuple[list[int], ...] = ([], [-1], [0, 0], [1] * 9, [2**63 - 1, 2**63 - 1])
_STRINGS = ("", "x" * (1 << 20), "\0", "\N{SNOWMAN}")
_WRONG: dict[Kind | None, tuple[Any, ...]] = {
    Kind.INT: _INTS,
    Kind.OPTIONAL_INT: _INTS,
    Kind.FLOAT: _FLOATS,
    Kind.OPTIONAL_FLOAT: _FLOATS,
    Kind.STR: _STRINGS,
    Kind.INT_LIST: _INT_LISTS,
    Kind.FLOAT_LIST: ([], [math.nan], [1.0] * 9),
}


@dataclass(frozen=True)
class Probe:
    """A call with one thing wrong in it. `make` returns its arguments, made anew; `argument` is the one that is wrong."""

    label: str
    about: About
    argument: str
    make: Callable[[], dict[str, Any]]


def probes_of(subject: Subject, case: Case, device: str) -> Iterator[Probe]:
    """Yield the probes around a call that is right; the device is not touched before `make`."""
    values = case.build("cpu")
    for name, value in values.items():
        changes = _changes(subject, values, name, value, device)
        for label, about, change in changes:
            yield Probe(label, about, name, _remake(case, device, name, change))


_Change = tuple[str, About, Callable[[Any], Any]]


def _remake(case: Case, device: str, name: str, change: Callable[[Any], Any]) -> Callable[[], dict[str, Any]]:
    def make() -> dict[str, Any]:
        values = case.build(device)
        values[name] = change(values[name])
        return values

    return make


def _changes(subject: Subject, values: Mapping[str, Any], name: str, value: Any, device: str) -> Iterator[_Change]:
    if isinstance(value, Tensor):
        several = sum(map(_holds_tensors, values.values())) > 1
        yield from _of_tensor(name, value, device, several=several)
        if name in subject.mutated:
            yield from _of_written(name, value)
        if _may_miss(subject, name):
            yield f"{name} = None", "missing", lambda tensor: None
    elif isinstance(value, list) and value and isinstance(value[0], Tensor):
        yield f"{name} = []", "size", lambda tensors: []
        for label, about, change in _of_tensor(f"{name}[0]", value[0], device, several=True):
            yield label, about, partial(_first_changed, change)
        yield f"{name}[0] = None", "missing", lambda tensors: [None, *tensors[1:]]
    else:
        for wrong in _numbers(subject, name, value):
            yield f"{name} = {_short(wrong)}", "number", partial(_constant, wrong)


def _holds_tensors(value: Any) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, list) and bool(value) and isinstance(value[0], Tensor))


def _may_miss(subject: Subject, name: str) -> bool:
    """Whether None is wrong for a tensor: it is but for an optional one."""
    if subject.signature is not None:
        parameter = subject.signature.parameter(name)
        return parameter is not None and parameter.kind is Kind.TENSOR
    if subject.overload is not None:
        return all("Optional" not in str(a.type) for a in subject.overload._schema.arguments if a.name == name)
    return True


def _of_tensor(name: str, tensor: Tensor, device: str, *, several: bool) -> Iterator[_Change]:
    yield f"{name} with an extra dimension", "size", lambda t: t.unsqueeze(0)
    if tensor.dim() > 0 and tensor.shape[0] > 0:
        yield f"{name} with a dimension removed", "size", lambda t: t[0].clone()
    for dim, size in enumerate(tensor.shape):
        yield f"{name} with {size + 1} in dimension {dim}", "size", partial(_longer, dim)
        if size > 1:
            yield f"{name} with {size - 1} in dimension {dim}", "size", partial(_shorter, dim, size - 1)
        if size > 2:
            yield f"{name} with 1 in dimension {dim}", "broadcast", partial(_shorter, dim, 1)
        if size > 0:
            yield f"{name} with 0 in dimension {dim}", "empty", partial(_shorter, dim, 0)
    for dtype in _other_dtypes(tensor.dtype):
        yield f"{name} of {str(dtype).removeprefix('torch.')}", "dtype", partial(_cast, dtype)
    if several:
        yield f"{name} on the meta device", "device", lambda t: t.to("meta")
        if device != "cpu" and tensor.dim() > 0:
            yield f"{name} on the CPU", "device", lambda t: t.cpu()
    yield from _of_layouts(name, tensor)
    if tensor.numel() > 0 and not tensor.dtype.is_floating_point and not tensor.dtype.is_complex:
        yield from _of_indices(name, tensor)


def _of_layouts(name: str, tensor: Tensor) -> Iterator[_Change]:
    if tensor.dtype.is_floating_point:
        # The bits are those of the negated numbers, and only a flag says so.
        yield f"{name} as a lazily negated view", "view", lambda t: torch._neg_view(-t)
    if tensor.dtype.is_complex:
        yield f"{name} as a lazily conjugated view", "view", lambda t: torch.resolve_conj(t.conj()).conj()
    if tensor.dim() > 0 and tensor.dtype is not torch.bool:
        yield f"{name} sparse", "layout", lambda t: t.to_sparse()
    if tensor.dtype is torch.float32:
        yield f"{name} quantized", "layout", lambda t: torch.quantize_per_tensor(t.cpu(), 0.1, 0, torch.qint8)
    if tensor.dim() > 1 and tensor.dtype.is_floating_point:
        yield f"{name} nested", "layout", lambda t: torch.nested.nested_tensor(list(t.unbind(0)))


def _of_indices(name: str, tensor: Tensor) -> Iterator[_Change]:
    """Yield what no table has as many rows for, first and last."""
    if tensor.dtype is torch.bool:
        return
    info = torch.iinfo(tensor.dtype)
    # All of a type's range, and just below zero: -1 means the last row to PyTorch, and one row less has no meaning.
    # Nothing can be divided by 0.
    wrong = [number for number in (0, *_INDICES, -100_000, 100_000) if info.min <= number <= info.max]
    for number in wrong or [info.min, info.max]:
        yield f"{name}[-1] = {number}", "number", partial(_with_last, number)


def _of_written(name: str, tensor: Tensor) -> Iterator[_Change]:
    if any(size > 1 for size in tensor.shape):
        yield f"{name} expanded, though it is written to", "overlap", _expanded
    if tensor.dtype.is_floating_point:
        yield (
            f"{name} is a leaf that requires a gradient, though it is written to",
            "leaf",
            lambda t: t.requires_grad_(),
        )


def _numbers(subject: Subject, name: str, value: Any) -> tuple[Any, ...]:
    """Return what to give for an argument that is not a tensor."""
    parameter = subject.signature.parameter(name) if subject.signature is not None else None
    kind = parameter.kind if parameter is not None else _kind_of(value)
    return _WRONG.get(kind, ())


def _kind_of(value: Any) -> Kind | None:
    first = value[0] if isinstance(value, list) and value else value
    found = {int: Kind.INT, float: Kind.FLOAT, str: Kind.STR}.get(type(first))
    if isinstance(value, list):
        return {Kind.INT: Kind.INT_LIST, Kind.FLOAT: Kind.FLOAT_LIST}.get(found) if found else None
    return found


def _other_dtypes(dtype: torch.dtype) -> tuple[torch.dtype, ...]:
    """Return types that a tensor of a type may be given in by mistake; half precision has columns of its own."""
    if dtype.is_complex:
        return (torch.float32, torch.int64)
    if dtype.is_floating_point:
        other = torch.float64 if dtype is not torch.float64 else torch.float32
        return (other, torch.int64, torch.int32, torch.complex64, torch.float8_e4m3fn)
    return (torch.float32, torch.int32 if dtype is torch.int64 else torch.int64)


def _constant(value: Any, old: Any) -> Any:
    return value


def _first_changed(change: Callable[[Any], Any], tensors: list[Tensor]) -> list[Any]:
    return [change(tensors[0]), *tensors[1:]]


def _cast(dtype: torch.dtype, tensor: Tensor) -> Tensor:
    if tensor.dtype.is_floating_point and not dtype.is_floating_point and not dtype.is_complex:
        # Far from zero, so that bits that are read as another type cannot look right.
        return (tensor.to(torch.float64) * 10).round().to(dtype)
    return tensor.to(dtype)


def _longer(dim: int, tensor: Tensor) -> Tensor:
    if tensor.shape[dim] == 0:
        shape = [1 if index == dim else size for index, size in enumerate(tensor.shape)]
        return tensor.new_zeros(shape)
    return torch.cat([tensor, tensor.narrow(dim, tensor.shape[dim] - 1, 1)], dim)


def _shorter(dim: int, size: int, tensor: Tensor) -> Tensor:
    return tensor.narrow(dim, 0, size).clone(memory_format=torch.contiguous_format)


def _with_last(number: int, tensor: Tensor) -> Tensor:
    changed = tensor.clone(memory_format=torch.contiguous_format)
    changed.view(-1)[-1] = number
    return changed


def _expanded(tensor: Tensor) -> Tensor:
    dim = next(index for index, size in enumerate(tensor.shape) if size > 1)
    return tensor.narrow(dim, 0, 1).clone().expand(tensor.shape)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 40 else f"{text[:20]}... ({len(value)} long)"
