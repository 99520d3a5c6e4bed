"""The same sources give the same library, byte for byte, in any folder and any process, from nvcc too."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from forks import python_c
from opsmith.build.discover import discover
from opsmith.build.ninja import run_plan
from opsmith.build.plan import Target, plan_extension
from opsmith.codegen.extension import assemble
from opsmith.errors import ToolchainError
from opsmith.toolchain import find_toolchain
from opsmith.toolchain.archs import parse_cuda_archs

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


# A native kernel whose GPU code lies in a file beside it, with an anonymous namespace.
_NATIVE = {
    "__init__.py": """
import opsmith
from jaxtyping import Float
from torch import Tensor

@opsmith.op(cuda=opsmith.native("twice.cpp", "launch/twice again.cu"), outputs="y")
def twice(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x + x
""",
    "twice.cpp": """
#include <opsmith/native.h>
void launch_twice(const float* x, float* y, int64_t size);
torch::stable::Tensor twice(const torch::stable::Tensor& x) {
  auto y = torch::stable::empty_like(x);
  launch_twice(static_cast<const float*>(x.data_ptr()), static_cast<float*>(y.data_ptr()), x.numel());
  return y;
}
""",
    "launch/twice again.cu": """
#include <cstdint>
#include "factor.cuh"
namespace {
__device__ int64_t calls;
__global__ void each(const float* x, float* y, int64_t size) {
  if (threadIdx.x == 0) ++calls;
  for (int64_t n = threadIdx.x; n < size; n += blockDim.x) y[n] = factor * x[n];
}
}  // namespace
void launch_twice(const float* x, float* y, int64_t size) { each<<<1, 256>>>(x, y, size); }
""",
    "launch/factor.cuh": "#pragma once\nconstexpr float factor = 2;\n",
}


def library(project: Path, devices: tuple[str, ...], folder: Path, package: str = "user_scale") -> bytes:
    done = python_c(_BUILD, [str(project / package), str(folder), *devices], env=os.environ)
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


@pytest.mark.slow("compiles with nvcc")
def test_two_checkouts_give_one_library_of_a_native_kernel_with_an_anonymous_namespace(tmp_path: Path) -> None:
    checkouts = [tmp_path / "checkout", tmp_path / "another" / "checkout"]
    for checkout in checkouts:
        for name, text in _NATIVE.items():
            file = checkout / "user_twice" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    first, second = [
        library(checkout, ("cuda",), tmp_path / f"build-{index}", "user_twice")
        for index, checkout in enumerate(checkouts)
    ]
    assert b"_GLOBAL__N__" in first
    assert first == second
    assert str(tmp_path).encode() not in first


def test_nvcc_before_cuda_13_gets_a_name_for_each_source(tmp_path: Path) -> None:
    """Its own names have the number of its process where a source has no symbol that others may link to."""
    try:
        found = find_toolchain(cuda=True, rocm=False)
    except ToolchainError as error:
        pytest.skip(f"no nvcc here: {error}")
    (group,) = discover("opsmith.ops.add2")
    extension = assemble(group.module, group.definitions, ("cuda",))
    assert found.cuda is not None
    names = {}
    for version in ("12.9.86", "13.0.88"):
        toolchain = replace(found, cuda=replace(found.cuda, version=version))
        plan = plan_extension(extension, toolchain, Target(cuda_archs=parse_cuda_archs("9.0")))
        commands = [step.argv for step in plan.steps if step.argv[0] == str(found.cuda.nvcc)]
        names[version] = [word for argv in commands for word in argv if word.startswith("-DOPSMITH_UNIT=")]
        if names[version]:
            assert len(set(names[version])) == len(commands)
            assert b"opsmith_unit_add2" in run_plan(plan, tmp_path).read_bytes()
    assert names == {"12.9.86": ["-DOPSMITH_UNIT=opsmith_unit_add2_2e_cuda_2e_cu"], "13.0.88": []}
