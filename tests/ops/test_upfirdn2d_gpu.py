"""Holds upfirdn2d's GPU kernels to the body in float64: tiles and everything else, layouts, types, and large images."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from graphs import capture
from layouts import laid_out
from torch import Tensor

from opsmith.ops.upfirdn2d import downsample2d, filter2d, setup_filter, upfirdn2d, upfirdn2d_sized, upsample2d

pytestmark = [pytest.mark.gpu, pytest.mark.compile]

TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
# What there are kernels of bands for: up, down, taps, separable. The last two go another way.
FORMS = [
    (2, 1, 4, False),
    (1, 2, 4, False),
    (1, 1, 4, False),
    (2, 1, 12, True),
    (1, 2, 12, True),
    (3, 2, 5, False),
    (1, 1, 7, True),
]
LAYOUTS = ["contiguous", "channels_last", "transposed", "inner", "offset"]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_agrees_with_the_definition(form: tuple[int, int, int, bool], dtype: torch.dtype) -> None:
    up, down, taps, separable = form
    draw = random.Random(taps)
    torch.manual_seed(taps)
    f = torch.randn(taps if separable else (taps, taps), device="cuda")
    for layout in LAYOUTS:
        for _ in range(8):
            shape = (2, draw.choice([1, 3, 8]), draw.choice([13, 32, 33, 65]), draw.choice([14, 31, 64, 66, 129, 136]))
            arguments: dict[str, Any] = {
                "up": up,
                "down": down,
                "padding": [draw.randint(-2, 9) for _ in range(4)],
                "flip_filter": draw.random() < 0.5,
                "gain": draw.uniform(-2, 2),
            }
            x = laid_out(torch.randn(shape, device="cuda").to(dtype), layout).requires_grad_()
            exact = x.detach().double().requires_grad_()
            found, expected = upfirdn2d(x, f, **arguments), upfirdn2d(exact, f, impl="ref", **arguments)
            outer = torch.randn_like(expected).to(dtype)
            near(found.detach(), expected.detach())
            (grad,) = torch.autograd.grad(found, x, outer)
            near(grad, torch.autograd.grad(expected, exact, outer.double())[0])


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("function", [upsample2d, downsample2d, filter2d])
def test_agrees_with_the_definition_where_rows_are_aligned(function: Any, dtype: torch.dtype) -> None:
    """With these paddings and widths a thread makes 16 bytes of a row; some heights make more than one band of rows."""
    torch.manual_seed(0)
    for f in (torch.randn(4, 4, device="cuda"), torch.randn(12, device="cuda")):
        for width, height in ((8, 5), (32, 64), (144, 33), (272, 400)):
            x = torch.randn(2, 3, height, width, device="cuda").to(dtype).requires_grad_()
            exact = x.detach().double().requires_grad_()
            found, expected = function(x, f), function(exact, f, impl="ref")
            outer = torch.randn_like(expected).to(dtype)
            near(found.detach(), expected.detach())
            (grad,) = torch.autograd.grad(found, x, outer)
            near(grad, torch.autograd.grad(expected, exact, outer.double())[0])


def near(found: Tensor, expected: Tensor) -> None:
    allowed = 6 * torch.finfo(found.dtype).eps * float(expected.abs().max())
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=allowed)


def test_there_are_kernels_for_the_gpu() -> None:
    assert upfirdn2d_sized.torch_op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CUDA)
    assert upfirdn2d_sized.gradient.torch_op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CUDA)


@pytest.mark.parametrize("function", [upsample2d, downsample2d, filter2d])
def test_a_nan_among_the_taps_makes_everything_nan(function: Any) -> None:
    for taps in ([1, 3, 3, 1], range(1, 13), [1, 2, 1]):
        f = setup_filter(taps, device="cuda")
        f.view(-1)[1] = float("nan")
        assert function(torch.ones(1, 2, 70, 70, device="cuda"), f).isnan().all()


def test_capture_and_replay() -> None:
    f = setup_filter([1, 3, 3, 1], device="cuda")
    x = torch.randn(2, 3, 40, 40, device="cuda", dtype=torch.float16)
    graph, captured = capture(lambda: upsample2d(x, f))
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured, upsample2d(x, f))


@pytest.mark.whole_gpu
@pytest.mark.slow("tensors of more than 2^31 elements")
def test_more_than_two_to_the_31_elements() -> None:
    if torch.cuda.get_device_properties(0).total_memory < 20 << 30:
        pytest.skip("needs 10 GB of GPU memory")
    f = setup_filter([1, 3, 3, 1], device="cuda")
    x = torch.zeros(1, 3, 27000, 27000, dtype=torch.float16, device="cuda")
    x[0, 2, -1, -1] = 1
    assert downsample2d(x, f)[0, 2, -1, -1].item() == f[1, 1].item()
    assert filter2d(x.view(1, 1, 81000, 27000), f)[0, 0, -1, -1].item() == f[1, 1].item()


@pytest.mark.whole_gpu
@pytest.mark.slow("a tensor of gigabytes")
def test_more_planes_than_a_grid_s_side_has_blocks() -> None:
    f = setup_filter([1, 3, 3, 1], device="cuda")
    x = torch.randn(70_000, 1, 4, 4, device="cuda")
    torch.testing.assert_close(upsample2d(x, f), upsample2d(x, f, impl="ref"))
