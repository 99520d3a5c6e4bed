"""Holds deform_conv2d's GPU kernels to the body in float64: forms, layouts, types, parts of an image, and large tensors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from deform_conv2d_calls import FORMS, TYPES, most_summands, near, numbers, reference, tensors
from graphs import capture
from layouts import laid_out

from opsmith.ops.deform_conv2d import deform_conv2d, deform_conv2d_sized

pytestmark = [pytest.mark.gpu, pytest.mark.compile]

# Besides those of the CPU: tiles of 256 outputs, one and eight channels at a time with groups of every kind, and more taps
# and channels than a block samples at once.
GPU_FORMS: list[Any] = [
    *FORMS,
    (39, 70, 1, 3, (4, 3), (1, 1), (2, 1), (1, 1)),
    (64, 260, 1, 1, (3, 3), (1, 1), (1, 1), (1, 1)),
    (64, 320, 2, 4, (3, 3), (2, 2), (1, 1), (1, 1)),
    (160, 64, 1, 2, (5, 3), (1, 1), (2, 1), (1, 1)),
    (200, 130, 1, 1, (5, 2), (1, 1), (2, 1), (1, 1)),
]


@pytest.fixture(autouse=True)
def full_float32() -> Iterator[None]:
    """Keep factors of float32 as they are, which PyTorch does not in convolutions unless it is told to."""
    # monkeypatch would delete it at the end: it is torch's setting, not the object's own attribute.
    before = torch.backends.cudnn.conv.fp32_precision
    torch.backends.cudnn.conv.fp32_precision = "ieee"
    yield
    torch.backends.cudnn.conv.fp32_precision = before


def on_gpu(form: Any, images: int, size: tuple[int, int], seed: int) -> dict[str, torch.Tensor]:
    return {name: one.cuda() for name, one in tensors(form, images, size, seed).items()}


@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "transposed", "inner", "offset"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("form", GPU_FORMS, ids=str)
def test_agrees_with_the_definition(form: Any, dtype: torch.dtype, layout: str) -> None:
    made = on_gpu(form, 3, (19, 26), 3)
    leaves = {
        name: (laid_out(one.to(dtype), layout) if one.dim() == 4 else one.to(dtype)).requires_grad_()
        for name, one in made.items()
    }
    exact = {name: one.detach().double().requires_grad_() for name, one in leaves.items()}
    found, expected = deform_conv2d(**leaves, **numbers(form)), reference(exact, form)
    summands = most_summands(form, made, expected)
    near(found.detach(), expected.detach(), summands)
    outer = torch.randn_like(expected).to(dtype)
    by_kernel = torch.autograd.grad(found, list(leaves.values()), laid_out(outer, layout))
    by_autograd = torch.autograd.grad(expected, list(exact.values()), outer.double())
    for one, other in zip(by_kernel, by_autograd, strict=True):
        near(one, other, summands)


# Blocks of 256 outputs are for as many positions as fill a GPU, some of which make several tiles.
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "inner"])
@pytest.mark.parametrize(("outputs", "size"), [(260, (64, 71)), (130, (96, 112))])
def test_as_many_positions_as_fill_a_gpu(dtype: torch.dtype, layout: str, outputs: int, size: tuple[int, int]) -> None:
    form = (72, outputs, 1, 3, (3, 4), (1, 1), (1, 1), (1, 1))
    made = {name: one.to(dtype) for name, one in on_gpu(form, 3, size, 9).items()}
    strided = {name: laid_out(one, layout) if one.dim() == 4 else one for name, one in made.items()}
    expected = reference({name: one.double() for name, one in made.items()}, form)
    near(deform_conv2d(**strided, **numbers(form)), expected, most_summands(form, made, expected))


@pytest.mark.parametrize(
    ("form", "size"),
    [*(pytest.param(form, (19, 26), id=str(form)) for form in (FORMS[4], *GPU_FORMS[-4:])), (GPU_FORMS[-3], (64, 71))],
)
def test_tf32_where_torch_allows_it(form: Any, size: tuple[int, int]) -> None:
    made = {name: one.float() for name, one in on_gpu(form, 2, size, 8).items()}
    exact = {name: one.double().requires_grad_() for name, one in made.items()}
    expected = reference(exact, form)
    expected_gradients = torch.autograd.grad(expected.sin().sum(), list(exact.values()))
    expected = expected.detach()
    found = {}
    for precision in ("ieee", "tf32"):
        torch.backends.cudnn.conv.fp32_precision = precision
        leaves = {name: one.clone().requires_grad_() for name, one in made.items()}
        out = deform_conv2d(**leaves, **numbers(form))
        found[precision] = (out.detach(), *torch.autograd.grad(out, list(leaves.values()), expected.cos().float()))
    scale = [float(one.abs().max()) for one in (expected, *expected_gradients)]
    for precision, allowed in (("ieee", 1e-5), ("tf32", 3e-3)):
        for one, other, largest in zip(found[precision], (expected, *expected_gradients), scale, strict=True):
            torch.testing.assert_close(one.double(), other, rtol=0, atol=allowed * largest)
    if torch.version.hip is None:
        assert not torch.equal(found["ieee"][0], found["tf32"][0])


@pytest.mark.parametrize("size", [(32, 48), (31, 45)], ids=str)
def test_float32_errs_no_more_than_a_product_of_cublas(size: tuple[int, int]) -> None:
    form = (256, 256, 1, 1, (3, 3), (1, 1), (1, 1), (1, 1))
    made = {name: one.float() for name, one in on_gpu(form, 2, size, 10).items()}
    made["input"] += torch.rand_like(made["input"]) / 64  # as many bits as float32 has
    exact = reference({name: one.double() for name, one in made.items()}, form)
    errors = [
        (one.double() - exact).square().mean().sqrt()
        for one in (deform_conv2d(**made, **numbers(form)), reference(made, form))
    ]
    assert errors[0] <= 1.1 * errors[1]


# What a call prepares in memory that it gives back is the same in the next call with the same tensors, which hides a kernel
# that reads it too early. Here each call has others, several are queued, and the memory is that of the call before.
@pytest.mark.parametrize("precision", ["ieee", "tf32"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_queued_calls_with_other_tensors_each_time(dtype: torch.dtype, precision: str) -> None:
    torch.backends.cudnn.conv.fp32_precision = precision
    form = (256, 256, 1, 1, (3, 3), (1, 1), (1, 1), (1, 1))
    for seed in range(5):
        made = [{k: one.to(dtype) for k, one in on_gpu(form, 4, (64, 64), 10 * seed + n).items()} for n in range(4)]
        torch.cuda.synchronize()
        leaves = [{name: one.clone().requires_grad_() for name, one in each.items()} for each in made]
        found = [deform_conv2d(**each, **numbers(form)) for each in leaves]
        gradients = [
            torch.autograd.grad(out.sum(), list(each.values())) for out, each in zip(found, leaves, strict=True)
        ]
        for out, own, each in zip(found, gradients, made, strict=True):
            exact = {name: one.double().requires_grad_() for name, one in each.items()}
            expected = reference(exact, form)
            allowed = 1e-5 if dtype == torch.float32 and precision == "ieee" else 5e-3
            for one, other in zip(
                (out.detach(), *own),
                (expected.detach(), *torch.autograd.grad(expected.sum(), list(exact.values()))),
                strict=True,
            ):
                torch.testing.assert_close(one.double(), other, rtol=0, atol=allowed * float(other.abs().max()))


# A stream of its own, which is behind when the calls are made: a kernel on any other stream reads memory that is NaN yet.
# So does one that reads what is prepared for it too early, or what nobody has written.
@pytest.mark.parametrize("precision", ["ieee", "tf32"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_first_calls_on_a_busy_stream_in_memory_full_of_nan(dtype: torch.dtype, precision: str) -> None:
    torch.backends.cudnn.conv.fp32_precision = precision
    form = (256, 256, 1, 1, (3, 3), (1, 1), (1, 1), (1, 1))
    made = {name: one.to(dtype) for name, one in on_gpu(form, 4, (64, 64), 12).items()}
    late = {name: torch.full_like(one, math.nan) for name, one in made.items()}

    def step(given: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        leaves = {name: one.detach().requires_grad_() for name, one in given.items()}
        out = deform_conv2d(**leaves, **numbers(form))
        return (out.detach(), *torch.autograd.grad(out, list(leaves.values()), torch.ones_like(out)))

    expected = step(made)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    with torch.cuda.stream(torch.cuda.Stream()):
        full = [torch.full((1 << n,), math.nan, device="cuda") for n in range(12, 27)]
        del full  # the calls get this memory
        torch.cuda._sleep(20_000_000)
        for name, one in late.items():
            one.copy_(made[name])
        found = step(late)
        torch.cuda.synchronize()
    assert not any(one.isnan().any() for one in expected)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


# Split into two numbers each, floats would give NaN for infinity times a number of few bits.
@pytest.mark.parametrize("what", ["input", "weight", "mask"])
def test_infinity_times_a_number_is_infinity(what: str) -> None:
    form = (64, 128, 1, 1, (3, 3), (1, 1), (1, 1), (1, 1))
    made = {name: one.float().abs() + 0.5 for name, one in on_gpu(form, 1, (16, 16), 11).items()}
    made["offset"].fill_(0.25)
    made[what].view(-1)[5000 % made[what].numel()] = math.inf
    found, expected = deform_conv2d(**made, **numbers(form)), reference(made, form)
    assert torch.equal(found.isinf(), expected.isinf())
    assert torch.equal(found.isnan(), expected.isnan())
    assert expected.isinf().any()


def test_floats_of_any_size() -> None:
    form = (64, 128, 1, 1, (3, 3), (1, 1), (1, 1), (1, 1))
    made = {name: one.float() for name, one in on_gpu(form, 1, (16, 16), 12).items()}
    made["bias"].zero_()
    for size in (1e-30, 1e-20, 1e20, 1e34):
        grown = {**made, "input": made["input"] * size}
        expected = reference({name: one.double() for name, one in grown.items()}, form)
        found = deform_conv2d(**grown, **numbers(form))
        torch.testing.assert_close(
            found.double() / size, expected / size, rtol=0, atol=1e-5 * float(expected.abs().max()) / size
        )


def test_there_are_kernels_for_the_gpu() -> None:
    assert deform_conv2d_sized.torch_op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CUDA)
    assert deform_conv2d_sized.gradient.torch_op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CUDA)


@pytest.mark.parametrize("spread", [1.0, 1000.0], ids=["near", "everywhere"])
def test_an_image_that_is_worked_on_in_parts(spread: float) -> None:
    form = (256, 8, 1, 1, (3, 3), (1, 1), (1, 1), (1, 1))
    made = {name: one.float() for name, one in on_gpu(form, 2, (130, 131), 4).items()}
    made["offset"] = (made["offset"] * spread).remainder(120) - 60 if spread > 1 else made["offset"]
    leaves = {name: one.clone().requires_grad_() for name, one in made.items()}
    exact = {name: one.double().requires_grad_() for name, one in made.items()}
    found, expected = deform_conv2d(**leaves, **numbers(form)), reference(exact, form)
    by_kernel = torch.autograd.grad(found.sin().sum(), list(leaves.values()))
    by_autograd = torch.autograd.grad(expected.sin().sum(), list(exact.values()))
    for one, other in zip(by_kernel, by_autograd, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-3 * float(other.abs().max()))


def test_all_points_in_one_place() -> None:
    form = (16, 8, 1, 2, (3, 3), (1, 1), (1, 1), (1, 1))
    made = on_gpu(form, 2, (24, 25), 9)
    grid_y, grid_x = torch.meshgrid(torch.arange(24.0), torch.arange(25.0), indexing="ij")
    for tap in range(9):
        made["offset"][:, 2 * tap :: 18] = (11.25 - (grid_y - 1 + tap // 3)).cuda()
        made["offset"][:, 2 * tap + 1 :: 18] = (7.5 - (grid_x - 1 + tap % 3)).cuda()
    leaves = {name: one.float().requires_grad_() for name, one in made.items()}
    exact = {name: one.double().requires_grad_() for name, one in made.items()}
    outer = torch.randn(2, 8, 24, 25, generator=torch.Generator().manual_seed(0)).cuda()
    found, expected = deform_conv2d(**leaves, **numbers(form)), reference(exact, form)
    by_kernel = torch.autograd.grad(found, list(leaves.values()), outer, retain_graph=True)
    by_autograd = torch.autograd.grad(expected, list(exact.values()), outer.double())
    for one, other in zip(by_kernel, by_autograd, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4 * float(other.abs().max()))
    again = torch.autograd.grad(found, list(leaves.values()), outer)
    assert all(torch.equal(one, other) for one, other in zip(by_kernel, again, strict=True))


def test_runs_are_equal_bit_for_bit() -> None:
    form = (64, 64, 1, 1, (3, 3), (1, 1), (1, 1), (1, 1))
    leaves = {name: one.bfloat16().requires_grad_() for name, one in on_gpu(form, 8, (64, 64), 5).items()}

    def step() -> tuple[torch.Tensor, ...]:
        out = deform_conv2d(**leaves, **numbers(form))
        return (out, *torch.autograd.grad(out.float().square().sum(), list(leaves.values())))

    first = step()
    for _ in range(3):
        assert all(torch.equal(one, other) for one, other in zip(first, step(), strict=True))


@pytest.mark.parametrize(("y", "x"), list(itertools.product([math.nan, math.inf, -1e30, 1.5], repeat=2)))
def test_offsets_that_are_no_numbers_or_far_away(y: float, x: float) -> None:
    made = on_gpu(FORMS[0], 1, (6, 7), 6)
    made["offset"][:, 0::2, 2] = y
    made["offset"][:, 1::2, 2] = x
    leaves = {name: one.float().requires_grad_() for name, one in made.items()}
    exact = {name: one.double().requires_grad_() for name, one in made.items()}
    found, expected = deform_conv2d(**leaves, **numbers(FORMS[0])), reference(exact, FORMS[0])
    torch.testing.assert_close(found, expected.float(), rtol=1e-4, atol=1e-4, equal_nan=True)
    outer = torch.ones_like(found)
    (by_kernel,) = torch.autograd.grad(found, leaves["input"], outer)
    (by_autograd,) = torch.autograd.grad(expected, exact["input"], outer.double())
    torch.testing.assert_close(by_kernel, by_autograd.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("channels", [1, 3, 6, 16])
@pytest.mark.parametrize("outputs", [3, 72])
def test_an_infinite_mask_is_infinite_whatever_vectors_are_filled_up_with(
    outputs: int, channels: int, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(channels)
    given = torch.rand(2, channels, 5, 6, generator=generator) + 0.5
    weight = torch.rand(outputs, channels, 3, 3, generator=generator) + 0.5
    mask = torch.ones(2, 9, 5, 6)
    mask[:, 4, 2, 3] = math.inf
    one, weights, modulation = (tensor.to("cuda", dtype) for tensor in (given, weight, mask))
    found = deform_conv2d(one, one.new_zeros(2, 18, 5, 6), weights, padding=1, mask=modulation)
    expected = torch.zeros(2, outputs, 5, 6, dtype=torch.bool)
    expected[:, :, 2, 3] = True
    assert torch.equal(found.isposinf().cpu(), expected)
    assert not found.isnan().any()


def test_tensors_without_elements() -> None:
    for images, channels, outputs in ((0, 3, 2), (2, 0, 2), (2, 3, 0)):
        leaves = [
            torch.randn(shape, device="cuda", requires_grad=True)
            for shape in ((images, channels, 4, 4), (images, 18, 4, 4), (outputs, channels, 3, 3), (outputs,))
        ]
        found = deform_conv2d_sized(*leaves, None, 1, 1, 1, 1)
        torch.testing.assert_close(found, leaves[3][:, None, None].expand_as(found))
        for gradient in torch.autograd.grad(found.sum(), leaves)[:3]:
            assert not gradient.count_nonzero()


def test_capture_and_replay() -> None:
    form = FORMS[4]
    static = {name: one.half().requires_grad_() for name, one in on_gpu(form, 2, (12, 13), 7).items()}

    def step() -> tuple[torch.Tensor, ...]:
        out = deform_conv2d(**static, **numbers(form))
        return (out, *torch.autograd.grad(out, list(static.values()), torch.ones_like(out)))

    graph, captured = capture(step)
    with torch.no_grad():
        static["input"].copy_(torch.randn_like(static["input"]))
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(one, other) for one, other in zip(captured, step(), strict=True))


@pytest.mark.whole_gpu
@pytest.mark.slow("tensors of more than 2^31 elements")
def test_more_than_two_to_the_31_elements() -> None:
    if torch.cuda.get_device_properties(0).total_memory < 40 << 30:
        pytest.skip("needs 20 GB of GPU memory")
    image = torch.zeros(1, 8, 17000, 17000, dtype=torch.float16, device="cuda")
    image[0, 7, -1, -1] = 1
    offset = torch.zeros(1, 2, 17000, 17000, dtype=torch.float16, device="cuda")
    out = deform_conv2d(image, offset, torch.ones(8, 8, 1, 1, dtype=torch.float16, device="cuda"))
    assert out[0, 7, -1, -1].item() == 1
    assert out.count_nonzero().item() == 8
