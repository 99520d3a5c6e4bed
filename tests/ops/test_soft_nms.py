"""soft_nms lowers scores as its definition does, for all methods, and takes what mmcv's takes."""

from __future__ import annotations

import math

import pytest
import torch
from graphs import capture

from opsmith.ops.nms import nms, soft_nms, soft_nms_padded

pytestmark = pytest.mark.compile

METHODS = ["naive", "linear", "gaussian"]


def detections(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    corner = 60 * torch.rand(n, 2, generator=generator)
    return torch.cat([corner, corner + 30 * torch.rand(n, 2, generator=generator)], 1), torch.rand(
        n, generator=generator
    )


def assert_is_the_references(boxes, scores, *arguments):
    found, expected = soft_nms(boxes, scores, *arguments), soft_nms.reference(boxes, scores, *arguments)
    assert torch.equal(found[1], expected[1])
    torch.testing.assert_close(found[0], expected[0], rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("offset", [0, 1])
def test_values(method, dtype, offset):
    boxes, scores = (tensor.to(dtype) for tensor in detections(150))
    assert_is_the_references(boxes, scores, 0.3, 0.5, 0.05, method, offset)


@pytest.mark.parametrize("method", METHODS)
def test_every_kind_of_box_and_score(method):
    boxes, scores = detections(80)
    boxes[0::8] = boxes[0::8].roll(2, 1)
    boxes[1::8, 2:] = boxes[1::8, :2]
    boxes[2::8, 1] = math.nan
    boxes[3::8, 2] = math.inf
    scores[::5], scores[1::7], scores[2::11] = math.nan, math.inf, -0.5
    scores[3::10] = scores[3]
    for min_score in (-1.0, 0.0, 0.01):
        assert_is_the_references(boxes, scores, 0.3, 0.5, min_score, method)


def test_naive_is_nms():
    boxes, scores = detections(400)
    assert torch.equal(soft_nms(boxes, scores, 0.4, method="naive")[1], nms(boxes, scores, 0.4))


@pytest.mark.parametrize("method", METHODS)
def test_one_example_by_hand(method):
    """Two boxes that share half of their union: the second is lowered, and the third, far away, is not."""
    boxes = torch.tensor([[0.0, 0, 2, 1], [0, 0, 1, 1], [9, 9, 10, 10]])
    dets, inds = soft_nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.3, 0.5, 1e-3, method)
    weight = {"naive": 0.0, "linear": 0.5, "gaussian": math.exp(-0.5)}[method]
    assert inds.tolist() == ([0, 2] if method == "naive" else [0, 2, 1])
    expected = [0.9, 0.7, 0.8 * weight][: len(inds)]
    torch.testing.assert_close(dets[:, 4], torch.tensor(expected))
    assert torch.equal(dets[:, :4], boxes[inds])


def assert_equal(found, expected, method):
    """Bit for bit, but for exponentials."""
    assert torch.equal(found[1].cpu(), expected[1])
    if method == "gaussian":
        torch.testing.assert_close(found[0].cpu(), expected[0], rtol=1e-5, atol=1e-7, equal_nan=True)
    else:
        torch.testing.assert_close(found[0].cpu(), expected[0], rtol=0, atol=0, equal_nan=True)


@pytest.mark.gpu
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [0, 1, 31, 200, 1024, 1025, 3000])
def test_a_gpu_gives_what_the_cpu_gives(method, count):
    boxes, scores = detections(count)
    found = soft_nms(boxes.cuda(), scores.cuda(), 0.3, 0.5, 0.2, method)
    assert found[0].is_cuda and found[1].is_cuda
    assert_equal(found, soft_nms(boxes, scores, 0.3, 0.5, 0.2, method), method)


@pytest.mark.gpu
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_a_gpu_with_every_type_and_awkward_boxes(method, dtype):
    boxes, scores = (tensor.to(dtype) for tensor in detections(1500))
    boxes[0::8] = boxes[0::8].roll(2, 1)
    boxes[2::8, 1], boxes[3::8, 2] = math.nan, math.inf
    scores[::5], scores[1::70] = scores[0], math.nan
    for offset, min_score in ((0, 0.3), (1, 0.3)):
        found = soft_nms(boxes.cuda(), scores.cuda(), 0.3, 0.5, min_score, method, offset)
        expected = soft_nms(boxes, scores, 0.3, 0.5, min_score, method, offset)
        if dtype == torch.float64:
            assert_equal(found, expected, method)
        else:  # a score that is rounded to 16 bits may be rounded the other way after another exponential
            assert torch.equal(found[1].cpu(), expected[1])
            torch.testing.assert_close(found[0].cpu(), expected[0], rtol=1e-2, atol=1e-3, equal_nan=True)


@pytest.mark.gpu
def test_a_cuda_graph_holds_the_padded_form():
    boxes, scores = (tensor.cuda() for tensor in detections(700))
    graph, results = capture(lambda: soft_nms_padded(boxes, scores, 50))
    for seed in (1, 2):
        other = detections(700, seed)
        boxes.copy_(other[0])
        scores.copy_(other[1])
        graph.replay()
        for found, expected in zip(results, soft_nms_padded(*other, 50), strict=True):
            assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("max_output", [0, 1, 20, 500])
@pytest.mark.parametrize("count", [0, 150])
def test_padded(count, max_output, device):
    boxes, scores = (tensor.to(device) for tensor in detections(count))
    dets, inds = soft_nms(boxes, scores, min_score=0.2)
    padded_dets, padded_inds, found = soft_nms_padded(boxes, scores, max_output, min_score=0.2)
    assert padded_dets.shape == (max_output, 5) and padded_inds.shape == (max_output,)
    taken = min(max_output, len(inds))
    assert found.item() == taken
    assert torch.equal(padded_dets[:taken], dets[:taken]) and (padded_dets[taken:] == 0).all()
    assert torch.equal(padded_inds[:taken], inds[:taken]) and (padded_inds[taken:] == -1).all()


def test_padded_refuses_a_negative_size():
    with pytest.raises((RuntimeError, ValueError), match="max_output"):
        soft_nms_padded(*detections(3), -1)


def test_no_boxes():
    dets, inds = soft_nms(torch.empty(0, 4), torch.empty(0))
    assert dets.shape == (0, 5) and inds.shape == (0,) and inds.dtype == torch.int64


def test_unknown_method():
    with pytest.raises((RuntimeError, ValueError), match="method is 'cubic'"):
        soft_nms(*detections(3), method="cubic")
