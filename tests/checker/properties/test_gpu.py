"""The properties of GPUs: streams, a second device, CUDA graphs; and their kernels compile where there is no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from kit import on_gpu

from opsmith.build.discover import discover
from opsmith.build.ninja import run_plan
from opsmith.build.plan import Target, plan_extension
from opsmith.checker.sanitize.run import run_sanitizer
from opsmith.codegen.extension import assemble
from opsmith.errors import ToolchainError
from opsmith.ops.add2 import add2
from opsmith.ops.lltm import lltm_gates
from opsmith.ops.sigmoid import sigmoid
from opsmith.toolchain import find_toolchain, parse_cuda_archs

NAMES = ("streams", "devices", "graph")


CHILD = """
import importlib, sys
from opsmith.checker.properties.table import chosen
from opsmith.checker.run import CheckPlan, run_check
from opsmith.subject.subject import subject_of

module, name, *properties = sys.argv[1:]
op = getattr(importlib.import_module(module), name)
report = run_check(subject_of(op, devices=("cuda",)), CheckPlan(chosen(tuple(properties)), dtypes=("float32",)))
for result in report.results:
    print(f"{result.name}: {result.outcome.state}: {result.outcome.note}")
    for finding in result.outcome.findings:
        print(finding.message)
"""


def states(op: Any, *names: str) -> dict[str, str]:
    """Check an operator in a process of its own: this one may have used the GPU for other tests."""
    definition = op.definition
    done = subprocess.run(
        [sys.executable, "-c", CHILD, definition.module, definition.name, *names],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "the check failed" not in done.stdout, done.stdout
    found = [line.split(": ")[:2] for line in done.stdout.splitlines() if line.split(": ")[0] in names]
    return dict(found)


def failures(op: Any) -> list[str]:
    return [name for name, state in states(op, "value", *NAMES).items() if state == "failed"]


@pytest.mark.compile
@pytest.mark.slow("compiles for GPUs, or runs compute-sanitizer")
def test_the_kernels_compile_without_a_gpu(tmp_path: Path) -> None:
    try:
        toolchain = find_toolchain(cuda=True, rocm=False)
    except ToolchainError as error:
        pytest.skip(f"no nvcc here: {error}")
    (group,) = discover(on_gpu.__name__)
    extension = assemble(group.module, group.definitions, ("cuda",))
    target = Target(cuda_archs=parse_cuda_archs("9.0"))
    assert run_plan(plan_extension(extension, toolchain, target), tmp_path).is_file()


@pytest.mark.gpu
@pytest.mark.compile
@pytest.mark.parametrize("op", [add2, sigmoid, lltm_gates, on_gpu.doubled])
def test_operators_that_are_right(op: Any) -> None:
    assert failures(op) == []


@pytest.mark.gpu
@pytest.mark.compile
@pytest.mark.parametrize(
    ("op", "name"),
    [
        (on_gpu.doubled_on_default_stream, "streams"),
        (on_gpu.doubled_and_waited_for, "graph"),
        (on_gpu.doubled_with_malloc, "graph"),
    ],
)
def test_a_defect_has_its_own_name(op: Any, name: str) -> None:
    assert failures(op) == [name]


@pytest.mark.gpu
@pytest.mark.compile
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_a_kernel_without_a_device_guard() -> None:
    assert failures(on_gpu.doubled_on_first_gpu) == ["devices"]


@pytest.mark.gpu
@pytest.mark.compile
def test_bad_arguments_are_probed_in_processes_of_their_own() -> None:
    found = states(on_gpu.doubled, "value", "bad arguments", "large")
    assert found == {"value": "passed", "bad arguments": "passed", "large": "passed"}


@pytest.mark.gpu
@pytest.mark.compile
@pytest.mark.slow("compiles for GPUs, or runs compute-sanitizer")
def test_memcheck_names_the_line() -> None:
    try:
        (result,) = run_sanitizer(on_gpu.shifted_on_gpu, "memcheck").results
    except ToolchainError as error:
        pytest.skip(str(error))
    line = next(
        n
        for n, text in enumerate(Path(on_gpu.__file__).with_suffix(".cu").read_text().splitlines(), 1)
        if "2 * x[n]" in text
    )
    assert result.outcome.state == "failed", result.outcome
    assert result.outcome.findings[0].message.startswith(f"on_gpu.cu:{line}: Invalid __global__ read of size 4 bytes")
