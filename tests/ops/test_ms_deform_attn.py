"""ms_deform_attn: against grid_sample and by hand, its gradients, what it refuses, and its module."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from opsmith.errors import ArgumentTypeError, ArgumentValueError, DtypeError, ShapeError
from opsmith.ops.ms_deform_attn import MSDeformAttn, MSDeformAttnFunction, ms_deform_attn, ms_deform_attn_sampled

pytestmark = pytest.mark.compile

devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
SHAPES = [(6, 9), (3, 5), (2, 2)]


def composition(value: Tensor, shapes: list[tuple[int, int]], locations: Tensor, weights: Tensor) -> Tensor:
    """The same from grid_sample, level by level, as detectors without the operator compute it."""
    images, _, heads, channels = value.shape
    queries = locations.shape[1]
    levels = value.split([height * width for height, width in shapes], 1)
    samples = [
        grid_sample(
            level.permute(0, 2, 3, 1).reshape(images * heads, channels, *shape),
            (2 * locations[:, :, :, index] - 1).transpose(1, 2).flatten(0, 1),
            align_corners=False,
        )
        for index, (level, shape) in enumerate(zip(levels, shapes, strict=True))
    ]
    each = torch.stack(samples, 3).unflatten(0, (images, heads)).flatten(4)  # [N M D Q L*P]
    sums = (each * weights.transpose(1, 2).flatten(3)[:, :, None]).sum(-1)
    return sums.permute(0, 3, 1, 2).reshape(images, queries, heads * channels)


def arguments(
    *, heads: int = 2, channels: int = 8, queries: int = 11, points: int = 3, shapes: Any = SHAPES, images: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Value, locations inside and outside of the levels, and weights, in float64."""
    random = torch.Generator().manual_seed(channels)
    pixels = sum(height * width for height, width in shapes)
    grid = (images, queries, heads, len(shapes), points)
    value = torch.randn(images, pixels, heads, channels, generator=random, dtype=torch.float64)
    locations = 1.3 * torch.rand(*grid, 2, generator=random, dtype=torch.float64) - 0.15
    return value, locations, torch.rand(grid, generator=random, dtype=torch.float64)


@devices
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("channels", [1, 7, 8, 32, 48, 130])
def test_agrees_with_grid_sample(channels: int, dtype: torch.dtype, device: str) -> None:
    given = [tensor.to(device, dtype) for tensor in arguments(channels=channels)]
    value, locations, weights = ours = [tensor.clone().requires_grad_() for tensor in given]
    theirs = [tensor.double().requires_grad_() for tensor in given]
    found = ms_deform_attn(value, SHAPES, None, locations, weights)
    expected = composition(theirs[0], SHAPES, theirs[1], theirs[2])
    assert found.dtype == dtype
    # Sums of nine samples; in float32 a location is off by a part in 2^24 of the level.
    rounding = max(torch.finfo(dtype).eps, 1e-6 if dtype != torch.float64 else 0.0)
    torch.testing.assert_close(found.double(), expected, rtol=4 * rounding, atol=16 * rounding)
    grad = torch.randn(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(
        device, dtype
    )
    gradients = torch.autograd.grad(found, ours, grad)
    for one, other in zip(gradients, torch.autograd.grad(expected, theirs, grad.double()), strict=True):
        bound = 16 * rounding * max(other.abs().max().item(), 1.0)
        torch.testing.assert_close(one.double(), other, rtol=4 * rounding, atol=bound)


@devices
@pytest.mark.parametrize("queries", [700, 2100])  # on a GPU a level's 2,800 points are few, and 8,400 are many
def test_gradients_of_many_points(queries: int, device: str) -> None:
    given = [tensor.to(device, torch.float32) for tensor in arguments(queries=queries, points=4, channels=32, images=1)]
    ours = [tensor.clone().requires_grad_() for tensor in given]
    theirs = [tensor.double().requires_grad_() for tensor in given]
    found = ms_deform_attn(ours[0], SHAPES, None, ours[1], ours[2])
    expected = composition(theirs[0], SHAPES, theirs[1], theirs[2])
    grad = torch.randn(found.shape, generator=torch.Generator().manual_seed(1)).to(device)
    gradients = torch.autograd.grad(found, ours, grad, retain_graph=True)
    for one, other in zip(gradients, torch.autograd.grad(expected, theirs, grad.double()), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=2e-5 * other.abs().max().item())
    for one, again in zip(gradients, torch.autograd.grad(found, ours, grad, retain_graph=True), strict=True):
        assert torch.equal(one, again)
    for leaf, one in zip(ours, gradients, strict=True):  # what is not needed is left out
        assert torch.equal(torch.autograd.grad(found, leaf, grad, retain_graph=True)[0], one)


@devices
def test_points_by_hand(device: str) -> None:
    value = torch.tensor([1.0, 2.0, 3.0, 4.0, 50.0], device=device).reshape(1, 5, 1, 1)  # levels of 2 x 2 and 1 x 1
    places = [[0.25, 0.25], [0.5, 0.5], [0.75, 0.5], [0.0, 0.25], [math.nan, 0.5], [-0.25, 0.5]]
    first = torch.tensor(places, device=device)
    second = torch.full_like(first, 0.5)
    locations = torch.stack([first, second], 1).reshape(1, 6, 1, 2, 1, 2)
    weights = torch.tensor([1.0, 0.1], device=device).expand(1, 6, 1, 2).reshape(1, 6, 1, 2, 1)
    found = ms_deform_attn(value, [(2, 2), (1, 1)], None, locations, weights)
    torch.testing.assert_close(found.flatten().tolist(), [6.0, 7.5, 8.0, 5.5, 5.0, 5.0])


@devices
def test_shapes_are_numbers_or_tensors_and_steps_mean_nothing(device: str) -> None:
    value, locations, weights = (tensor.to(device) for tensor in arguments())
    expected = ms_deform_attn(value, SHAPES, None, locations, weights)
    sizes = torch.tensor(SHAPES, device=device)
    starts = torch.tensor([0, 54, 69], device=device)
    assert torch.equal(ms_deform_attn(value, sizes, starts, locations, weights), expected)
    assert torch.equal(ms_deform_attn(value, sizes.int(), starts.int(), locations, weights, 64), expected)
    assert torch.equal(MSDeformAttnFunction.apply(value, sizes, starts, locations, weights, 2), expected)


def test_shapes_of_small_integers_do_not_wrap_around() -> None:
    shapes = [(20, 17), (4, 3)]  # of 340 pixels and more
    value, locations, weights = arguments(shapes=shapes)
    found = ms_deform_attn(value, torch.tensor(shapes, dtype=torch.uint8), None, locations, weights)
    torch.testing.assert_close(found, ms_deform_attn(value, shapes, None, locations, weights))


@devices
def test_levels_may_lie_anywhere(device: str) -> None:
    value, locations, weights = (tensor.to(device) for tensor in arguments(shapes=[(4, 5), (4, 5)]))
    sizes = torch.tensor([(4, 5), (4, 5)], device=device)
    shared = torch.tensor([20, 20], device=device)  # both levels are the second one's pixels
    leaf = value.clone().requires_grad_()
    found = ms_deform_attn(leaf, sizes, shared, locations, weights)
    twice = torch.cat([value[:, 20:], value[:, 20:]], 1).requires_grad_()
    expected = composition(twice, [(4, 5), (4, 5)], locations, weights)
    torch.testing.assert_close(found, expected)
    (gradient,) = torch.autograd.grad(found.sum(), leaf)
    (other,) = torch.autograd.grad(expected.sum(), twice)
    assert not gradient[:, :20].any()
    torch.testing.assert_close(gradient[:, 20:], other[:, :20] + other[:, 20:])


@devices
@pytest.mark.parametrize("bad", [[(6, 9), (90, 90), (2, 2)], [(6, 9), (-3, 5), (2, 2)], [(1 << 40, 1 << 40)] * 3])
def test_shapes_that_are_wrong_read_nothing_outside(bad: list[tuple[int, int]], device: str) -> None:
    value, locations, weights = (tensor.to(device) for tensor in arguments())
    value.requires_grad_()
    sizes, starts = torch.tensor(bad, device=device), torch.tensor([0, 54, 69], device=device)
    found = ms_deform_attn_sampled(value, sizes, starts, locations, weights)
    expected = ms_deform_attn_sampled.reference(value, sizes, starts, locations, weights)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*(torch.autograd.grad(one.sum(), value)[0] for one in (found, expected)))


@devices
def test_wider_locations_are_not_rounded(device: str) -> None:
    value, locations, weights = (tensor.to(device) for tensor in arguments(shapes=[(100, 300)], points=1))
    found = ms_deform_attn(value.half(), [(100, 300)], None, locations.float(), weights.half())
    assert found.dtype == torch.float16
    expected = composition(value.half().float(), [(100, 300)], locations.float(), weights.half().float())
    torch.testing.assert_close(found.float(), expected, rtol=2e-3, atol=2e-3)


def test_gradcheck_of_both_orders() -> None:
    value, locations, weights = arguments(channels=2, queries=2, points=2, shapes=[(3, 4), (2, 2)], images=1)
    inputs = tuple(tensor.requires_grad_() for tensor in (value, locations, weights))

    def call(value: Tensor, locations: Tensor, weights: Tensor) -> Tensor:
        return ms_deform_attn(value, [(3, 4), (2, 2)], None, locations, weights)

    assert torch.autograd.gradcheck(call, inputs)
    assert torch.autograd.gradgradcheck(call, inputs)


@devices
@pytest.mark.parametrize("count", [0, 1])
def test_no_queries_and_no_levels(count: int, device: str) -> None:
    value = torch.randn(2, 4, 3, 8, device=device, requires_grad=True)
    locations = torch.rand(2, 5 * count, 3, 1 - count, 2, 2, device=device)
    found = ms_deform_attn(
        value, torch.tensor([[2, 2]] * (1 - count), dtype=torch.int64, device=device).reshape(-1, 2), None, locations,
        torch.rand(2, 5 * count, 3, 1 - count, 2, device=device),
    )  # fmt: skip
    assert found.shape == (2, 5 * count, 24)
    assert not found.any()
    assert not torch.autograd.grad(found.sum(), value)[0].any()


def test_what_does_not_fit_is_refused() -> None:
    value, locations, weights = arguments()
    with pytest.raises(ShapeError, match=r"value has 73 pixels, the levels .* have 74") as raised:
        ms_deform_attn(value, [(6, 9), (3, 5), (1, 5)], None, locations, weights)
    assert isinstance(raised.value, AssertionError)
    for shapes in ([(6, 9, 1)], 7, [(6.0, 9)], [(-1, 2)]):
        with pytest.raises(ArgumentTypeError, match=r"spatial_shapes is .*, expected a tensor"):
            ms_deform_attn(value, shapes, None, locations, weights)
    with pytest.raises(ArgumentTypeError, match="value is"):
        ms_deform_attn(value.numpy(), SHAPES, None, locations, weights)
    with pytest.raises(DtypeError, match="sampling_locations"):
        ms_deform_attn(value, SHAPES, None, locations.to(torch.complex64), weights)
    with pytest.raises(ShapeError, match="attention_weights"):
        ms_deform_attn(value, SHAPES, None, locations, weights[:, 1:])
    with pytest.raises(ArgumentValueError, match="d_model = 30 is not a multiple of n_heads = 4"):
        MSDeformAttn(30, n_heads=4)


@pytest.mark.parametrize("boxes", [False, True])
def test_the_module_attends_where_its_references_are(boxes: bool) -> None:
    torch.manual_seed(0)
    module = MSDeformAttn(16, n_levels=3, n_heads=4, n_points=2).double()
    names = ("sampling_offsets", "attention_weights", "value_proj", "output_proj")
    assert {key.partition(".")[0] for key in module.state_dict()} == set(names)
    query = torch.randn(2, 5, 16, dtype=torch.float64)
    features = torch.randn(2, 73, 16, dtype=torch.float64)
    references = torch.rand(2, 5, 3, 4 if boxes else 2, dtype=torch.float64)
    padding = torch.rand(2, 73) < 0.2
    found = module(query, references, features, SHAPES, None, padding)
    value = module.value_proj(features).masked_fill(padding[..., None], 0.0).unflatten(2, (4, 4))
    offsets = module.sampling_offsets(query).view(2, 5, 4, 3, 2, 2)
    around = references[:, :, None, :, None]
    sizes = torch.tensor(SHAPES).flip(1)
    locations = around[..., :2] + (offsets / 2 * around[..., 2:] / 2 if boxes else offsets / sizes[:, None])
    weights = torch.full((2, 5, 4, 3, 2), 1 / 6, dtype=torch.float64)
    expected = module.output_proj(composition(value, SHAPES, locations, weights))
    torch.testing.assert_close(found, expected)
    with pytest.raises(ShapeError, match=r"reference_points is \[2, 5, 3, 3\]"):
        module(query, torch.rand(2, 5, 3, 3), features, SHAPES)
