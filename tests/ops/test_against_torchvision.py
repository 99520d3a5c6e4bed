"""What has a name of torchvision.ops takes, returns and refuses what torchvision's does.

Runs where torchvision is installed beside this PyTorch, with its operators; no extra asks for it.
"""

from __future__ import annotations

import inspect
import itertools
import math
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

import opsmith.ops
from opsmith.errors import OpsmithError

theirs = pytest.importorskip("torchvision.ops", reason="torchvision is not installed")
if not sys.modules["torchvision.extension"]._has_ops():
    pytest.skip("torchvision's operators are not built for this PyTorch", allow_module_level=True)

pytestmark = pytest.mark.compile

OURS: dict[str, Any] = {
    name: getattr(opsmith.ops, name)
    for name in (
        "nms",
        "batched_nms",
        "roi_align",
        "RoIAlign",
        "MultiScaleRoIAlign",
        "roi_pool",
        "RoIPool",
        "deform_conv2d",
        "DeformConv2d",
        "sigmoid_focal_loss",
    )
}


def both(name: str) -> tuple[Any, Any]:
    return OURS[name], getattr(theirs, name)


def detections(count: int, seed: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Boxes around 20 objects and as many anywhere, and scores with ties."""
    random = torch.Generator().manual_seed(seed)
    objects = 300 * torch.rand(20, 2, generator=random)
    anywhere = 300 * torch.rand(count, 2, generator=random)
    around = objects[torch.randint(0, 20, (count,), generator=random)]
    corner = torch.where(torch.arange(count)[:, None] % 2 == 0, around, anywhere)
    side = 2 + 80 * torch.rand(count, 2, generator=random)
    corner += torch.randn(count, 2, generator=random)
    scores = torch.randint(0, count + 1, (count,), generator=random) / (count + 1)
    return torch.cat([corner, corner + side], 1).to(dtype), scores.to(dtype)


def regions(images: int, count: int, seed: int = 0) -> Tensor:
    """Boxes in images of 64 x 96 and across their edges, [count, 5]."""
    random = torch.Generator().manual_seed(seed)
    index = torch.randint(0, images, (count, 1), generator=random)
    corner = torch.rand(count, 2, generator=random) * torch.tensor([100.0, 70.0]) - 5
    return torch.cat([index, corner, corner + 60 * torch.rand(count, 2, generator=random)], 1)


@pytest.mark.parametrize("name", list(OURS))
def test_names_order_and_defaults_of_arguments(name):
    def said(function: Any) -> list[tuple[str, Any, Any]]:
        return [(p.name, p.default, p.kind) for p in inspect.signature(function).parameters.values()]

    ours, torchvisions = both(name)
    more = {"deform_conv2d": ["autocast"], "DeformConv2d": ["autocast"]}.get(name, [])
    own = said(ours)
    assert own[: len(own) - len(more)] == said(torchvisions)
    assert [argument[0] for argument in own[len(own) - len(more) :]] == more
    if inspect.isclass(ours):
        assert said(ours.forward) == said(torchvisions.forward)


def test_modules_print_alike():
    assert repr(OURS["RoIAlign"](7, 0.25, 2)) == repr(theirs.RoIAlign(7, 0.25, 2))
    assert repr(OURS["RoIPool"]((7, 3), 0.25)) == repr(theirs.RoIPool((7, 3), 0.25))


@pytest.mark.parametrize("count", [0, 1, 50, 1200])
@pytest.mark.parametrize("threshold", [0.0, 0.2, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_nms(count, threshold, dtype):
    boxes, scores = detections(count, count, dtype)
    ours, torchvisions = both("nms")
    found, expected = ours(boxes, scores, threshold), torchvisions(boxes, scores, threshold)
    assert torch.equal(found, expected) and found.dtype == expected.dtype


@pytest.mark.parametrize("count", [0, 50, 2500], ids=["none", "moved apart there", "class by class there"])
def test_batched_nms(count):
    boxes, scores = detections(count, 1)
    classes = torch.arange(count) % 7
    ours, torchvisions = both("batched_nms")
    found, expected = ours(boxes, scores, classes, 0.5), torchvisions(boxes, scores, classes, 0.5)
    # Class by class theirs ends with a sort that is not stable; equal scores are in any order.
    assert torch.equal(scores[found], scores[expected])
    assert set(found.tolist()) == set(expected.tolist())


@pytest.mark.parametrize("size", [7, (2, 5)], ids=str)
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [-1, 0, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_roi_align_and_its_gradient(size, aligned, ratio, dtype):
    random = torch.Generator().manual_seed(3)
    features = torch.randn(2, 5, 16, 24, generator=random).to(dtype)
    rois = regions(2, 20).to(dtype)
    results = []
    for function in both("roi_align"):
        x = features.clone().requires_grad_()
        y = function(x, rois, size, 0.25, ratio, aligned)
        weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(4)).to(dtype)
        (y * weights).sum().backward()
        results.append((y.detach(), x.grad))
    # Ours finds the points in float32 for every type, so 1e-5 of a feature's difference is what a place may be off.
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("size", [7, (2, 5)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_roi_pool_and_its_gradient(size, dtype):
    features = torch.randn(2, 5, 16, 24, generator=torch.Generator().manual_seed(3)).to(dtype)
    results = []
    for function in both("roi_pool"):
        x = features.clone().requires_grad_()
        y = function(x, regions(2, 20).to(dtype), size, 0.25)
        y.sum().backward()
        results.append((y.detach(), x.grad))
    assert torch.equal(results[0][0], results[1][0])
    torch.testing.assert_close(results[0][1], results[1][1])


@pytest.mark.parametrize("name", ["roi_align", "roi_pool"])
def test_boxes_as_a_list(name):
    features = torch.randn(3, 2, 16, 24, generator=torch.Generator().manual_seed(5))
    boxes = [regions(1, count, count)[:, 1:] for count in (4, 0, 3)]
    ours, torchvisions = both(name)
    torch.testing.assert_close(ours(features, boxes, 3, 0.25), torchvisions(features, boxes, 3, 0.25))
    torch.testing.assert_close(ours(features, tuple(boxes), 3), torchvisions(features, tuple(boxes), 3))


@pytest.mark.parametrize("alpha", [-1, 0.0, 0.25, 1.0])
@pytest.mark.parametrize("gamma", [0, 1.5, 2])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_sigmoid_focal_loss_and_its_gradient(alpha, gamma, reduction):
    random = torch.Generator().manual_seed(6)
    logits, targets = 3 * torch.randn(40, 9, generator=random), (torch.rand(40, 9, generator=random) < 0.3).float()
    results = []
    for function in both("sigmoid_focal_loss"):
        x = logits.clone().requires_grad_()
        y = function(x, targets, alpha, gamma, reduction)
        y.sum().backward()
        results.append((y.detach(), x.grad))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


BOXES, SCORES, FEATURES = torch.rand(3, 4), torch.rand(3), torch.rand(1, 1, 8, 8)
REFUSED: list[tuple[str, tuple[Any, ...]]] = [
    ("nms", (BOXES[0], SCORES, 0.5)),
    ("nms", (torch.rand(3, 5), SCORES, 0.5)),
    ("nms", (BOXES, torch.rand(3, 2), 0.5)),
    ("nms", (BOXES, torch.rand(4), 0.5)),
    ("batched_nms", (BOXES, torch.rand(4), torch.zeros(3), 0.5)),
    *((name, (FEATURES, torch.rand(1, 4), 2)) for name in ("roi_align", "roi_pool")),
    *((name, (FEATURES, [torch.rand(1, 3)], 2)) for name in ("roi_align", "roi_pool")),
    *((name, (FEATURES, 3.0, 2)) for name in ("roi_align", "roi_pool")),
    ("sigmoid_focal_loss", (FEATURES, FEATURES, 0.25, 2, "median")),
    ("sigmoid_focal_loss", (FEATURES, FEATURES, 1.5)),
    ("sigmoid_focal_loss", (FEATURES, torch.rand(8, 8))),
]


@pytest.mark.parametrize(("name", "arguments"), REFUSED, ids=[f"{k}-{name}" for k, (name, _) in enumerate(REFUSED)])
def test_what_is_refused_is_refused_in_the_same_words(name, arguments):
    caught = []
    for function in both(name):
        with pytest.raises((RuntimeError, ValueError, AssertionError)) as raised:
            function(*arguments)
        caught.append(raised.value)
    ours, expected = (caught[0], caught[1]) if isinstance(caught[0], OpsmithError) else (caught[1], caught[0])
    assert isinstance(ours, type(expected))
    assert str(ours).startswith(f"{name}(): {str(expected).splitlines()[0]}")


def test_a_pyramid_of_theirs_runs_on_ours(monkeypatch):
    pooler = theirs.MultiScaleRoIAlign(["0", "1"], 3, 2)
    pyramid = {str(level): torch.randn(2, 4, 64 >> level, 96 >> level) for level in range(2)}
    boxes = [3 * regions(1, 10, seed)[:, 1:].clamp(min=0) for seed in range(2)]
    expected = pooler(pyramid, boxes, [(256, 384)] * 2)
    monkeypatch.setattr(sys.modules["torchvision.ops.poolers"], "roi_align", OURS["roi_align"])
    torch.testing.assert_close(pooler(pyramid, boxes, [(256, 384)] * 2), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("modulated", [False, True])
def test_deform_conv2d(modulated):
    random = torch.Generator().manual_seed(8)
    x, weight = (torch.randn(shape, generator=random) for shape in ((2, 6, 9, 11), (4, 3, 3, 2)))
    offset, mask = torch.randn(2, 2 * 2 * 6, 5, 10, generator=random), torch.rand(2, 2 * 6, 5, 10, generator=random)
    found, expected = (
        function(x, offset, weight, torch.ones(4), (2, 1), (1, 0), 1, mask if modulated else None)
        for function in both("deform_conv2d")
    )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 4, 5])
def test_a_pyramid_of_ours_is_theirs(count):
    names = [str(level) for level in range(count)]
    pyramid = {str(level): torch.randn(2, 4, 64 >> level, 96 >> level, requires_grad=True) for level in range(count)}
    boxes = [torch.cat([4 * one, one])[:, 1:].clamp(min=0) for one in (regions(1, 10, seed) for seed in range(2))]
    found = []
    for module in both("MultiScaleRoIAlign"):
        pooler = module(names, 3, 2)
        pooled = pooler(pyramid, boxes, [(256, 384), (250, 300)])
        found.append((pooled, *torch.autograd.grad(pooled.pow(2).sum(), list(pyramid.values()))))
        assert pooler.scales == [2.0 ** -(level + 2) for level in range(count)]
    for ours, torchvisions in zip(*found, strict=True):
        torch.testing.assert_close(ours, torchvisions)
    assert repr(OURS["MultiScaleRoIAlign"](names, 3, 2)) == repr(theirs.MultiScaleRoIAlign(names, 3, 2))


def test_where_they_part():
    """docs/operators/nms.md: theirs compares the overlap in float32 with a double; ours rounds the threshold."""
    ours, torchvisions = [], []
    for percent in range(1, 100):
        boxes = torch.tensor([[0.0, 0, 100, 1], [0, 0, percent, 1]])  # whose overlap is the threshold
        for function, suppressed in zip(both("nms"), (ours, torchvisions), strict=True):
            if len(function(boxes, torch.tensor([0.9, 0.8]), percent / 100)) == 1:
                suppressed.append(percent)
    assert ours == [53, 59]  # 0.53 is 0.52999997 in float32, and a hundred of it are less than 53
    assert torchvisions == [percent for percent in range(1, 100) if float(torch.tensor(percent / 100)) > percent / 100]
    assert len(torchvisions) == 46


def test_scripts():
    boxes, scores = detections(100, 2)
    features, rois = torch.randn(2, 3, 16, 24), regions(2, 6)
    for name, arguments in itertools.chain(
        [("nms", (boxes, scores, 0.5)), ("batched_nms", (boxes, scores, torch.arange(100) % 3, 0.5))],
        [("roi_align", (features, rois, 3)), ("roi_pool", (features, rois, (2, 3)))],
        [("roi_align", (features, [rois[:2, 1:], rois[2:, 1:]], (3, 2), 0.5, 2, True))],
        [("sigmoid_focal_loss", (boxes, (boxes > 100).float(), 0.25, 2.0, "mean"))],
    ):
        ours, torchvisions = both(name)
        scripted = torch.jit.script(ours)(*arguments)
        assert torch.equal(scripted, ours(*arguments))
        torch.testing.assert_close(scripted, torch.jit.script(torchvisions)(*arguments))


def test_a_nan_among_the_scores_comes_first():
    ours, torchvisions = both("nms")
    boxes, scores = detections(30, 7)
    scores[11] = math.nan
    assert ours(boxes, scores, 0.5)[0] == torchvisions(boxes, scores, 0.5)[0] == 11
