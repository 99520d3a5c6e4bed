"""What the check says of a kernel in the wild: torchvision's deform_conv2d, which is launched on the default stream."""

from __future__ import annotations

import os

import pytest

from forks import python_c

# https://github.com/pytorch/vision/issues/9513: the repair is not in 0.28.
_MENDED = (0, 29)
_CHECK = """
import torch
from opsmith.ops.deform_conv2d import deform_conv2d
from torchvision.ops import deform_conv2d as theirs

import opsmith


def example(seed):
    torch.manual_seed(seed)
    return torch.randn(2, 8, 9, 9), torch.randn(2, 18, 7, 7), torch.randn(4, 8, 3, 3)


report = opsmith.check(
    theirs, reference=deform_conv2d, examples=[example(0), example(1)], devices="cuda", properties=("value", "streams")
)
print(*(f"{one.name}: {one.outcome.state}" for one in report.results), sep="\\n")
"""


@pytest.mark.gpu
@pytest.mark.compile
def test_a_kernel_on_the_default_stream_is_found() -> None:
    vision = pytest.importorskip("torchvision", reason="torchvision is not installed")
    if tuple(int(part) for part in vision.__version__.split(".")[:2]) >= _MENDED:
        pytest.skip("torchvision has mended it")
    done = python_c(_CHECK, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert "value: passed" in done.stdout
    assert "streams: failed" in done.stdout
