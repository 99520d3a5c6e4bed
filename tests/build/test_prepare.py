"""Without a CUDA compiler the CPU is served all the same, and a call on a GPU says what is missing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from forks import python_c
from opsmith.build.discover import discover
from opsmith.build.prepare import prepare
from opsmith.errors import ToolchainError
from opsmith.toolchain import find_torch


@pytest.fixture
def no_nvcc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """CUDA_HOME names a folder without an nvcc, which is an error and never passed over."""
    if find_torch().hip is not None:
        pytest.skip("this torch is for ROCm")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    return tmp_path


def test_a_build_for_cuda_is_refused(no_nvcc):
    (group,) = discover("opsmith.ops.add2")
    with pytest.raises(ToolchainError, match="CUDA_HOME") as caught:
        prepare(group, ("cpu", "cuda"), strict=True)
    assert str(no_nvcc) in str(caught.value)


def test_the_rest_is_planned_and_the_reason_kept(no_nvcc):
    (group,) = discover("opsmith.ops.add2")
    prepared = prepare(group, ("cpu", "cuda"))
    assert prepared.plan.extension.devices == ("cpu",)
    assert list(prepared.missing) == ["cuda"]
    assert str(no_nvcc) in prepared.missing["cuda"]


def test_a_target_that_is_newer_than_the_torch_of_the_build_is_refused() -> None:
    (group,) = discover("opsmith.ops.add2")
    with pytest.raises(
        ToolchainError, match=r"The torch target 9\.9 is newer than torch .*: write 2\.10, or install torch 9\.9"
    ):
        prepare(group, ("cpu",), torch_target=(9, 9))


CHILD = """
import torch
import opsmith.runtime.load as load
from opsmith.errors import ToolchainError
from opsmith.ops.add2 import add2

load.wanted_devices = lambda definitions: ("cpu", "cuda")  # as on a machine with a GPU
x = torch.ones(3)
assert torch.equal(add2(x, x), x + x)
try:
    add2.torch_op.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA), x, x)
except ToolchainError as error:
    print(error)
"""


@pytest.mark.compile
def test_a_call_on_the_gpu_raises_instead_of_running_the_body(no_nvcc):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = python_c(CHILD, env=env)
    assert done.returncode == 0, done.stderr
    assert "add2() has a kernel for cuda, but it could not be built" in done.stdout
    assert str(no_nvcc) in done.stdout
