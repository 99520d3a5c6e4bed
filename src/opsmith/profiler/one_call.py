"""Makes one call of an operator, for a profiler that watches the whole process.

    python -m opsmith.profiler.one_call MODULE NAME PHASE FILE

FILE holds the arguments. The same call is made once before, unwatched, so that loading and compiling are not profiled.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from opsmith.build.standalone import take_for_copies
from opsmith.profiler.calls import backward_calls, gradients
from opsmith.runtime.operator import operators_of

__all__: list[str] = []


def _main(module: str, name: str, phase: str, file: str) -> None:
    take_for_copies()
    importlib.import_module(module)
    (operator,) = [one for one in operators_of(module) if one.definition.name == name]
    args, kwargs = torch.load(file, weights_only=True)
    function: Callable[..., Any] = operator
    if phase == "backward":
        (args, kwargs), _ = backward_calls((args, kwargs), operator, None)
        function = gradients
    with torch.no_grad() if phase == "forward" else nullcontext():
        function(*args, **kwargs)
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        function(*args, **kwargs)
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()


if __name__ == "__main__":
    _main(*sys.argv[1:])
