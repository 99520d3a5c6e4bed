"""TRITON_INTERPRET=1 runs Triton kernels on the CPU, where `opsmith check` finds what is wrong with them."""

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
_CHECK = """
import sys
import opsmith
from planted import doubled

report = opsmith.check(doubled, devices="cpu", properties=[sys.argv[1]], dtypes=["float32"], seconds=20)
print(report.failed)
"""


@pytest.mark.compile
@pytest.mark.slow("checks an operator for each planted defect")
@pytest.mark.parametrize(
    ("right", "wrong", "found"),
    [
        ("", "", None),
        ("2 * tl.load", "2.001 * tl.load", "value"),
        ("tl.program_id(0) * BLOCK", "tl.program_id(0) * 63", "sizes"),
        ("tl.load(x + at, at < n), at < n", "tl.load(x + at, at < n), at < n - 1", "outputs written"),
        ("tl.load(x + at, at < n), at < n", "tl.load(x + at, at < n), at <= n", "writes outside"),
        ("tl.load(x + at, at < n)", "tl.load(x + at)", "reads outside"),
        ("2 * tl.load(x + at, at < n)", "tl.maximum(2 * tl.load(x + at, at < n), -3e38)", "special values"),
    ],
)
def test_planted_defects_are_found(tmp_path: Path, right: str, wrong: str, found: str | None) -> None:
    (tmp_path / "planted.py").write_text(_DEFINITION)
    (tmp_path / "kernel.py").write_text(_KERNEL.replace(right, wrong) if right else _KERNEL)
    env = {**os.environ, "TRITON_INTERPRET": "1"}
    done = python_c(_CHECK, [found or "value"], cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == (f"('{found}',)" if found else "()")
