"""Loads benchmarks/build_time/axpy.py in a new process and prints the time it took as JSON.

Counts the programs that were started meanwhile: a load from the store must not start any.
"""

from __future__ import annotations

import json
import sys
import time

import torch

started_programs = 0


def watch(event: str, _: tuple) -> None:
    global started_programs  # noqa: PLW0603 -- an audit hook has no other place
    started_programs += event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec")


sys.addaudithook(watch)
before = time.perf_counter()
import opsmith  # noqa: E402, F401

imported = time.perf_counter()
from axpy import axpy  # noqa: E402

declared = time.perf_counter()
axpy.load()
loaded = time.perf_counter()
x = torch.randn(10)
assert torch.equal(axpy(2.0, x, x), 2 * x + x)
print(
    json.dumps(
        {
            "import_s": imported - before,
            "declare_s": declared - imported,
            "load_s": loaded - declared,
            "started_programs": started_programs,
        }
    )
)
