"""Compares what a Python body returned with what its definition declares, wherever a body runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from opsmith.errors import DefinitionError
from opsmith.spec.signature import Output

__all__ = ["check_form", "check_tensors", "results_of"]


def results_of(found: Any) -> Sequence[Any]:
    """Return what a body returned as a sequence: of several results, of one, or of none where it is None."""
    if isinstance(found, (tuple, list)):
        return found
    return () if found is None else (found,)


def check_tensors(where: str, results: Sequence[Any], needed: Sequence[bool]) -> None:
    """Raise DefinitionError unless a body returned a result for each output, and a tensor for each that is needed."""
    declared = len(needed)
    if len(results) != declared or not all(
        isinstance(item, Tensor) or not need for item, need in zip(results, needed, strict=True)
    ):
        found = ", ".join(type(item).__name__ for item in results) or "nothing"
        raise DefinitionError(
            f"{where}: the body returned {found}, the definition says {declared} tensor{'' if declared == 1 else 's'}"
        )


def check_form(
    where: str, output: Output, result: Tensor, sizes: tuple[Any, ...], dtype: torch.dtype | None = None
) -> None:
    """Raise DefinitionError if one result of a body does not have the declared sizes and dtype.

    Symbolic sizes are not compared: to compare those that only the graph's run tells is an error.
    """
    where = f"{where}: the body's output {output.name}"
    found = tuple(result.shape)
    if found != sizes and all(isinstance(size, int) for size in (*found, *sizes)):
        raise DefinitionError(f"{where} has the sizes {found}, the definition says {sizes}: {output.tensor.text}")
    if dtype is not None and result.dtype != dtype:
        raise DefinitionError(f"{where} is {result.dtype}, the definition says {dtype}")
