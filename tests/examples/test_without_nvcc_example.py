"""The definition of examples/without_nvcc runs on the CPU as its body, and its kernels compile for GPUs without nvcc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forks import python_c
from opsmith.errors import ToolchainError
from opsmith.toolchain import find_nvrtc

EXAMPLES = Path(__file__).parents[2] / "examples" / "without_nvcc"


def _has_nvrtc() -> bool:
    try:
        find_nvrtc()
    except ToolchainError:
        return False
    return True


_CALLS = """
import torch
from rows_cuda import softmax

torch.manual_seed(0)
for x in (torch.randn(5, 300)[:, ::3], torch.randn(40, 7).t(), torch.randn(0, 4), torch.randn(2, 1)):
    x.requires_grad_()
    y = softmax(x, 0.5)
    torch.testing.assert_close(y, torch.softmax(x * 0.5, 1))
    g = torch.randn_like(y)
    expected = torch.autograd.grad(torch.softmax(x * 0.5, 1), x, g)
    torch.testing.assert_close(torch.autograd.grad(y, x, g), expected)

import os
import shutil

os.environ["PATH"] = os.path.dirname(shutil.which("g++"))
from opsmith.build.artifact import obtain_artifact
from opsmith.build.discover import discover
from opsmith.build.prepare import prepare
from opsmith.package.audit import audit
from opsmith.store import Store, default_root

(group,) = discover("rows_cuda")
made = prepare(group, ("cuda",), archs="9.0+PTX", strict=True)
assert made.toolchain.cuda is None
artifact = obtain_artifact(made.plan, made.toolchain, made.target, Store(default_root()))
print(*artifact.manifest.toolchain, *artifact.manifest.archs)
result = audit(artifact.library)
assert result.is_sound, result
"""


@pytest.mark.compile
@pytest.mark.skipif(not _has_nvrtc(), reason="NVRTC is not installed")
def test_the_body_is_right_and_the_kernels_compile() -> None:
    done = python_c(_CALLS, cwd=EXAMPLES, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["host", "nvrtc", "9.0+PTX"]
