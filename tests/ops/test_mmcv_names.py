"""The functions that have mmcv's arguments: what is mmcv's own about them, against the functions that have torchvision's."""

from __future__ import annotations

import numpy
import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from opsmith.errors import DeviceError
from opsmith.ops import batched_nms, nms, roi_align, sigmoid_focal_loss, soft_nms
from opsmith.ops.nms import mmcv as nms_mmcv
from opsmith.ops.roi_align import mmcv as roi_align_mmcv
from opsmith.ops.sigmoid_focal_loss import mmcv as focal_mmcv

pytestmark = pytest.mark.compile


def detections(count: int = 300) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    corner = 100 * torch.rand(count, 2, generator=random)
    boxes = torch.cat([corner, corner + 60 * torch.rand(count, 2, generator=random)], 1)
    return boxes, torch.rand(count, generator=random), torch.arange(count) % 4


def test_nms_returns_boxes_with_scores_and_arrays_for_arrays():
    boxes, scores, _ = detections()
    dets, inds = nms_mmcv.nms(boxes, scores, 0.4)
    assert torch.equal(inds, nms(boxes, scores, 0.4))
    assert torch.equal(dets, torch.cat([boxes, scores[:, None]], 1)[inds])
    array_dets, array_inds = nms_mmcv.nms(boxes.numpy(), scores.numpy(), 0.4)
    assert isinstance(array_dets, numpy.ndarray) and isinstance(array_inds, numpy.ndarray)
    assert numpy.array_equal(array_dets, dets.numpy()) and numpy.array_equal(array_inds, inds.numpy())


def test_nms_with_an_offset_a_least_score_and_a_largest_number():
    boxes, scores, _ = detections()
    grown = boxes + torch.tensor([0.0, 0, 1, 1])
    expected = nms(grown, scores, 0.4)
    assert torch.equal(nms_mmcv.nms(boxes, scores, 0.4, offset=1)[1], expected)
    expected = expected[scores[expected] > 0.3][:20]
    dets, inds = nms_mmcv.nms(boxes, scores, 0.4, offset=1, score_threshold=0.3, max_num=20)
    assert torch.equal(inds, expected) and torch.equal(dets[:, :4], boxes[expected])


@pytest.mark.parametrize("bad", [(torch.rand(3, 5), torch.rand(3)), (torch.rand(3, 4), torch.rand(2))])
def test_nms_asserts_shapes(bad):
    with pytest.raises(AssertionError):
        nms_mmcv.nms(*bad, 0.5)
    with pytest.raises(AssertionError):
        nms_mmcv.soft_nms(*bad)


def test_batched_nms_as_its_configuration_says():
    boxes, scores, idxs = detections()
    config = {"type": "nms", "iou_threshold": 0.4, "split_thr": 10}
    dets, inds = nms_mmcv.batched_nms(boxes, scores, idxs, config)
    assert torch.equal(inds, batched_nms(boxes, scores, idxs, 0.4))
    assert torch.equal(dets, torch.cat([boxes, scores[:, None]], 1)[inds])
    assert config == {"type": "nms", "iou_threshold": 0.4, "split_thr": 10}
    for agnostic in ({"class_agnostic": True}, {}):
        found = nms_mmcv.batched_nms(boxes, scores, idxs, config | agnostic, class_agnostic=not agnostic)[1]
        assert torch.equal(found, nms(boxes, scores, 0.4))
    few = nms_mmcv.batched_nms(boxes, scores, idxs, config | {"max_num": 7, "score_threshold": 0.5})
    assert torch.equal(few[1], inds[scores[inds] > 0.5][:7]) and few[0].shape == (7, 5)
    ranked, order = nms_mmcv.batched_nms(boxes, scores, idxs, None)
    assert torch.equal(ranked[:, 4], scores.sort(descending=True).values) and torch.equal(boxes[order], ranked[:, :4])
    with pytest.raises(ValueError, match="type 'fast_nms'"):
        nms_mmcv.batched_nms(boxes, scores, idxs, {"type": "fast_nms"})


@pytest.mark.slow("builds for mmcv names")
def test_batched_soft_nms_lowers_within_classes():
    boxes, scores, idxs = detections()
    dets, inds = nms_mmcv.batched_nms(
        boxes, scores, idxs, {"type": "soft_nms", "iou_threshold": 0.3, "min_score": 0.05}
    )
    assert (dets[1:, 4] <= dets[:-1, 4]).all()
    for value in range(4):
        members = (idxs == value).nonzero()[:, 0]
        expected, own = soft_nms(boxes[members], scores[members], 0.3, min_score=0.05)
        mine = idxs[inds] == value
        assert torch.equal(inds[mine], members[own]) and torch.equal(dets[mine], expected)
    none = nms_mmcv.batched_nms(boxes[:0], scores[:0], idxs[:0], {"type": "soft_nms"})
    assert none[0].shape == (0, 5) and none[1].dtype == torch.int64


@pytest.mark.slow("builds for mmcv names")
def test_a_class_whose_best_box_is_below_the_least_score_has_none_unless_it_is_taken_by_itself():
    boxes = torch.tensor([[0.0, 0, 9, 9], [20, 20, 29, 29], [40, 40, 49, 49]])
    scores, idxs = torch.tensor([0.9, 5e-4, 4e-4]), torch.tensor([0, 1, 1])
    config = {"type": "soft_nms", "iou_thr": 0.3}
    assert nms_mmcv.batched_nms(boxes, scores, idxs, config)[1].tolist() == [0]
    assert nms_mmcv.batched_nms(boxes, scores, idxs, config | {"split_thr": 3})[1].tolist() == [0, 1]
    # The best of all is not held against it.
    assert nms_mmcv.batched_nms(boxes[1:], scores[1:], idxs[1:], config)[1].tolist() == [0]


def test_the_threshold_has_an_older_name():
    boxes, scores, idxs = detections()
    expected = nms_mmcv.nms(boxes, scores, 0.4)[1]
    assert torch.equal(nms_mmcv.nms(boxes, scores, iou_thr=0.4)[1], expected)
    assert torch.equal(nms_mmcv.batched_nms(boxes, scores, idxs, {"iou_thr": 0.4}, True)[1], expected)
    for call in (
        lambda: nms_mmcv.nms(boxes, scores, iou_threshold=0.4, iou_thr=0.4),
        lambda: nms_mmcv.batched_nms(boxes, scores, idxs, {"iou_threshold": 0.4, "iou_thr": 0.4}),
    ):
        with pytest.raises(TypeError, match="iou_thr is the older name of iou_threshold; found both"):
            call()


def test_what_numbers_decide_is_refused_where_there_are_none():
    boxes, scores, idxs = (tensor.to("meta") for tensor in detections(6))
    with pytest.raises(DeviceError, match=r"nms\(\): scores is on the meta device .* above score_threshold"):
        nms_mmcv.nms(boxes, scores, 0.4, score_threshold=0.1)
    for config in ({"type": "nms", "iou_threshold": 0.4, "score_threshold": 0.1}, {"type": "soft_nms"}):
        with pytest.raises(DeviceError, match=r"batched_nms\(\): (scores|idxs) is on the meta device"):
            nms_mmcv.batched_nms(boxes, scores, idxs, config)


def test_roi_align_has_mmcvs_order_and_defaults():
    features = torch.randn(2, 3, 16, 20)
    rois = torch.tensor([[0, 1.0, 2, 12, 9], [1, 3, 3, 8, 15]])
    expected = roi_align(features, rois, (3, 4), 0.5, 2, True)
    assert torch.equal(roi_align_mmcv.roi_align(features, rois, (3, 4), 0.5, 2, "avg", True), expected)
    assert torch.equal(roi_align_mmcv.RoIAlign((3, 4), 0.5, 2)(features, rois), expected)
    assert torch.equal(
        roi_align_mmcv.roi_align(features, rois, 5), roi_align(features, rois, 5, sampling_ratio=0, aligned=True)
    )
    with pytest.raises(NotImplementedError, match="'max'"):
        roi_align_mmcv.RoIAlign(5, pool_mode="max")(features, rois)


@pytest.mark.parametrize("weighted", [False, True])
def test_focal_loss_has_mmcvs_order_mean_and_weights(weighted):
    logits, classes = torch.randn(20, 5, dtype=torch.float64), torch.arange(20) % 7 - 1  # -1: ignored, 5: background
    weight = torch.rand(5, dtype=torch.float64) if weighted else None
    targets = one_hot(classes.clamp(min=0), 6)[:, :5].double()
    expected = sigmoid_focal_loss(logits, targets, 0.3, 1.5) * (classes >= 0)[:, None]
    if weight is not None:
        expected *= torch.where((classes >= 0) & (classes < 5), weight[classes.clamp(0, 4)], 1)[:, None]
    for reduction, value in {"none": expected, "sum": expected.sum(), "mean": expected.sum() / 20}.items():
        found = focal_mmcv.sigmoid_focal_loss(logits, classes, 1.5, 0.3, weight, reduction)
        torch.testing.assert_close(found, value)
        torch.testing.assert_close(focal_mmcv.SigmoidFocalLoss(1.5, 0.3, weight, reduction)(logits, classes), value)
    with pytest.raises(AssertionError):
        focal_mmcv.sigmoid_focal_loss(logits, classes.int())
