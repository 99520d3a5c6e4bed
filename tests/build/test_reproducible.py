"""The same sources give the same library, byte for byte, in any folder and any process, from nvcc too."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from forks import python_c

pytestmark = pytest.mark.compile

# One process has one module of a name.
_BUILD = """
import sys
from pathlib import Path
from opsmith.build.discover import discover
from opsmith.build.ninja import run_plan
from opsmith.build.plan import Target, plan_extension
from opsmith.codegen.extension import assemble
from opsmith.errors import ToolchainError
from opsmith.toolchain import find_toolchain
from opsmith.toolchain.archs import parse_cuda_archs

project, folder, *devices = sys.argv[1:]
try:
    toolchain = find_toolchain(cuda="cuda" in devices, rocm=False)
except ToolchainError as error:
    sys.exit(f"no nvcc here: {error}")
(group,) = discover(project)
target = Target(cuda_archs=parse_cuda_archs("9.0") if "cuda" in devices else ())
Path(folder).mkdir(parents=True)
plan = plan_extension(assemble(group.module, group.definitions, tuple(devices)), toolchain, target)
print(run_plan(plan, Path(folder)))
"""


def library(project: Path, devices: tuple[str, ...], folder: Path) -> bytes:
    done = python_c(_BUILD, [str(project / "user_scale"), str(folder), *devices], env=os.environ)
    if "no nvcc here" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip()).read_bytes()


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
