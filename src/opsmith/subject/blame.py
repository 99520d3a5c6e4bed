"""Tells what a reference raises, which is a refusal, from what the oracle around it raises, which is a defect of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["blamed_on_reference", "is_of_reference"]

_Run = Callable[[Mapping[str, Any]], list[Tensor]]
_MARK = "_opsmith_is_of_reference"


def blamed_on_reference(run: _Run) -> _Run:
    """Return `run` so that `is_of_reference` knows what it raises."""

    def call(given: Mapping[str, Any]) -> list[Tensor]:
        try:
            return run(given)
        except Exception as error:
            setattr(error, _MARK, True)
            raise

    return call


def is_of_reference(error: Exception) -> bool:
    """Whether a reference raised an exception, or there was no memory for what it gives in float64."""
    return getattr(error, _MARK, False) or isinstance(error, MemoryError | torch.OutOfMemoryError) or _is_memory(error)


def _is_memory(error: Exception) -> bool:
    return isinstance(error, RuntimeError) and "not enough memory" in str(error)
