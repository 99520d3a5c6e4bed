"""A library without code for the GPU, or for its driver, says what there is, and how to build it there."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import torch

from compilers import INCLUDE, compiled, find_compiler
from forks import python_c

CHILD = """
import torch
from opsmith.ops.sigmoid import sigmoid

x = torch.randn(5)
torch.testing.assert_close(sigmoid(x), torch.sigmoid(x))
try:
    sigmoid(x.cuda())
except RuntimeError as error:
    print(error)
"""


@pytest.mark.gpu
@pytest.mark.compile
def test_a_library_for_another_gpu_says_what_to_do(tmp_path: Path) -> None:
    major, minor = torch.cuda.get_device_capability()
    other = "8.0" if major != 8 else "9.0"
    env = {**os.environ, "OPSMITH_CUDA_ARCHS": other, "OPSMITH_CACHE_DIR": str(tmp_path), "OPSMITH_BRIDGE": "off"}
    done = python_c(CHILD, env=env)
    assert done.returncode == 0, done.stderr
    assert "CUDA error: no kernel image is available" in done.stdout
    assert f"for this GPU, of compute capability {major}.{minor}" in done.stdout
    assert re.search(r"`pip install --force-reinstall .*--no-binary PACKAGE PACKAGE`", done.stdout)


LAUNCH = """
#include <opsmith/gpu.h>

#include <cstdio>

__global__ void nothing() {}

int main() {
  nothing<<<1, 1>>>();
  try {
    opsmith::check_launch("op");
  } catch (const std::exception& error) {
    std::puts(error.what());
  }
}
"""

# All of a driver that the CUDA runtime asks before it looks at a GPU: it tells the version, and can do nothing else.
DRIVER = """
#include <cstring>

extern "C" int cuInit(unsigned) { return 0; }
extern "C" int cuDriverGetVersion(int* version) {
  *version = VERSION;
  return 0;
}
static int fail() { return 999; }

extern "C" int cuGetProcAddress_v2(const char* name, void** function, int, unsigned long long, int*) {
  *function = reinterpret_cast<void*>(!std::strcmp(name, "cuDriverGetVersion")    ? (void*)cuDriverGetVersion
                                      : !std::strcmp(name, "cuInit")              ? (void*)cuInit
                                      : !std::strcmp(name, "cuGetProcAddress")    ? (void*)cuGetProcAddress_v2
                                                                                  : (void*)fail);
  return 0;
}
"""


@pytest.fixture
def said_with_driver(tmp_path: Path):
    """Return what a failed launch says with a driver for a CUDA such as 12080, or with none."""
    program, driver = tmp_path / "launch.cu", tmp_path / "driver.cpp"
    program.write_text(LAUNCH)
    driver.write_text(DRIVER)
    nvcc = find_compiler("nvcc")

    def do(version: int | None) -> str:
        launch = compiled(program, nvcc, "-std=c++20", "-arch=sm_90", "-cudadevrt", "none", f"-I{INCLUDE}")
        folder = tmp_path / str(version)
        folder.mkdir()
        if version is not None:
            stub = compiled(driver, find_compiler("g++"), "-shared", "-fPIC", f"-DVERSION={version}")
            (folder / "libcuda.so.1").symlink_to(stub)
        launch.chmod(0o755)
        env = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
        return subprocess.run([launch], env=env, capture_output=True, text=True, check=True).stdout

    return do


@pytest.mark.compile
def test_a_driver_older_than_the_library_s_cuda_is_told(said_with_driver) -> None:
    said = said_with_driver(11080)
    assert said.startswith("op(): CUDA error: CUDA driver version is insufficient for CUDA runtime version ")
    assert re.search(
        r"is built with CUDA 1\d\.\d, and the driver is for CUDA 11\.8\. Update the driver, or build", said
    )
    assert "with an nvcc that is no newer: `pip install" in said


@pytest.mark.compile
def test_a_machine_without_a_driver_is_told(said_with_driver) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a driver")
    assert (
        said_with_driver(None) == "op(): CUDA error: this machine has no NVIDIA driver (cudaErrorInsufficientDriver)\n"
    )


@pytest.mark.compile
def test_a_newer_driver_passes(said_with_driver) -> None:
    assert "insufficient" not in said_with_driver(20000)
