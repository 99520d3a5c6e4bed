"""Calls that a fuzzer found: what they say names the function and what it found, or they give a result."""

from __future__ import annotations

import math

import numpy
import pytest
import torch

from opsmith.errors import ArgumentTypeError, DtypeError, OpsmithError, ShapeError
from opsmith.ops.boxes import generalized_box_iou_loss
from opsmith.ops.lltm import lltm
from opsmith.ops.ms_deform_attn import ms_deform_attn
from opsmith.ops.nms import mmcv
from opsmith.ops.sigmoid_focal_loss import focal_loss, focal_loss_classes
from opsmith.ops.upfirdn2d import upsample2d

pytestmark = pytest.mark.compile


def test_boxes_in_an_array_and_scores_that_need_a_gradient() -> None:
    boxes = numpy.array([[0, 0, 2, 2], [0, 0, 2, 2.1], [5, 5, 6, 6]], dtype=numpy.float32)
    dets, kept = mmcv.nms(boxes, torch.tensor([0.5, 0.9, 0.7], requires_grad=True) * 1, 0.5)
    assert isinstance(dets, numpy.ndarray)
    assert kept.tolist() == [1, 2]


def test_boxes_that_no_score_can_stand_beside() -> None:
    boxes = torch.zeros(2, 4).to(torch.float8_e4m3fn)
    with pytest.raises((DtypeError, ArgumentTypeError), match=r"batched_nms\(\): .*boxes"):
        mmcv.batched_nms(boxes, torch.zeros(2), torch.zeros(2, dtype=torch.int64), None)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_a_sparse_sequence_that_is_run_backwards() -> None:
    state = (torch.zeros(3, 4), torch.zeros(3, 4))
    sequence = torch.ones(2, 3).to_sparse_csr()
    with pytest.raises(ArgumentTypeError, match=r"lltm\(\): input is torch.sparse_csr; `.to_dense\(\)`"):
        lltm(sequence, state, torch.zeros(12, 9), torch.zeros(12), reverse=True)


@pytest.mark.parametrize("rank", [0, 2, 70])
def test_a_sequence_of_another_rank_that_is_run_backwards(rank: int) -> None:
    state = (torch.zeros(3, 4), torch.zeros(3, 4))
    with pytest.raises(ShapeError, match=r"lltm_sequence\(\): input"):
        lltm(torch.ones([1] * rank), state, torch.zeros(12, 9), torch.zeros(12), reverse=True)


def test_a_gain_of_more_than_an_integer_of_the_machine() -> None:
    found = upsample2d(torch.ones(1, 1, 2, 2), None, up=numpy.int64(3), gain=1 << 63)
    torch.testing.assert_close(found.max().item(), 9.0 * 2**63)


def test_an_array_beside_a_padding_of_more_than_64_bits() -> None:
    with pytest.raises(OpsmithError, match="upfirdn2d"):
        upsample2d(torch.ones(1, 1, 4, 4), None, up=numpy.int64(3), padding=1 << 63)


@pytest.mark.parametrize("gamma", [math.nan, math.inf])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_an_error_of_one_to_any_power_is_one(gamma: float, device: str) -> None:
    logits = torch.tensor([1000.0, -1000.0, 1000.0], device=device)
    targets = torch.tensor([0.0, 1.0, 1.0], device=device)
    loss = focal_loss(logits, targets, alpha=-1.0, gamma=gamma)
    assert loss[:2].tolist() == [1000.0, 1000.0]
    classes = focal_loss_classes(logits[:2, None], torch.tensor([1, 0], device=device), alpha=-1.0, gamma=gamma)
    assert classes.flatten().tolist() == [1000.0, 1000.0]


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_sparse_boxes_beside_one() -> None:
    with pytest.raises(
        ArgumentTypeError, match=r"generalized_box_iou_loss\(\): boxes1 is torch.sparse_csr; `.to_dense"
    ):
        generalized_box_iou_loss(torch.rand(3, 4).to_sparse_csr(), torch.rand(4))


def test_levels_without_sizes_and_starts() -> None:
    value, points = torch.rand(1, 4, 2, 8), torch.rand(1, 2, 2, 1, 1, 2)
    with pytest.raises(ShapeError, match=r"ms_deform_attn\(\): spatial_shapes is \[\], expected \[L, 2\]"):
        ms_deform_attn(value, torch.tensor(3), None, points, points[..., 0])
