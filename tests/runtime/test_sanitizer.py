"""The bridge and a generated binding under AddressSanitizer: calls, gradients of both orders, errors, dropped graphs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import opsmith

pytestmark = [pytest.mark.compile, pytest.mark.nightly("builds the bridge under AddressSanitizer")]

BRIDGE = Path(opsmith.__file__).parent / "bridge"

CHILD = """
import torch
from opsmith.ops.lltm import lltm_cell
from opsmith.ops.sigmoid import sigmoid
from opsmith.runtime.bridge import find_bridge

assert find_bridge() is not None
cell = [torch.randn(shape).requires_grad_() for shape in ((2, 3), (2, 2), (2, 2), (6, 5), (6,))]
x = torch.randn(8, requires_grad=True)
for _ in range(200):
    hidden, state = lltm_cell(*cell)
    torch.autograd.grad(hidden.sum() + state.sum(), cell)
    (first,) = torch.autograd.grad(sigmoid(x=x).sum(), x, create_graph=True)
    first.sum().backward()
    lltm_cell(*cell)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        lltm_cell(*cell)
    for wrong in ((torch.ones(3, dtype=torch.int64),), (x, x), ("x",)):
        try:
            sigmoid(*wrong)
        except Exception:
            continue
        raise AssertionError(wrong)
print("clean")
"""

# Most of the time goes into torch's headers: the bridge's two sources read them together, in the second one's step.
SANITIZING = """#!/bin/sh
set -- {compiler} -fsanitize=address "$@" -O0
case " $* " in
  *" -c "*/autograd.cpp\\ *) : >empty.cpp; exec {compiler} -c empty.cpp -MD -MF autograd.cpp.d -o autograd.cpp.o;;
  *" -c "*/python.cpp\\ *) exec "$@" -include {bridge}/autograd.cpp;;
  *) exec "$@";;
esac
"""


def test_no_access_outside_of_what_is_owned(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++, whose libasan is taken")
    found = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libstdc++.so.6")
    ]
    if not all(Path(library).is_absolute() for library in found):
        pytest.skip("this g++ comes without libasan")
    # Last, so that it counts: unoptimised code is instrumented sooner, and keeps every access.
    sanitizing = tmp_path / "sanitizing-c++"
    sanitizing.write_text(SANITIZING.format(compiler=compiler, bridge=BRIDGE))
    sanitizing.chmod(0o755)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "OPSMITH_CACHE_DIR": str(tmp_path / "store"),
        "OPSMITH_BRIDGE": "wait",
        "CXX": str(sanitizing),
        # libstdc++ too: the sanitizer looks for its exceptions when the process starts.
        "LD_PRELOAD": " ".join(found),
        # Python itself never frees everything; test_leaks.py watches what grows.
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD], env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "clean"
    (library,) = (tmp_path / "store").rglob("opsmith_bridge.*.so")
    symbols = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True).stdout
    assert "__asan_report_load8" in symbols
