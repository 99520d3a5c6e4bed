"""`pip install opsmith[cuda]` alone is enough to compile CUDA: no toolkit of the system, nothing on PATH, no CUDA_HOME."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]

# What the machine has itself is out of sight: its PATH but for the host compiler's folder, and /usr/local/cuda.
BUILD = """
import os, shutil, sys
from pathlib import Path
os.environ["PATH"] = str(Path(shutil.which("g++")).parent)
from opsmith.toolchain import nvcc_search
real = nvcc_search.is_executable
nvcc_search.is_executable = lambda path: "site-packages" in path.parts and real(path)
from opsmith.cli import main
main(["build", "wheeled", "--device", "cuda", "--arch", "9.0", "--json", "-v"])
"""
MODULE = """
from jaxtyping import Float
from torch import Tensor
import opsmith

@opsmith.op(cuda="same.cu")
def same(x: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    return x.clone()
"""
# A header of CCCL, whose package must be of nvcc's version.
KERNEL = """
#include <cub/block/block_reduce.cuh>
#include <opsmith/kernel.h>
using namespace opsmith;

template <class T>
__global__ void kernel(View<const T, 1> x, View<T, 1> y) {
  long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < x.size[0]) y(i) = x(i);
}

template <class T>
void same(View<const T, 1> x, View<T, 1> y, Stream stream) {
  kernel<T><<<(x.size[0] + 255) / 256, 256, 0, stream>>>(x, y);
}
"""


@pytest.mark.nightly("downloads nvcc")
@pytest.mark.compile
def test_the_extra_is_enough_to_compile(user_python, tmp_path):
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["cuda"]
    pip = ["-m", "pip", "--no-input", "--disable-pip-version-check", "install", "-q", *wanted]
    import subprocess

    installed = subprocess.run([user_python.executable, *pip], capture_output=True, text=True, check=False, timeout=600)
    if installed.returncode != 0:
        pytest.skip(f"the wheels cannot be had here: {installed.stderr.strip().splitlines()[-1]}")
    package = tmp_path / "wheeled"
    package.mkdir()
    (package / "__init__.py").write_text(MODULE)
    (package / "same.cu").write_text(KERNEL)
    done = user_python.run("-c", BUILD, cwd=tmp_path)
    assert '"archs": [\n      "9.0"\n    ]' in done.stdout
    assert str(user_python.executable.parent.parent) in done.stderr, "nvcc is the environment's own"
