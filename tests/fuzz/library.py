"""Lists what the library's fuzzer calls, with arguments that are right: all operators, and functions before them."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

import opsmith.ops
from opsmith.ops import (
    batched_nms,
    bias_act,
    box_convert,
    box_iou,
    clip_boxes_to_image,
    deform_conv2d,
    downsample2d,
    filter2d,
    filtered_lrelu,
    fused_bias_leakyrelu,
    generalized_box_iou,
    generalized_box_iou_loss,
    linear_assignment,
    linear_sum_assignment,
    lltm,
    ms_deform_attn,
    nms,
    nms_padded,
    paste_binary_masks_in_image,
    paste_masks_in_image,
    roi_align,
    roi_align_pyramid,
    roi_pool,
    setup_filter,
    sigmoid_focal_loss,
    soft_nms,
    upfirdn2d,
    upsample2d,
)
from opsmith.ops.deform_conv2d import mmcv as deform_mmcv
from opsmith.ops.nms import mmcv as nms_mmcv
from opsmith.ops.roi_align import mmcv as roi_align_mmcv
from opsmith.ops.sigmoid_focal_loss import mmcv as focal_mmcv
from opsmith.ops.stylegan.conv2d_resample import conv2d_resample
from opsmith.runtime.operator import Operator
from opsmith.subject.case import Case
from opsmith.subject.find import find_operators
from opsmith.subject.selection import forward_operators
from opsmith.subject.subject import subject_of

__all__ = ["FUNCTIONS", "Called", "operators"]


@dataclass(frozen=True)
class Called:
    """A function with arguments that it takes. Its errors name it by one of `names`, if they are none of opsmith's."""

    name: str
    function: Callable[..., Any]
    arguments: Callable[[], Mapping[str, Any]]
    names: tuple[str, ...]
    reference: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return self.name


@cache
def operators() -> tuple[Called, ...]:
    """Return the library's operators that are no gradients of others."""
    found = []
    for module in pkgutil.iter_modules(opsmith.ops.__path__):
        if module.name not in {"detectron2", "mmcv", "stylegan"} and not module.name.startswith("_"):
            found += forward_operators(find_operators(f"opsmith.ops.{module.name}"))
    return tuple(_operator(one) for one in found)


def _operator(operator: Operator) -> Called:
    @cache
    def plain() -> Case:
        subject = subject_of(operator, devices=("cpu",))
        dtypes = next(one for one in subject.dtypes if "float32" in one.values())
        return subject.suite.plain(dtypes)

    def arguments() -> Mapping[str, Any]:
        return plain().build()

    def reference(**given: Any) -> tuple[Any, ...]:
        found = operator.reference(**given)
        outputs = operator.definition.signature.outputs
        results = found if isinstance(found, tuple | list) else [found]
        return tuple(result for result, output in zip(results, outputs, strict=True) if not output.saved)

    name = operator.definition.name
    return Called(name, operator, arguments, (name,), reference)


def _function(name: str, function: Callable[..., Any], arguments: Callable[[], Mapping[str, Any]]) -> Called:
    """Return a function whose other arguments have their defaults, which are arguments to be changed too."""

    def whole() -> Mapping[str, Any]:
        parameters = inspect.signature(function).parameters.values()
        defaults = {one.name: one.default for one in parameters if one.default is not inspect.Parameter.empty}
        return {**defaults, **arguments()}

    return Called(name, function, whole, (function.__name__, *_OPERATORS_OF.get(name, ())))


# A function's errors may name the operator behind it.
_OPERATORS_OF = {
    "bias_act": ("bias_activation",),
    "box_convert": ("converted_boxes",),
    "box_iou": ("box_overlaps",),
    "clip_boxes_to_image": ("clipped_boxes",),
    "generalized_box_iou": ("box_overlaps",),
    "generalized_box_iou_loss": ("giou_losses", "giou_loss_sum"),
    "paste_binary_masks_in_image": ("pasted_binary_masks",),
    "paste_masks_in_image": ("pasted_masks",),
    "conv2d_resample": ("upfirdn2d_sized",),
    "linear_assignment": ("linear_assignment_ragged",),
    "linear_sum_assignment": ("linear_assignment_ragged",),
    "lltm": ("lltm_sequence",),
    "mmcv.nms": ("hard_nms",),
    **dict.fromkeys(("filter2d", "upsample2d", "downsample2d"), ("upfirdn2d",)),
}


def _boxes(count: int = 7) -> Tensor:
    corner = torch.arange(2.0 * count).reshape(count, 2) % 5
    return torch.cat([corner, corner + 3], 1)


def _rois() -> Tensor:
    return torch.cat([torch.arange(7.0).reshape(7, 1) % 2, _boxes()], 1)


_IMAGE = torch.linspace(-1, 1, 2 * 4 * 9 * 11).reshape(2, 4, 9, 11)


def _deformed() -> dict[str, Any]:
    return {
        "input": _IMAGE.clone(),
        "offset": torch.full((2, 18, 9, 11), 0.3),
        "weight": torch.linspace(-1, 1, 6 * 4 * 9).reshape(6, 4, 3, 3),
        "bias": torch.zeros(6),
        "stride": (1, 1),
        "padding": (1, 1),
        "dilation": (1, 1),
        "mask": torch.full((2, 9, 9, 11), 0.7),
    }


FUNCTIONS = (
    _function("bias_act", bias_act, lambda: {"x": _IMAGE.clone(), "b": torch.ones(4), "act": "lrelu"}),
    _function(
        "fused_bias_leakyrelu",
        fused_bias_leakyrelu,
        lambda: {"input": _IMAGE.clone(), "bias": torch.ones(4)},
    ),
    _function(
        "filtered_lrelu",
        filtered_lrelu,
        lambda: {"x": _IMAGE.clone(), "fu": torch.ones(4), "fd": torch.ones(4), "b": torch.ones(4), "up": 2, "down": 2},
    ),
    _function("setup_filter", setup_filter, lambda: {"f": [1, 3, 3, 1]}),
    _function("upfirdn2d", upfirdn2d, lambda: {"x": _IMAGE.clone(), "f": torch.ones(3, 3), "up": 2, "padding": 1}),
    _function("filter2d", filter2d, lambda: {"x": _IMAGE.clone(), "f": torch.ones(3, 3)}),
    _function("upsample2d", upsample2d, lambda: {"x": _IMAGE.clone(), "f": torch.ones(4)}),
    _function("downsample2d", downsample2d, lambda: {"x": _IMAGE.clone(), "f": torch.ones(4)}),
    _function("deform_conv2d", deform_conv2d, _deformed),
    _function(
        "modulated_deform_conv2d",
        deform_mmcv.modulated_deform_conv2d,
        lambda: {name: value for name, value in _deformed().items() if name != "dilation"},
    ),
    _function("nms", nms, lambda: {"boxes": _boxes(), "scores": torch.arange(7.0), "iou_threshold": 0.5}),
    _function(
        "batched_nms",
        batched_nms,
        lambda: {
            "boxes": _boxes(),
            "scores": torch.arange(7.0),
            "idxs": torch.arange(7) % 2,
            "iou_threshold": 0.5,
        },
    ),
    _function(
        "nms_padded",
        nms_padded,
        lambda: {"boxes": _boxes(), "scores": torch.arange(7.0), "iou_threshold": 0.5, "max_output": 5},
    ),
    _function("soft_nms", soft_nms, lambda: {"boxes": _boxes(), "scores": torch.arange(7.0) / 7}),
    _function("mmcv.nms", nms_mmcv.nms, lambda: {"boxes": _boxes(), "scores": torch.arange(7.0), "iou_threshold": 0.5}),
    _function("mmcv.soft_nms", nms_mmcv.soft_nms, lambda: {"boxes": _boxes(), "scores": torch.arange(7.0) / 7}),
    _function(
        "mmcv.batched_nms",
        nms_mmcv.batched_nms,
        lambda: {
            "boxes": _boxes(),
            "scores": torch.arange(7.0),
            "idxs": torch.arange(7) % 2,
            "nms_cfg": {"type": "soft_nms", "iou_threshold": 0.5},
        },
    ),
    _function(
        "linear_assignment",
        linear_assignment,
        lambda: {
            "cost": torch.linspace(-1, 1, 2 * 4 * 6).reshape(2, 4, 6) % 0.3,
            "row_lengths": torch.tensor([4, 2]),
            "column_lengths": torch.tensor([3, 6]),
        },
    ),
    _function(
        "linear_sum_assignment",
        linear_sum_assignment,
        lambda: {"cost_matrix": torch.linspace(-1, 1, 24).reshape(4, 6) % 0.3},
    ),
    _function(
        "ms_deform_attn",
        ms_deform_attn,
        lambda: {
            "value": torch.linspace(-1, 1, 2 * 10 * 3 * 4).reshape(2, 10, 3, 4),
            "spatial_shapes": torch.tensor([[2, 3], [2, 2]]),
            "level_start_index": torch.tensor([0, 6]),
            "sampling_locations": torch.linspace(-0.2, 1.2, 2 * 5 * 3 * 2 * 2 * 2).reshape(2, 5, 3, 2, 2, 2),
            "attention_weights": torch.full((2, 5, 3, 2, 2), 0.25),
        },
    ),
    _function("box_iou", box_iou, lambda: {"boxes1": _boxes(), "boxes2": _boxes(5)}),
    _function("generalized_box_iou", generalized_box_iou, lambda: {"boxes1": _boxes(), "boxes2": _boxes(5)}),
    _function(
        "generalized_box_iou_loss",
        generalized_box_iou_loss,
        lambda: {"boxes1": _boxes(), "boxes2": _boxes() + 1, "reduction": "mean"},
    ),
    _function("box_convert", box_convert, lambda: {"boxes": _boxes(), "in_fmt": "xyxy", "out_fmt": "cxcywh"}),
    _function("clip_boxes_to_image", clip_boxes_to_image, lambda: {"boxes": _boxes(), "size": (5, 4)}),
    _function(
        "paste_masks_in_image",
        paste_masks_in_image,
        lambda: {"masks": torch.linspace(0, 1, 7 * 9).reshape(7, 1, 3, 3), "boxes": _boxes(), "img_shape": (8, 9)},
    ),
    _function(
        "paste_binary_masks_in_image",
        paste_binary_masks_in_image,
        lambda: {"masks": torch.linspace(0, 1, 7 * 9).reshape(7, 1, 3, 3), "boxes": _boxes(), "img_shape": (8, 9)},
    ),
    _function("roi_align", roi_align, lambda: {"input": _IMAGE, "boxes": _rois(), "output_size": (3, 3)}),
    _function(
        "mmcv.roi_align", roi_align_mmcv.roi_align, lambda: {"input": _IMAGE, "rois": _rois(), "output_size": (3, 3)}
    ),
    _function(
        "roi_align_pyramid",
        roi_align_pyramid,
        lambda: {
            "features": [_IMAGE, _IMAGE[..., ::2, ::2]],
            "boxes": _rois(),
            "output_size": (3, 3),
            "scales": [0.5, 0.25],
        },
    ),
    _function("roi_pool", roi_pool, lambda: {"input": _IMAGE, "boxes": _rois(), "output_size": (3, 3)}),
    _function(
        "sigmoid_focal_loss",
        sigmoid_focal_loss,
        lambda: {"inputs": torch.linspace(-2, 2, 21).reshape(7, 3), "targets": torch.ones(7, 3)},
    ),
    _function(
        "mmcv.sigmoid_focal_loss",
        focal_mmcv.sigmoid_focal_loss,
        lambda: {
            "input": torch.linspace(-2, 2, 21).reshape(7, 3),
            "target": torch.arange(7) % 4,
            "weight": torch.ones(3),
        },
    ),
    _function(
        "conv2d_resample",
        conv2d_resample,
        lambda: {"x": _IMAGE.clone(), "w": torch.ones(6, 4, 3, 3), "f": torch.ones(4), "up": 2, "padding": 1},
    ),
    _function(
        "lltm",
        lltm,
        lambda: {
            "input": torch.ones(5, 2, 3),
            "state": (torch.zeros(2, 4), torch.zeros(2, 4)),
            "weight": torch.ones(12, 7) / 8,
            "bias": torch.zeros(12),
        },
    ),
)
