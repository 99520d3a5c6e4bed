"""Operators made with opsmith, through its public API alone: each folder holds a definition, its kernels and a module.

All of their public names can be imported from here, as in `from opsmith.ops import nms, roi_align`; a folder is imported
when the first of its names is used. Where a function has its folder's name, as `nms` does, that name means the function
here, as in torchvision.ops. `from opsmith.ops.nms import nms_padded` still imports from the folder.

What kernels share lies in `_gpu` (PTX instructions), `_cpu`, `_boxes` (RoIs) and `_filters` (StyleGAN's filters).
`stylegan`, `mmcv` and `detectron2` are these operators under other libraries' names.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from opsmith._lazy import lazy_names

if TYPE_CHECKING:
    from opsmith.ops.add2 import *
    from opsmith.ops.bias_act import *
    from opsmith.ops.boxes import *
    from opsmith.ops.deform_conv2d import *
    from opsmith.ops.filtered_lrelu import *
    from opsmith.ops.linear_assignment import *
    from opsmith.ops.lltm import *
    from opsmith.ops.mlp import *
    from opsmith.ops.ms_deform_attn import *
    from opsmith.ops.nms import *
    from opsmith.ops.paste_masks import *
    from opsmith.ops.roi_align import *
    from opsmith.ops.roi_pool import *
    from opsmith.ops.sigmoid import *
    from opsmith.ops.sigmoid_focal_loss import *
    from opsmith.ops.upfirdn2d import *
# ruff: noqa: F403 -- the folders' `__all__` say which names these are

# What each folder exports.
_NAMES: dict[str, tuple[str, ...]] = {
    "add2": ("add2",),
    "bias_act": (
        "FusedBiasLeakyReLU",
        "activation_funcs",
        "bias_act",
        "bias_activation",
        "bias_activation_backward",
        "fused_bias_leakyrelu",
    ),
    "boxes": (
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
    ),
    "deform_conv2d": ("DeformConv2d", "deform_conv2d", "deform_conv2d_sized", "deform_conv2d_sized_backward"),
    "filtered_lrelu": (
        "FilteredLReLU",
        "filtered_lrelu",
        "filtered_lrelu_backward",
        "filtered_lrelu_signed",
        "filtered_lrelu_signed_backward",
        "filtered_lrelu_sized",
    ),
    "linear_assignment": ("linear_assignment", "linear_assignment_ragged", "linear_sum_assignment"),
    "lltm": (
        "LLTM",
        "LLTMCell",
        "lltm",
        "lltm_cell",
        "lltm_cell_backward",
        "lltm_gates",
        "lltm_gates_backward",
        "lltm_sequence",
        "lltm_sequence_backward",
    ),
    "mlp": ("MLP", "mlp", "mlp_backward"),
    "ms_deform_attn": (
        "MSDeformAttn",
        "MSDeformAttnFunction",
        "ms_deform_attn",
        "ms_deform_attn_sampled",
        "ms_deform_attn_sampled_backward",
    ),
    "nms": ("batched_nms", "hard_nms", "hard_nms_padded", "nms", "nms_padded", "soft_nms", "soft_nms_padded"),
    "paste_masks": (
        "paste_binary_masks_in_image",
        "paste_masks_in_image",
        "pasted_binary_masks",
        "pasted_masks",
        "pasted_masks_backward",
    ),
    "roi_align": (
        "MultiScaleRoIAlign",
        "RoIAlign",
        "roi_align",
        "roi_align_pyramid",
        "roi_align_pyramid_sized",
        "roi_align_pyramid_transposed",
        "roi_align_sized",
        "roi_align_transposed",
    ),
    "roi_pool": ("RoIPool", "roi_pool", "roi_pool_backward", "roi_pool_sized"),
    "sigmoid": ("Sigmoid", "sigmoid", "sigmoid_backward"),
    "sigmoid_focal_loss": (
        "SigmoidFocalLoss",
        "focal_loss",
        "focal_loss_classes",
        "focal_loss_classes_sum",
        "focal_loss_sum",
        "sigmoid_focal_loss",
    ),
    "upfirdn2d": (
        "Downsample2d",
        "Filter2d",
        "Upsample2d",
        "downsample2d",
        "filter2d",
        "setup_filter",
        "upfirdn2d",
        "upfirdn2d_sized",
        "upfirdn2d_transposed",
        "upsample2d",
    ),
}
_FOLDERS = {name: folder for folder, names in _NAMES.items() for name in names}

__all__ = list(_FOLDERS)

if not TYPE_CHECKING:  # a type checker would take any name for one of the package's
    __getattr__ = lazy_names(__name__, _FOLDERS)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Operators(ModuleType):
    """This package, which takes over the names of a folder that is imported.

    Python makes such a folder an attribute of its package, whoever imports it. If that were all, what `opsmith.ops.nms` is
    would depend on the order of imports.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, ModuleType):
            vars(self).update({each: getattr(value, each) for each in _NAMES.get(name, ())})


sys.modules[__name__].__class__ = _Operators
