"""A library without code for the GPU says which GPU that is, and how to build it there."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import torch

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
