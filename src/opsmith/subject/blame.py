"""Tells what a reference raises, which is a refusal, from what the oracle around it raises, which is a defect of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

__all__ = ["blamed_on_reference", "is_of_reference", "is_out_of_memory"]

_Run = Callable[[Mapping[str, Any]], list[Tensor]]
_MARK = "_opsmith_is_of_reference"
# PyTorch's words on a CPU and on a GPU, those of an opsmith kernel, and C++'s. An illegal access has "memory" too.
_OF_MEMORY = ("can't allocate memory", "out of memory", "not enough memory", "bad_alloc")


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
    return getattr(error, _MARK, False) or is_out_of_memory(error)


def is_out_of_memory(error: Exception) -> bool:
    """Whether an exception says that there is not the memory that a call asks for."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in _OF_MEMORY)
    )
