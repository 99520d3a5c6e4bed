"""Boxes of detectors: their overlaps and the loss of these, formats, and clipping, as torchvision has them."""

from opsmith.ops.boxes.coordinates import (
    clipped_boxes,
    clipped_boxes_backward,
    converted_boxes,
    converted_boxes_backward,
)
from opsmith.ops.boxes.functions import (
    box_convert,
    box_iou,
    clip_boxes,
    clip_boxes_to_image,
    generalized_box_iou,
    generalized_box_iou_loss,
)
from opsmith.ops.boxes.paired import giou_loss_sum, giou_loss_sum_backward, giou_losses, giou_losses_backward
from opsmith.ops.boxes.pairwise import box_overlaps, box_overlaps_backward

__all__ = [
    "box_convert",
    "box_iou",
    "box_overlaps",
    "box_overlaps_backward",
    "clip_boxes",
    "clip_boxes_to_image",
    "clipped_boxes",
    "clipped_boxes_backward",
    "converted_boxes",
    "converted_boxes_backward",
    "generalized_box_iou",
    "generalized_box_iou_loss",
    "giou_loss_sum",
    "giou_loss_sum_backward",
    "giou_losses",
    "giou_losses_backward",
]
