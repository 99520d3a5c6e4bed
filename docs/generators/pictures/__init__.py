"""A picture for each operator's page, drawn from what the definitions in PyTorch return for small inputs.

Nothing is built: `Operator.reference` and `impl="ref"` run the bodies.
"""

from __future__ import annotations

from collections.abc import Callable

from generators.pictures.boxes import draw_nms, draw_roi_align
from generators.pictures.drawing import Drawing
from generators.pictures.elementwise import draw_add2, draw_bias_act, draw_focal_loss, draw_sigmoid
from generators.pictures.filters import draw_filtered_lrelu, draw_upfirdn2d
from generators.pictures.masks import draw_boxes, draw_paste_masks
from generators.pictures.matching import draw_linear_assignment
from generators.pictures.networks import draw_lltm, draw_lltm_sequence, draw_mlp
from generators.pictures.sampling import draw_deform_conv2d, draw_ms_deform_attn

__all__ = ["PICTURES"]

# Page of docs/operators/, without its ending -> its picture.
PICTURES: dict[str, Callable[[], Drawing]] = {
    "add2": draw_add2,
    "bias_act": draw_bias_act,
    "boxes": draw_boxes,
    "deform_conv2d": draw_deform_conv2d,
    "filtered_lrelu": draw_filtered_lrelu,
    "linear_assignment": draw_linear_assignment,
    "lltm": draw_lltm,
    "lltm_sequence": draw_lltm_sequence,
    "mlp": draw_mlp,
    "ms_deform_attn": draw_ms_deform_attn,
    "nms": draw_nms,
    "paste_masks": draw_paste_masks,
    "roi_align": draw_roi_align,
    "sigmoid": draw_sigmoid,
    "sigmoid_focal_loss": draw_focal_loss,
    "upfirdn2d": draw_upfirdn2d,
}
