"""Loads an operator in a process that has loaded nothing yet, and prints the seconds that it took.

    python first_load.py store MODULE      # what `op.load()` does, for the operators of a module
    python first_load.py library FILE      # what torch.ops.load_library does

Importing torch, opsmith and the module is not in the time: that is not the build's doing. The file is run by its path, and
imports opsmith for the first form alone.
"""

from __future__ import annotations

import importlib
import sys
import time

import torch

__all__: list[str] = []


def _main(kind: str, what: str) -> None:
    if kind == "library":
        started = time.perf_counter()
        torch.ops.load_library(what)
    else:
        from opsmith.runtime.operator import load_module, operators_of

        importlib.import_module(what)
        importlib.import_module("opsmith.runtime.load")  # load_module's own import; its time is opsmith's import
        operators = operators_of(what)
        started = time.perf_counter()
        load_module(what)
        assert all(operator.is_loaded for operator in operators)
    print(time.perf_counter() - started)


if __name__ == "__main__":
    _main(*sys.argv[1:])
