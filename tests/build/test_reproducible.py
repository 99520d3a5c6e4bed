"""The same sources give the same library, byte for byte, in any folder and any process, from nvcc too."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from opsmith.build.discover import discover
from opsmith.build.ninja import run_plan
from opsmith.build.plan import Target, plan_extension
from opsmith.codegen.extension import assemble
from opsmith.errors import ToolchainError
from opsmith.toolchain import find_toolchain
from opsmith.toolchain.archs import parse_cuda_archs

pytestmark = pytest.mark.compile


def library(project: Path, devices: tuple[str, ...], folder: Path) -> bytes:
    try:
        toolchain = find_toolchain(cuda="cuda" in devices, rocm=False)
    except ToolchainError as error:
        pytest.skip(f"no nvcc here: {error}")
    (group,) = discover(str(project / "user_scale" / "__init__.py"))
    target = Target(cuda_archs=parse_cuda_archs("9.0") if "cuda" in devices else ())
    folder.mkdir(parents=True)
    plan = plan_extension(assemble(group.module, group.definitions, devices), toolchain, target)
    return run_plan(plan, folder).read_bytes()


@pytest.mark.parametrize(
    "devices", [("cpu",), pytest.param(("cpu", "cuda"), marks=pytest.mark.slow("compiles with nvcc"))]
)
def test_two_checkouts_give_one_library(project: Path, tmp_path: Path, devices: tuple[str, ...]) -> None:
    other = tmp_path / "another" / "checkout"
    shutil.copytree(project, other)
    first = library(project, devices, tmp_path / "one")
    second = library(other, devices, tmp_path / "two" / "deeper")
    assert first == second
    assert str(tmp_path).encode() not in first
