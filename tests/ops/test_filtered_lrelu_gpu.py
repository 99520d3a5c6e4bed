"""Holds filtered_lrelu's GPU kernels to the body in float64: tiles and everything else, layouts, types, and large images."""

from __future__ import annotations

import math
import random
from dataclasses import astuple
from typing import Any

import pytest
import torch
from graphs import capture
from torch import Tensor

from opsmith.ops.filtered_lrelu import filtered_lrelu, filtered_lrelu_signed, filtered_lrelu_sized, functions
from opsmith.ops.filtered_lrelu.oversampling import Oversampling
from opsmith.ops.filtered_lrelu.signed import sign_sizes
from opsmith.ops.upfirdn2d import setup_filter

pytestmark = [pytest.mark.gpu, pytest.mark.compile]

TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
# Up and fu's shape, down and fd's. The first five have kernels of their own, the last one's filters are larger than
# shared memory.
FORMS: list[tuple[int, tuple[int, ...], int, tuple[int, ...]]] = [
    (2, (12,), 2, (12,)),
    (4, (24,), 2, (12,)),
    (2, (12,), 4, (24,)),
    (2, (12,), 2, (12, 12)),
    (4, (24,), 2, (12, 12)),
    (1, (1, 1), 1, (1, 1)),
    (2, (12, 12), 2, (12,)),
    (3, (5,), 2, (3, 4)),
    (2, (4, 3), 5, (7,)),
    (2, (5, 4), 9, (80, 75)),
]
LAYOUTS = ["contiguous", "channels_last", "transposed", "inner", "offset"]


def coarse(shape: tuple[int, ...]) -> Tensor:
    """Numbers of few digits: their sums of products are exact in float32, so no rounding decides which side of a kink."""
    return torch.randint(-8, 9, shape, device="cuda") * 0.125


def laid_out(x: Tensor, layout: str) -> Tensor:
    if layout == "channels_last":
        return x.to(memory_format=torch.channels_last)
    if layout == "transposed":
        return x.transpose(2, 3).contiguous().transpose(2, 3)
    if layout == "inner":
        return torch.nn.functional.pad(x, (1, 2, 1, 0))[..., 1:, 1:-2]
    if layout == "offset":
        return torch.cat([x.new_full((1,), math.nan), x.flatten()])[1:].view(x.shape)
    return x


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_agrees_with_the_definition(
    form: tuple[int, tuple[int, ...], int, tuple[int, ...]], dtype: torch.dtype
) -> None:
    up, up_taps, down, down_taps = form
    draw = random.Random(up)
    torch.manual_seed(up)
    fu, fd = coarse(up_taps), coarse(down_taps)
    is_long = max(down_taps) > 24
    for layout in LAYOUTS:
        for _ in range(1 if is_long else 4):
            sizes = [19] if is_long else [14, 31, 64, 66, 129]
            shape = (2, draw.choice([1, 3, 8]), draw.choice(sizes), draw.choice(sizes))
            arguments: dict[str, Any] = {
                "up": up,
                "down": down,
                "padding": [draw.randint(25, 50) if is_long else draw.randint(8, 30) for _ in range(4)],
                "gain": draw.choice([1.0, 1.5]),
                "slope": 0.25,
                "clamp": draw.choice([None, 2.0]),
                "flip_filter": draw.random() < 0.5,
            }
            agrees(shape, dtype, layout, fu, fd, arguments)


@pytest.mark.parametrize("dtype", TYPES[:3], ids=str)
@pytest.mark.parametrize("layout", ["contiguous", "inner"])
def test_agrees_with_the_definition_where_there_are_many_images(layout: str, dtype: torch.dtype) -> None:
    """Strips of many turns and of few, more than one of them across, and groups that begin at every phase of either axis."""
    torch.manual_seed(0)
    for up, taps, shapes in (
        (2, 12, ((4, 64, 70, 66), (4, 96, 41, 131), (8, 96, 32, 40), (2, 24, 40, 900))),
        (4, 24, ((4, 96, 41, 66), (2, 8, 20, 300))),
    ):
        for shape in shapes:
            for padding in ([10, 11, 10, 11], [11, 10, 11, 10], [11, 12, 14, 9], [-2, 20, 31, 3]):
                for taps_down in ((12,), (12, 12)) if shape[1] == 96 else ((12,),):
                    arguments = {"up": up, "down": 2, "padding": padding, "gain": 1.5, "slope": 0.25, "clamp": 2.0}
                    agrees(shape, dtype, layout, coarse((taps,)), coarse(taps_down), arguments)


@pytest.mark.parametrize("shape", [(1, 2, 5, 40_000), (1, 2, 40_000, 5), (1, 1, 3, 140_000)], ids=str)
@pytest.mark.parametrize("form", FORMS[:5], ids=str)
def test_agrees_with_the_definition_along_thousands_of_pixels(
    form: tuple[int, tuple[int, ...], int, tuple[int, ...]], shape: tuple[int, ...]
) -> None:
    up, up_taps, down, down_taps = form
    torch.manual_seed(0)
    arguments = {"up": up, "down": down, "padding": [20, 19, 20, 19], "gain": 1.5, "slope": 0.25, "clamp": 2.0}
    agrees(shape, torch.float32, "contiguous", coarse(up_taps), coarse(down_taps), arguments)


@pytest.mark.parametrize("form", FORMS[:5], ids=str)
def test_many_images_go_to_the_kernels_of_their_own_filters(
    form: tuple[int, tuple[int, ...], int, tuple[int, ...]],
) -> None:
    """One of two filters may be as those kernels have it, and the other not."""
    up, up_taps, down, down_taps = form
    torch.manual_seed(0)
    arguments = {"up": up, "down": down, "padding": [13, 12, 11, 12], "gain": 1.5, "slope": 0.25, "clamp": 2.0}
    agrees((4, 96, 72, 68), torch.float32, "contiguous", coarse(up_taps), coarse(down_taps), arguments)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_filters_of_one_tap_agree_with_the_definition(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    arguments = {"gain": 1.5, "slope": 0.25, "clamp": 1.0}
    fu, fd = torch.full((1, 1), 0.75, device="cuda"), torch.full((1,), -1.5, device="cuda")
    for layout in LAYOUTS:
        for shape in ((2, 3, 33, 31), (3, 5, 64, 72), (1, 2, 1, 5), (1, 2, 130, 260)):
            agrees(shape, dtype, layout, fu, fd, arguments)


def agrees(
    shape: tuple[int, ...], dtype: torch.dtype, layout: str, fu: Tensor, fd: Tensor, arguments: dict[str, Any]
) -> None:
    """Hold one call and its gradients to the body in float64."""
    leaves = [laid_out(coarse(shape).to(dtype), layout), coarse(shape[1:2]).to(dtype)]
    exact = [one.double().requires_grad_() for one in leaves]
    found = filtered_lrelu(leaves[0].requires_grad_(), fu, fd, leaves[1].requires_grad_(), **arguments)
    expected = filtered_lrelu(exact[0], fu, fd, exact[1], impl="ref", **arguments)
    near(found.detach(), expected.detach())
    with torch.no_grad():
        assert torch.equal(filtered_lrelu(leaves[0], fu, fd, leaves[1], **arguments), found)
    outer = coarse(tuple(expected.shape)).to(dtype)
    gradients = torch.autograd.grad(found, leaves, outer)
    wanted = torch.autograd.grad(expected, exact, outer.double())
    near(gradients[0], wanted[0])
    # A sum in which more cancels.
    near(gradients[1], wanted[1], 1e-3 * math.sqrt(wanted[0].numel()) * float(wanted[0].abs().max()))


def near(found: Tensor, expected: Tensor, floor: float = 0) -> None:
    allowed = 6 * torch.finfo(found.dtype).eps * (float(expected.abs().max()) + floor)
    # What is too large for float16 is infinite.
    torch.testing.assert_close(found.double(), expected.to(found.dtype).double(), rtol=0, atol=allowed)


@pytest.mark.parametrize("dtype", TYPES[:3], ids=str)
@pytest.mark.parametrize("form", FORMS[:5], ids=str)
def test_tiles_serve_filters_that_have_kernels_of_their_own(
    form: tuple[int, tuple[int, ...], int, tuple[int, ...]], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator without signs, which nobody is sent to with such filters, has all filters."""
    monkeypatch.setattr(functions, "has_signs", lambda *_: False)
    up, up_taps, down, down_taps = form
    arguments = {"up": up, "down": down, "padding": [13, 12, 11, 12], "gain": 1.5, "slope": 0.25, "clamp": 2.0}
    agrees((2, 3, 66, 31), dtype, "contiguous", coarse(up_taps), coarse(down_taps), arguments)


@pytest.mark.parametrize("form", FORMS[:5], ids=str)
def test_signs_are_those_of_the_definition(form: tuple[int, tuple[int, ...], int, tuple[int, ...]]) -> None:
    up, up_taps, down, down_taps = form
    torch.manual_seed(0)
    fu, fd = (f.expand(2, -1) if f.ndim == 1 else f for f in (coarse(up_taps), coarse(down_taps)))
    for height, width, pad in ((14, 9, 11), (40, 131, 12), (66, 64, 13), (31, 300, 14)):
        x, b = coarse((2, 5, height, width)), coarse((5,))
        o = Oversampling(height, width, up, down, pad, pad + 1, True, len(down_taps) == 1, False)
        numbers = [*astuple(o), 1.5, 0.25, 2.0, *astuple(sign_sizes(height, width, fd, o)), True]
        found = filtered_lrelu_signed.torch_op(x, fu, fd, b, *numbers)[1]  # exact: numbers of few digits
        expected = filtered_lrelu_signed.torch_op(x.cpu(), fu.cpu(), fd.cpu(), b.cpu(), *numbers)[1]
        assert torch.equal(found.cpu(), expected)


def test_there_are_kernels_for_the_gpu() -> None:
    for operator in (filtered_lrelu_sized, filtered_lrelu_signed):
        for one in (operator, operator.gradient):
            assert one.torch_op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CUDA)


@pytest.mark.parametrize("which", [0, 1])
def test_a_nan_among_the_taps_makes_everything_nan(which: int) -> None:
    for taps in ([1, 3, 3, 1], range(1, 13), torch.ones(80, 80)):
        f = setup_filter(taps, device="cuda")
        filters = [f, f.clone()]
        filters[which].view(-1)[1] = math.nan
        x = torch.ones(1, 2, 20, 20, device="cuda", requires_grad=True)
        y = filtered_lrelu(x, *filters, None, 2, 2, 70)
        assert y.isnan().all()
        assert torch.autograd.grad(y.sum(), x)[0].isnan().all()


def test_two_runs_give_the_same_bits() -> None:
    f = setup_filter(range(1, 13), device="cuda")
    x = torch.randn(4, 16, 100, 100, device="cuda", dtype=torch.float16)
    b = torch.randn(16, device="cuda", dtype=torch.float16)
    runs = []
    for _ in range(2):
        leaves = x.clone().requires_grad_(), b.clone().requires_grad_()
        y = filtered_lrelu(leaves[0], f, f, leaves[1], 2, 2, 11)
        runs.append((y, *torch.autograd.grad(y.float().pow(2).sum(), leaves)))
    assert all(map(torch.equal, *runs))


def test_capture_and_replay() -> None:
    f = setup_filter(range(1, 13), device="cuda")
    x = torch.randn(2, 3, 40, 40, device="cuda", dtype=torch.float16, requires_grad=True)
    b = torch.zeros(3, device="cuda", dtype=torch.float16, requires_grad=True)
    outer = torch.ones(2, 3, 40, 40, device="cuda", dtype=torch.float16)

    def step() -> tuple[Tensor, ...]:
        y = filtered_lrelu(x, f, f, b, 2, 2, [11, 10, 11, 10])
        return (y, *torch.autograd.grad(y, (x, b), outer))

    graph, captured = capture(step)
    with torch.no_grad():
        x.copy_(torch.randn_like(x))
    graph.replay()
    torch.cuda.synchronize()
    assert all(map(torch.equal, captured, step()))


def test_memory_is_at_most_a_quarter_of_the_composition_s() -> None:
    f = setup_filter(range(1, 13), device="cuda")
    x = torch.randn(2, 64, 128, 128, device="cuda", dtype=torch.float16, requires_grad=True)
    used = []
    for impl in ("cuda", "ref"):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        filtered_lrelu(x, f, f, None, 2, 2, [11, 10, 11, 10], clamp=256, impl=impl).sum().backward()
        x.grad = None
        used.append(torch.cuda.max_memory_allocated() - before)
    assert used[0] <= used[1] / 4


@pytest.mark.whole_gpu
@pytest.mark.slow("tensors of more than 2^31 elements")
def test_more_than_two_to_the_31_elements() -> None:
    if torch.cuda.get_device_properties(0).total_memory < 20 << 30:
        pytest.skip("needs 10 GB of GPU memory")
    f = setup_filter(range(1, 13), device="cuda")
    x = torch.zeros(1, 3, 27000, 27000, dtype=torch.float16, device="cuda")
    x[0, 2, -1, -1] = 1
    y = filtered_lrelu(x, f, f, None, 2, 2, [11, 10, 11, 10])
    small = filtered_lrelu(x[..., -50:, -50:], f, f, None, 2, 2, [11, 10, 11, 10])
    assert torch.equal(y[0, 2, -20:, -20:], small[0, 2, -20:, -20:])
    assert small[0, 2, -1, -1].item() > 0
