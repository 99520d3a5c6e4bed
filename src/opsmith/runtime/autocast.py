"""Registers what an operator does under torch.autocast: the casts that its definition asks for, then the operator.

PyTorch calls these kernels only there, and only for tensors of the region's device type. The casts are ordinary
operators above autograd, so gradients flow through them. The bridge has the same in C++ (bridge/autocast.h), where a
weight's cast is kept until the region ends; Python cannot reach that cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from opsmith.runtime.bridge import find_bridge
from opsmith.runtime.differentiate import map_tensors, tensors_of
from opsmith.runtime.torch_ops import overload_of
from opsmith.spec.definition import Definition, Device
from opsmith.spec.dtypes import DTYPES

if TYPE_CHECKING:
    from opsmith.spec.casts import Autocast, CastPlan

__all__ = ["cast_arguments", "register_autocast", "without_autocast"]

_KEYS: dict[Device, str] = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}


def register_autocast(definition: Definition, lib: torch.library.Library) -> None:
    """Give an operator its behaviour under torch.autocast; what to cast is worked out when that is first asked for."""
    if definition.autocast is not None and any(p.tensor_type.is_floating for p in definition.signature.tensors):
        if (bridge := find_bridge()) is not None:
            if (plan := _plan_of(definition)) is not None:
                bridge.install_casts(definition.qualified_name, plan)
            return
        for device, key in _KEYS.items():
            lib.impl(definition.name, _kernel(definition, device), key, with_keyset=True)


def cast_arguments(definition: Definition, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call as autocast would make them, if it is on for their device."""
    plan = _plan_of(definition)
    device = next(t.device.type for p in definition.signature.tensors for t in tensors_of(arguments[p.name]))
    if plan is None or device not in _KEYS or not torch.is_autocast_enabled(device):
        return dict(arguments)
    return dict(zip(arguments, _cast(plan, list(arguments.values()), device), strict=True))


def without_autocast() -> AbstractContextManager[Any]:
    """Keep autocast away from the operators inside: each would make a choice of its own."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
    return torch._C._ExcludeDispatchKeyGuard(keys | torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA))


@cache
def _plan_of(definition: Definition) -> CastPlan | None:
    from opsmith.spec.casts import plan_casts

    return plan_casts(definition.signature, definition.autocast)


def _kernel(definition: Definition, device: Device) -> Callable[..., Any]:
    def autocast(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        plan = _plan_of(definition)
        with without_autocast():
            given = args if plan is None else _cast(plan, args, device)
            return overload_of(definition.qualified_name)(*given, **kwargs)

    return autocast


def _cast(plan: CastPlan, values: Sequence[Any], device: str) -> list[Any]:
    """Return positional arguments cast by a plan; what is cast already is handed on as it is.

    PyTorch leaves out arguments at the end that have their defaults.
    """
    cast = list(values)
    low = torch.get_autocast_dtype(device)
    for group in plan.groups:
        indexes = [index for index in group.arguments if index < len(cast)]
        given = frozenset(tensor.dtype for index in indexes for tensor in tensors_of(cast[index]))
        chosen = _choose(plan.rule, group.allowed, given, low)
        if chosen is not None and given != {chosen}:
            for index in indexes:
                cast[index] = map_tensors(partial(_to, chosen), cast[index])
    for index, wanted in plan.pinned:
        if index < len(cast):
            cast[index] = map_tensors(partial(_low_to, DTYPES[wanted].torch), cast[index])
    return cast


def _to(dtype: torch.dtype, tensor: Tensor) -> Tensor:
    return tensor.to(dtype)


def _low_to(dtype: torch.dtype, tensor: Tensor) -> Tensor:
    return tensor.to(dtype) if tensor.dtype in (torch.float16, torch.bfloat16, torch.float32) else tensor


@cache
def _choose(
    rule: Autocast, allowed: frozenset[str], given: frozenset[torch.dtype], low: torch.dtype
) -> torch.dtype | None:
    """`spec.casts.choose_type` in torch's types, each case worked out once."""
    from opsmith.spec.casts import choose_type

    def name(dtype: torch.dtype) -> str:
        return str(dtype).removeprefix("torch.")

    chosen = choose_type(rule, allowed, map(name, given), name(low))
    return None if chosen is None else DTYPES[chosen].torch
