"""Defects of Triton kernels are called by their names through Triton's interpreter, and the kernels without them pass.

On a GPU, `test_planted_gpu.py` checks them as well, and those that the interpreter cannot show.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from some import some

sys.path.append(str(Path(__file__).with_name("planted")))

from gpu_rows import INTERPRETED_ROWS
from in_triton_rows import NEED_A_GPU, ROWS
from load import module

from opsmith.build.ninja import run_plan
from opsmith.build.plan import Target, plan_extension
from opsmith.codegen.extension import assemble
from opsmith.runtime.operator import Operator
from opsmith.spec.registry import declared_in
from opsmith.toolchain import find_toolchain, parse_cuda_archs

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed"),
]

_TABLE = Path(__file__).with_name("planted") / "gpu_table.py"


def _check(names: list[str], file: Path, *options: str) -> list[dict[str, Any]]:
    argv = [sys.executable, str(_TABLE), "--interpret", "--processes", "1", *options, "--json", str(file)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([*argv, "--rows", *names], env=env, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{file.read_text() if file.exists() else ''}"
    found: list[dict[str, Any]] = json.loads(file.read_text())["rows"]
    return found


# A process imports torch, Triton and opsmith for seconds, and checks a row in less than one.
@pytest.mark.parametrize(
    "names",
    some([[row.name for row in INTERPRETED_ROWS[at::6]] for at in range(6)], 1, "checks of planted defects", at_most=2),
)
def test_its_property_finds_the_defect_and_not_the_twin(names: list[str], tmp_path: Path) -> None:
    rows = _check(names, tmp_path / "results.json", "--named-only")
    assert {row["name"]: (row["checked"], row["twins"]) for row in rows} == dict.fromkeys(names, (1, 1))


@pytest.mark.nightly("all properties of kernels in Triton's interpreter")
@pytest.mark.parametrize("name", [row.name for row in INTERPRETED_ROWS])
def test_the_defect_has_its_name_and_the_twin_none(name: str, tmp_path: Path) -> None:
    (row,) = _check([name], tmp_path / "results.json")
    assert (row["checked"], row["twins"]) == (1, 1)


def test_there_are_enough_of_them_and_each_has_a_kernel() -> None:
    operators = {name for name, made in vars(module("in_triton", True)).items() if isinstance(made, Operator)}
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names)) >= 10
    assert set(names) == {name for name in operators if not name.endswith("_backward")}
    assert set(names) > NEED_A_GPU
    assert len({row.named for row in ROWS}) >= 10


@pytest.mark.slow("compiles for GPUs")
@pytest.mark.parametrize(
    "planted", [pytest.param(True, marks=pytest.mark.nightly("the same kernels, each with a wrong line")), False]
)
def test_the_kernels_compile_without_a_gpu(planted: bool, tmp_path: Path) -> None:
    name = module("in_triton", planted).__name__
    definitions = [operator.definition for operator in declared_in(name)]
    toolchain = find_toolchain(cuda=False, rocm=False, ahead=["triton"])
    target = Target(cuda_archs=parse_cuda_archs("9.0a"))
    assert run_plan(plan_extension(assemble(name, definitions, ("cuda",)), toolchain, target), tmp_path).is_file()
