"""TRITON_INTERPRET=1 runs Triton kernels on the CPU; tests/checker/test_planted_triton.py has what a check finds there."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from forks import python_c

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")

_DEFINITION = """
import opsmith
from jaxtyping import Float
from torch import Tensor


@opsmith.op(cuda=opsmith.triton("kernel.py:doubled", grid="cdiv(n, BLOCK)", BLOCK=64), outputs="y")
def doubled(x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    return 2 * x
"""
_KERNEL = """
import triton
import triton.language as tl


@triton.jit
def doubled(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, at < n), at < n)
"""
_CALLS = """
from concurrent.futures import ThreadPoolExecutor

import torch
from twice import doubled

inputs = [torch.randn(500) for _ in range(16)]
with ThreadPoolExecutor(4) as pool:
    for x, y in zip(inputs, pool.map(doubled, inputs)):
        torch.testing.assert_close(y, 2 * x)
"""


@pytest.mark.compile
def test_threads_may_call_at_once(tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text(_DEFINITION)
    (tmp_path / "kernel.py").write_text(_KERNEL)
    done = python_c(_CALLS, cwd=tmp_path, env={**os.environ, "TRITON_INTERPRET": "1"})
    assert done.returncode == 0, done.stderr
