"""The definition of examples/cute runs on the CPU as its body, and its kernels compile for GPUs without one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forks import python_c
from opsmith.errors import ToolchainError
from opsmith.toolchain import find_cute

EXAMPLES = Path(__file__).parents[2] / "examples" / "cute"


def _has_cute() -> bool:
    try:
        find_cute()
    except ToolchainError:
        return False
    return True


_CALLS = """
import torch
from rows_cute import scale, softmax

torch.manual_seed(0)
for x in (torch.randn(5, 300)[:, ::3], torch.randn(40, 7).t(), torch.randn(0, 4), torch.randn(2, 1)):
    x.requires_grad_()
    y = scale(softmax(x, 0.5), 3.0)
    expected = 3 * torch.softmax(x * 0.5, 1)
    torch.testing.assert_close(y, expected)
    g = torch.randn_like(y)
    torch.testing.assert_close(torch.autograd.grad(y, x, g), torch.autograd.grad(expected, x, g))
"""
_BUILDS = """
from opsmith.build.artifact import obtain_artifact
from opsmith.build.discover import discover
from opsmith.build.prepare import prepare
from opsmith.package.audit import audit
from opsmith.store import Store, default_root

(group,) = discover("rows_cute")
made = prepare(group, ("cuda",), archs="9.0+PTX", strict=True)
artifact = obtain_artifact(made.plan, made.toolchain, made.target, Store(default_root()))
print(*artifact.manifest.toolchain, *artifact.manifest.archs)
result = audit(artifact.library)
assert result.is_sound, result
"""


def test_the_body_is_right() -> None:
    done = python_c(_CALLS, cwd=EXAMPLES, env=dict(os.environ))
    assert done.returncode == 0, done.stderr


@pytest.mark.compile
@pytest.mark.skipif(not _has_cute(), reason="CuTe DSL (nvidia-cutlass-dsl) is not installed")
def test_the_kernels_compile() -> None:
    done = python_c(_BUILDS, cwd=EXAMPLES, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["host", "cute", "9.0a"]
