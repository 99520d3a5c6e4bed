"""GPU kernels whose arithmetic a CPU can run, a thread for each of theirs: their results, where there is no GPU."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from compilers import INCLUDE, compiled, find_compiler, run

PROGRAMS = Path(__file__).parent / "emulated"


@pytest.mark.parametrize("program", ["filtered_lrelu_walk", "ms_deform_attn_few", "roi_pool_squares"])
def test_an_emulated_kernel_agrees_with_its_definition(program: str) -> None:
    header = hashlib.sha256((PROGRAMS / "gpu_on_threads.h").read_bytes()).hexdigest()  # `compiled` asks for its content
    flags = ["-std=c++20", "-O1", "-pthread", f"-I{INCLUDE}"]
    binary = compiled(PROGRAMS / f"{program}.cpp", find_compiler("g++"), *flags, EMULATED=header)
    assert f"{program}: passed" in run(binary).stdout
