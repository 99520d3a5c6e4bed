"""The operators of opsmith.ops, each with the inputs that the tests of all of them give it. Another operator is one entry.

What is particular to an operator is tested in a file of its own.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import opsmith.ops
from opsmith.ops.add2 import add2
from opsmith.ops.bias_act import bias_activation
from opsmith.ops.lltm import lltm_cell, lltm_gates
from opsmith.ops.mlp import mlp
from opsmith.ops.sigmoid import sigmoid
from opsmith.ops.sigmoid_focal_loss import focal_loss, focal_loss_classes, focal_loss_classes_sum, focal_loss_sum

__all__ = ["CASES", "MODULES", "OWN_TESTS", "Case", "Shapes", "as_tuple", "in_float64", "is_floating", "with_gradients"]

Shapes = tuple[tuple[int, ...], ...]

# Names that others gave to these operators; they declare none.
_NAMES_OF_OTHERS = {"detectron2", "mmcv", "stylegan"}

MODULES = [
    f"opsmith.ops.{module.name}"
    for module in pkgutil.iter_modules(opsmith.ops.__path__)
    if module.name not in _NAMES_OF_OTHERS and not module.name.startswith("_")
]


def normal(shapes: Shapes, device: str, dtype: torch.dtype, seed: int) -> list[Any]:
    """Tensors of these shapes with normally distributed values, which are the same in every type and on every device."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype) for shape in shapes]


def logits_and_classes(shapes: Shapes, device: str, dtype: torch.dtype, seed: int) -> list[Any]:
    """A matrix and an index into each of its rows."""
    (shape,) = shapes
    classes = torch.randint(0, shape[1] + 1, shape[:1], generator=torch.Generator().manual_seed(seed))
    return [*normal(shapes, device, dtype, seed), classes.to(device)]


def swished(shapes: Shapes, device: str, dtype: torch.dtype, seed: int) -> list[Any]:
    """A tensor and a bias, the name of an activation without a kink, alpha, gain and a limit that nothing reaches."""
    return [*normal(shapes, device, dtype, seed), "swish", 0.0, 1.5, 100.0]


@dataclass(frozen=True)
class Case:
    """One operator and how it is called.

    `shapes` are those of its arguments, odd, so that vectors and tiles have remainders; `tiny` those for gradcheck, `large`
    those on a GPU. The first dimension of the first is the batch's. `make` makes the arguments of some shapes, from a seed;
    they may be numbers and tensors of integers, too.

    `rounding` and `gradient_rounding` say how many times the type's rounding a result may be off. `is_exact`: how the inputs
    lie in memory does not change a bit of the result.
    """

    operator: Any
    shapes: Shapes
    tiny: Shapes
    large: Shapes
    make: Callable[[Shapes, str, torch.dtype, int], list[Any]] = normal
    rounding: float = 1
    gradient_rounding: float = 8  # a backward reads results of the forward that were rounded to the type
    is_exact: bool = True

    @property
    def name(self) -> str:
        """The operator's name, which is the test's id."""
        name: str = self.operator.definition.name
        return name

    def inputs(self, device: str, dtype: torch.dtype) -> list[Any]:
        """Arguments of the odd shapes."""
        return self.make(self.shapes, device, dtype, 7)


CASES = (
    Case(add2, ((5, 7, 3), (5, 7, 3)), ((2, 3), (2, 3)), ((1 << 20,), (1 << 20,))),
    Case(sigmoid, ((33, 65),), ((7,),), ((1 << 20,),)),
    Case(
        mlp,
        ((9, 12), (20, 12), (20,), (7, 20), (7,)),
        ((3, 2), (4, 2), (4,), (2, 4), (2,)),
        ((64, 32), (128, 32), (128,), (10, 128), (10,)),
        # Sums of 20 products, of hidden units that are rounded; none of these is so near 0 that rounding shuts it.
        rounding=30,
        gradient_rounding=100,
        is_exact=False,  # vectors and single elements are added up in another order
    ),
    Case(lltm_gates, ((17, 3 * 37), (17, 37)), ((2, 9), (2, 3)), ((512, 3 * 256), (512, 256))),
    Case(
        lltm_cell,
        ((9, 12), (9, 20), (9, 20), (60, 32), (60,)),
        ((2, 3), (2, 2), (2, 2), (6, 5), (6,)),
        ((64, 32), (64, 64), (64, 64), (192, 96), (192,)),
        # A matrix product sums 32 rounded products, and its result is rounded before the gates.
        rounding=8,
        gradient_rounding=40,
        is_exact=False,  # PyTorch's matrix product may choose another order of summation
    ),
    Case(
        bias_activation,
        ((5, 7, 33), (7,)),
        ((2, 3, 2), (3,)),
        ((16, 24, 64, 64), (24,)),
        swished,
        rounding=2,
        gradient_rounding=20,  # the bias' is a sum of 165
    ),
    Case(focal_loss, ((33, 65), (33, 65)), ((2, 3), (2, 3)), ((1 << 20,), (1 << 20,)), rounding=2),
    Case(focal_loss_sum, ((33, 65), (33, 65)), ((2, 3), (2, 3)), ((1 << 20,), (1 << 20,)), rounding=2),
    Case(focal_loss_classes, ((33, 65),), ((2, 3),), ((4096, 91),), logits_and_classes, rounding=2),
    Case(focal_loss_classes_sum, ((33, 65),), ((2, 3),), ((4096, 91),), logits_and_classes, rounding=2),
)

# What the tests of all operators are not for, and the file that has tests of its own.
OWN_TESTS = {
    "upfirdn2d_sized": "test_upfirdn2d.py",  # its filter is float32 whatever the images are
    "filtered_lrelu_sized": "test_filtered_lrelu.py",  # likewise
    "filtered_lrelu_signed": "test_filtered_lrelu_signed.py",
    "roi_align_sized": "test_roi_align.py",  # its boxes are float32 whatever the features are
    "roi_align_pyramid_sized": "test_roi_align_pyramid.py",
    "roi_pool_sized": "test_roi_pool.py",
    "deform_conv2d_sized": "test_deform_conv2d.py",  # groups, and sums too long for one tolerance
    "ms_deform_attn_sampled": "test_ms_deform_attn.py",  # its shapes are data
    "box_overlaps": "test_boxes.py",  # float32 and float64 alone, and formats beside the tensors
    "giou_losses": "test_boxes.py",
    "giou_loss_sum": "test_boxes.py",
    "converted_boxes": "test_boxes.py",
    "clipped_boxes": "test_boxes.py",
    "pasted_masks": "test_paste_masks.py",  # its boxes are float32 whatever the masks are
    "pasted_binary_masks": "test_paste_masks.py",
    "lltm_sequence": "test_lltm_sequence.py",  # its batch is the second dimension
    "linear_assignment_ragged": "test_linear_assignment.py",  # indices, compared bit for bit; no gradient
    "hard_nms": "test_nms.py",  # indices, compared bit for bit; no gradient
    "hard_nms_padded": "test_nms.py",
    "soft_nms": "test_soft_nms.py",
    "soft_nms_padded": "test_soft_nms.py",
}


def as_tuple(results: Any) -> tuple[Any, ...]:
    """The results of an operator, be they one or several."""
    return results if isinstance(results, tuple) else (results,)


def is_floating(argument: Any) -> bool:
    """Whether an argument is a tensor that has a gradient."""
    return isinstance(argument, Tensor) and argument.is_floating_point()


def in_float64(arguments: list[Any]) -> list[Any]:
    """The same arguments, exactly, in the type that the reference computes in."""
    return [one.double() if is_floating(one) else one for one in arguments]


def with_gradients(arguments: list[Any]) -> list[Any]:
    """Copies of the arguments, of which those that have a gradient require one."""
    return [one.detach().clone().requires_grad_() if is_floating(one) else one for one in arguments]
