"""Defects of CUDA and Triton kernels have their names, and operators without them pass; each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).with_name("planted")))

from gpu_rows import ALL_ROWS, GPU_TABLE, TWO_GPUS
from load import module

from opsmith.build.ninja import run_plan
from opsmith.build.plan import Target, plan_extension
from opsmith.codegen.extension import assemble
from opsmith.errors import ToolchainError
from opsmith.runtime.operator import Operator
from opsmith.spec.registry import declared_in
from opsmith.toolchain import find_toolchain, parse_cuda_archs

pytestmark = pytest.mark.compile

_TABLE = Path(__file__).with_name("planted") / "gpu_table.py"
_ROWS = [
    pytest.param(
        row.name,
        id=row.name,
        marks=[pytest.mark.skipif(row.named in TWO_GPUS and torch.cuda.device_count() < 2, reason="needs two GPUs")],
    )
    for row in ALL_ROWS
]


@pytest.mark.gpu
@pytest.mark.parametrize("name", _ROWS)
def test_the_defect_has_its_name_and_the_twin_none(name: str, tmp_path: Path) -> None:
    # This process may have used the GPU for other tests, and what is forked from it could not.
    file = tmp_path / "results.json"
    argv = [sys.executable, str(_TABLE), "--rows", name, "--processes", "1", "--json", str(file)]
    done = subprocess.run(
        argv,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{file.read_text() if file.exists() else ''}"
    (row,) = json.loads(file.read_text())["rows"]
    assert (row["checked"], row["twins"]) == (1, 1)


def test_there_are_enough_of_them_and_each_has_a_kernel() -> None:
    operators = {name for name, made in vars(module("gpu", True)).items() if isinstance(made, Operator)}
    names = [row.name for row in GPU_TABLE]
    assert len(names) == len(set(names)) >= 24
    assert set(names) == {name for name in operators if not name.endswith("_backward")}


@pytest.mark.slow("compiles for GPUs")
@pytest.mark.parametrize("planted", [True, False])
def test_the_kernels_compile_without_a_gpu(planted: bool, tmp_path: Path) -> None:
    try:
        toolchain = find_toolchain(cuda=True, rocm=False)
    except ToolchainError as error:
        pytest.skip(f"no nvcc here: {error}")
    name = module("gpu", planted).__name__
    definitions = [operator.definition for operator in declared_in(name)]
    extension = assemble(name, definitions, ("cuda",))
    target = Target(cuda_archs=parse_cuda_archs("9.0"))
    assert run_plan(plan_extension(extension, toolchain, target), tmp_path).is_file()
