"""A user's project for the drivers to build: one operator with a CPU and a CUDA kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

_DEFINITION = """
import opsmith
from jaxtyping import Float
from torch import Tensor

@opsmith.op(cpu="kernels/scale.cpp", cuda="kernels/scale.cu", outputs="y")
def scale(x: Float[Tensor, "N"], factor: float) -> Float[Tensor, "N"]:
    return x * factor
"""

_CPU = """
#include <opsmith/kernel.h>
#include "scale.h"
using namespace opsmith;
template <class T>
void scale(View<const T, 1> x, double factor, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(scaled(compute_t<T>(x(n)), factor));
}
"""

_CUDA = """
#include <opsmith/kernel.h>
#include "scale.h"
using namespace opsmith;
template <class T>
__global__ void each(View<const T, 1> x, double factor, View<T, 1> y) {
  for (int64_t n = threadIdx.x; n < x.size[0]; n += blockDim.x) y(n) = T(scaled(compute_t<T>(x(n)), factor));
}
template <class T>
void scale(View<const T, 1> x, double factor, View<T, 1> y, Stream stream) { each<<<1, 256, 0, stream>>>(x, factor, y); }
"""

_HEADER = """
#pragma once
#include <opsmith/kernel.h>
template <class C>
OPSMITH_HOST_DEVICE C scaled(C x, double factor) { return x * C(factor); }
"""

_PYPROJECT = """
[build-system]
requires = ["setuptools", "opsmith", "torch"]
build-backend = "setuptools.build_meta"

[project]
name = "user-scale"
version = "1.2.3"
dependencies = ["opsmith", "torch>=2.10"]

[tool.opsmith]
operators = ["user_scale"]
devices = ["cpu"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Write the project and return its folder."""
    root = tmp_path / "project"
    kernels = root / "user_scale" / "kernels"
    kernels.mkdir(parents=True)
    (root / "pyproject.toml").write_text(_PYPROJECT)
    (root / "user_scale" / "__init__.py").write_text(_DEFINITION)
    (kernels / "scale.cpp").write_text(_CPU)
    (kernels / "scale.cu").write_text(_CUDA)
    (kernels / "scale.h").write_text(_HEADER)
    return root
