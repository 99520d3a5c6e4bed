"""Makes what a candidate is timed against: the reference as it is, and compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from opsmith.benchmark.compiled import compiling, short_text
from opsmith.benchmark.deadline import OutOfTime, time_limit

__all__ = ["rivals_of"]


@contextmanager
def rivals_of(
    reference: Callable[..., Any], against: Sequence[str], arguments: Sequence[Any], device: str, most_s: float
) -> Iterator[tuple[Mapping[str, Callable[..., Any]], tuple[str, ...]]]:
    """Yield the rivals by name, and notes on those that could not be made.

    What is compiled is made for the sizes of `arguments`, by a call with them, within `most_s` seconds.
    """
    if "compiled" not in against:
        yield {"eager": reference}, ()
        return
    with compiling(device):
        compiled = torch.compile(reference, dynamic=False)
        try:
            with time_limit(most_s), warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                compiled(*arguments)
        except OutOfTime:
            yield {"eager": reference}, (f"compiling the reference was stopped after {most_s:.0f} s",)
        except Exception as error:
            yield {"eager": reference}, (f"torch.compile of the reference failed: {short_text(error)}",)
        else:
            yield {"eager": reference, "compiled": compiled}, ()
