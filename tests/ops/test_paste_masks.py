"""paste_masks_in_image: against interpolation and slices, by hand, its threshold and gradient, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import grid_sample, interpolate, pad

from opsmith.errors import ArgumentTypeError, ArgumentValueError, DtypeError, ShapeError
from opsmith.ops.paste_masks import paste_binary_masks_in_image, paste_masks_in_image

pytestmark = pytest.mark.compile

devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
SHAPE = (61, 83)


def composition(masks: Tensor, boxes: Tensor, shape: tuple[int, int], padding: int) -> Tensor:
    """Each mask padded, resized to its box and pasted by slices."""
    width = masks.shape[3]
    images = []
    for mask, box in zip(pad(masks, (padding,) * 4), boxes.float(), strict=True):
        half, middle = (box[2:] - box[:2]) * 0.5 * ((width + 2 * padding) / width), (box[2:] + box[:2]) * 0.5
        left, top, right, bottom = [int(edge) for edge in (*(middle - half), *(middle + half))]
        size = (max(bottom - top + 1, 1), max(right - left + 1, 1))
        resized = interpolate(mask[None], size, mode="bilinear", align_corners=False)[0, 0]
        y, x = (
            slice(max(top, 0), max(min(bottom + 1, shape[0]), 0)),
            slice(max(left, 0), max(min(right + 1, shape[1]), 0)),
        )
        part = resized[y.start - top : max(y.stop - top, 0), x.start - left : max(x.stop - left, 0)]
        around = (x.start, shape[1] - x.start - part.shape[1], y.start, shape[0] - y.start - part.shape[0])
        images.append(pad(part, around) if part.numel() else resized.new_zeros(shape) + 0 * resized.sum())
    return torch.stack(images)[:, None]


def boxes(count: int = 12) -> Tensor:
    """Boxes that lie in the image and across its edges."""
    random = torch.Generator().manual_seed(0)
    corner = 70 * torch.rand(count, 2, generator=random) - 20
    return torch.cat([corner, corner + 1 + 60 * torch.rand(count, 2, generator=random)], 1)


def masks(height: int, width: int, count: int = 12) -> Tensor:
    return torch.rand(count, 1, height, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@devices
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("size", "padding"), [((28, 28), 1), ((14, 14), 0), ((5, 9), 2), ((1, 1), 1)])
def test_agrees_with_interpolation(size: tuple[int, int], padding: int, dtype: torch.dtype, device: str) -> None:
    ours = masks(*size).to(device, dtype).requires_grad_()
    theirs = ours.detach().double().requires_grad_()
    found = paste_masks_in_image(ours, boxes().to(device), SHAPE, padding)
    expected = composition(theirs, boxes().to(device), SHAPE, padding)
    assert found.shape == (12, 1, *SHAPE) and found.dtype == dtype
    # In float32 the place in a mask of 30 pixels is off by some 2^-20.
    rounding = (
        torch.finfo(dtype).eps
        if dtype in (torch.float16, torch.bfloat16)
        else 1e-12
        if dtype == torch.float64
        else 1e-5
    )
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=rounding)
    outer = torch.rand(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).to(
        device, dtype
    )
    (gradient,) = torch.autograd.grad(found, ours, outer)
    (other,) = torch.autograd.grad(expected, theirs, outer.double())
    torch.testing.assert_close(gradient.double(), other, rtol=0, atol=rounding * other.abs().max().item())


@devices
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", [(28, 28), (5, 9), (1, 1)])
def test_aligned_agrees_with_grid_sample(size: tuple[int, int], dtype: torch.dtype, device: str) -> None:
    ours = masks(*size).to(device, dtype).requires_grad_()
    theirs = ours.detach().double().requires_grad_()
    places = boxes().to(device)
    found = paste_masks_in_image(ours, places, SHAPE, aligned=True)
    grid = []
    for axis in (0, 1):
        middles = torch.arange(SHAPE[1 - axis], device=device, dtype=torch.float64) + 0.5
        low, high = places[:, axis : axis + 1].double(), places[:, axis + 2 : axis + 3].double()
        grid.append((middles - low) / (high - low) * 2 - 1)
    x, y = grid[0][:, None].expand(-1, SHAPE[0], -1), grid[1][:, :, None].expand(-1, -1, SHAPE[1])
    expected = grid_sample(theirs, torch.stack([x, y], 3), align_corners=False)
    # In float32 the place in a mask is off by some 2^-20 of a pixel, more where a box is small.
    rounding = {torch.float64: 1e-12, torch.float32: 3e-5}.get(dtype, torch.finfo(dtype).eps)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=rounding)
    outer = torch.rand(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    (gradient,) = torch.autograd.grad(found, ours, outer.to(device, dtype))
    (other,) = torch.autograd.grad(expected, theirs, outer.to(device, dtype).double())
    torch.testing.assert_close(gradient.double(), other, rtol=0, atol=rounding * other.abs().max().item())


@devices
def test_aligned_pixels_by_hand(device: str) -> None:
    mask = torch.tensor([[[[1.0, 0.0], [1.0, 1.0]]]], device=device)
    inside = paste_masks_in_image(mask, torch.tensor([[1.0, 0.0, 3.0, 2.0]], device=device), (3, 4), aligned=True)
    assert inside[0, 0].tolist() == [[0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    # Half a pixel further to the left, each lies between two.
    moved = paste_masks_in_image(mask, torch.tensor([[0.5, 0.0, 2.5, 2.0]], device=device), (2, 4), aligned=True)
    assert moved[0, 0].tolist() == [[0.5, 0.5, 0.0, 0.0], [0.5, 1.0, 0.5, 0.0]]
    found = paste_binary_masks_in_image(mask, torch.tensor([[0.5, 0.0, 2.5, 2.0]], device=device), (2, 4), aligned=True)
    assert found[0, 0].tolist() == [[True, True, False, False], [True, True, True, False]]


@devices
def test_pixels_by_hand(device: str) -> None:
    mask = torch.tensor([[[[1.0, 0.0], [1.0, 1.0]]]], device=device)
    inside = paste_masks_in_image(mask, torch.tensor([[1.0, 0.0, 2.0, 1.0]], device=device), (3, 4), padding=0)
    assert inside[0, 0].tolist() == [[0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    twice = paste_masks_in_image(mask, torch.tensor([[-2.9, 0.0, 1.9, 1.0]], device=device), (2, 3), padding=0)
    # Edges are truncated towards zero: pixels -2 to 1, of which the third and the fourth are in the image.
    assert twice[0, 0].tolist() == [[0.25, 0.0, 0.0], [1.0, 1.0, 0.0]]


@devices
@pytest.mark.parametrize("threshold", [0.5, 0.3, 0.0, 1.0])
def test_a_threshold_gives_what_comparing_gives(threshold: float, device: str) -> None:
    given, places = masks(28, 28).float().to(device), boxes().to(device)
    found = paste_binary_masks_in_image(given, places, SHAPE, threshold)
    assert found.dtype == torch.bool
    assert torch.equal(found, paste_masks_in_image(given, places, SHAPE) >= threshold)


@devices
def test_boxes_that_are_nowhere(device: str) -> None:
    places = torch.tensor(
        [
            [200.0, 200.0, 220.0, 220.0],
            [-90.0, 5.0, -70.0, 20.0],
            [math.nan, 0.0, 9.0, 9.0],
            [0.0, 0.0, math.inf, 9.0],
            [0.0, 0.0, 1e12, 9.0],
            [30.0, 30.0, 10.0, 10.0],
        ],
        device=device,
    )
    for aligned in (False, True):
        given = torch.ones(6, 1, 4, 4, device=device, requires_grad=True)
        found = paste_masks_in_image(given, places, SHAPE, aligned=aligned)
        assert not found.any()
        assert not torch.autograd.grad(found.sum(), given)[0].any()
        assert not paste_binary_masks_in_image(given, places, SHAPE, aligned=aligned).any()


@devices
def test_a_box_far_larger_than_the_image(device: str) -> None:
    given = masks(5, 7, 1).float().to(device).requires_grad_()
    places = torch.tensor([[-3000.0, -4000.0, 2500.0, 5000.0]], device=device)
    found, expected = paste_masks_in_image(given, places, SHAPE), composition(given, places, SHAPE, 1)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    gradients = [torch.autograd.grad(one.sum(), given)[0] for one in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=0.1)


def test_gradcheck_of_both_orders() -> None:
    given = masks(3, 4, 2).requires_grad_()
    places = torch.tensor([[1.0, 0.0, 6.0, 4.0], [-3.0, 2.0, 9.0, 9.0]])
    for aligned in (False, True):

        def paste(one: Tensor, aligned: bool = aligned) -> Tensor:
            return paste_masks_in_image(one, places, (6, 7), aligned=aligned)

        assert torch.autograd.gradcheck(paste, given)
        assert torch.autograd.gradgradcheck(paste, given)


@devices
def test_masks_and_boxes_of_any_layout_and_type(device: str) -> None:
    given, places = masks(6, 5).to(device), boxes().round().to(device)
    expected = paste_masks_in_image(given, places, SHAPE)
    turned = given.transpose(2, 3).contiguous().transpose(2, 3)
    assert torch.equal(paste_masks_in_image(turned, places.T.contiguous().T, SHAPE), expected)
    assert torch.equal(paste_masks_in_image(given, places.long(), SHAPE), expected)
    assert torch.equal(paste_masks_in_image(given, places.double(), SHAPE), expected)


@devices
def test_no_masks_no_pixels(device: str) -> None:
    none = torch.empty(0, 4, device=device)
    assert paste_masks_in_image(torch.empty(0, 1, 3, 3, device=device), none, (5, 7)).shape == (0, 1, 5, 7)
    places = boxes(2).to(device)
    assert paste_masks_in_image(torch.ones(2, 1, 3, 3, device=device), places, (0, 7)).shape == (2, 1, 0, 7)
    assert not paste_masks_in_image(torch.ones(2, 1, 0, 3, device=device), places, (5, 7)).any()
    assert not paste_binary_masks_in_image(torch.ones(2, 1, 3, 0, device=device), places, (5, 7)).any()
    assert not paste_binary_masks_in_image(torch.ones(2, 1, 0, 3, device=device), places, (5, 7), aligned=True).any()


def test_what_does_not_fit_is_refused() -> None:
    given, places = masks(4, 4, 2).float(), boxes(2)
    for function in (paste_masks_in_image, paste_binary_masks_in_image):
        with pytest.raises(ShapeError, match=r"masks is \[2, 4, 4\], expected \[N, 1, h, w\]"):
            function(given[:, 0], places, SHAPE)
        with pytest.raises(ShapeError, match=r"boxes is \[3, 4\], expected \[2, 4\], a box for each mask"):
            function(given, boxes(3), SHAPE)
        with pytest.raises(ArgumentValueError, match=r"padding -1, expected 0 or more"):
            function(given, places, SHAPE, padding=-1)
        with pytest.raises(ArgumentValueError, match=r"img_shape is \(-1, 4\)"):
            function(given, places, (-1, 4))
        for shape in (7, (1, 2, 3), (2.0, 3), None):
            with pytest.raises(ArgumentTypeError, match=r"img_shape is .*, expected \(height, width\), two ints"):
                function(given, places, shape)
        with pytest.raises(ArgumentTypeError, match="boxes is"):
            function(given, places.tolist(), SHAPE)
        with pytest.raises(DtypeError, match="masks"):
            function(given > 0.5, places, SHAPE)
    with pytest.raises(ArgumentTypeError, match="threshold is"):
        paste_binary_masks_in_image(given, places, SHAPE, "half")
