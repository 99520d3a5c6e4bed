"""Says where a task's inputs are made: on the CPU, or where PyTorch is told to make tensors by default.

A block in `torch.device("cuda")` makes them on the GPU, which draws millions of numbers in a moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.memory import offset_of, span_of

__all__ = ["generator_of", "here", "on_device"]


def generator_of(seed: int) -> torch.Generator:
    """Return a generator for numbers that are drawn where tensors are made by default."""
    return torch.Generator(torch.get_default_device()).manual_seed(seed)


def here(tensor: Tensor) -> Tensor:
    """Return a tensor where tensors are made by default, see `on_device`."""
    return _moved(tensor, torch.get_default_device())


def on_device(value: Any, device: str | torch.device) -> Any:
    """Return an argument, or several by name, with tensors on a device; one that is there already is itself.

    Gaps between elements stay, and how far the first one is off an alignment.
    """
    if isinstance(value, Tensor):
        return _moved(value, torch.device(device))
    if isinstance(value, Mapping):
        return {name: on_device(item, device) for name, item in value.items()}
    return [on_device(item, device) for item in value] if isinstance(value, list | tuple) else value


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    if tensor.device.type == device.type:
        return tensor
    if tensor.is_conj() or tensor.is_neg() or tensor.numel() == 0:
        return tensor.to(device)
    offset = offset_of(tensor)
    flat = torch.as_strided(tensor, (offset + span_of(tensor),), (1,), tensor.storage_offset() - offset)
    return flat.to(device).as_strided(tensor.shape, tensor.stride(), offset)
