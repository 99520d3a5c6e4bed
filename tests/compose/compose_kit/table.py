"""Every operator of opsmith.ops with arguments for it: what the tests of this folder run over."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from opsmith import Operator
from opsmith.ops.add2 import add2
from opsmith.ops.lltm import lltm_cell, lltm_cell_backward, lltm_gates, lltm_gates_backward
from opsmith.ops.mlp import mlp, mlp_backward
from opsmith.ops.sigmoid import sigmoid, sigmoid_backward
from some import some

__all__ = [
    "ALL",
    "BACKWARD",
    "CHECKED_ELSEWHERE",
    "FORWARD",
    "Case",
    "as_tuple",
    "each_case",
    "each_operator",
    "each_traced",
    "needs_bridge",
    "weighted_sum",
]


@dataclass(frozen=True)
class Case:
    """An operator and the shapes of its tensors; "B" stands for the size that may vary from call to call."""

    operator: Operator
    shapes: tuple[tuple[Any, ...], ...]
    is_backward: bool = False
    # Arguments that the operator takes and does not read, so that no gradient comes back for them.
    unread: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return self.operator.definition.name

    @property
    def batched(self) -> tuple[int, ...]:
        """The arguments that have the size B."""
        return tuple(index for index, shape in enumerate(self.shapes) if "B" in shape)

    def make(
        self,
        batch: int = 3,
        *,
        dtype: torch.dtype = torch.float64,
        device: str = "cpu",
        requires_grad: bool = True,
        seed: int = 0,
    ) -> tuple[Tensor, ...]:
        """Return arguments, the same for the same numbers."""
        generator = torch.Generator().manual_seed(seed)
        made = []
        for shape in self.shapes:
            sizes = [batch if size == "B" else size for size in shape]
            tensor = torch.randn(sizes, generator=generator, dtype=torch.float64).to(device, dtype)
            made.append(tensor.requires_grad_(requires_grad))
        return tuple(made)

    def expected(self, *arguments: Any) -> tuple[Tensor, ...]:
        """Return what the body gives for the outputs that callers see."""
        results = as_tuple(self.operator.reference(*arguments))
        outputs = self.operator.definition.signature.outputs
        return tuple(result for output, result in zip(outputs, results, strict=True) if not output.saved)

    def found(self, *arguments: Any) -> tuple[Tensor, ...]:
        """Return the operator's outputs as a tuple, be it one or several."""
        return as_tuple(self.operator(*arguments))

    def total(self, *arguments: Any) -> Tensor:
        """Return one number that depends on every output, and on each in its own way."""
        return weighted_sum(self.found(*arguments))

    def expected_total(self, *arguments: Any) -> Tensor:
        """Return the same of the body."""
        return weighted_sum(self.expected(*arguments))


def as_tuple(results: Any) -> tuple[Tensor, ...]:
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def weighted_sum(tensors: tuple[Tensor, ...]) -> Tensor:
    """Sum sin(k * x) over the k-th output: its gradients differ from element to element, and so do the second ones."""
    return torch.stack([torch.sin(k * tensor).sum() for k, tensor in enumerate(tensors, start=1)]).sum()


# B is the batch, 4 the state, 2 the input of a cell.
_CELL = (("B", 2), ("B", 4), ("B", 4), (12, 6), (12,))
# 4 hidden units; 2 features and outputs, so that an output may be the next input.
_MLP = (("B", 2), (4, 2), (4,), (2, 4), (2,))
FORWARD = [
    Case(add2, (("B", 4), ("B", 4))),
    Case(sigmoid, (("B", 4),)),
    Case(lltm_gates, (("B", 12), ("B", 4))),
    Case(lltm_cell, _CELL),
    Case(mlp, _MLP),
]
BACKWARD = [
    Case(sigmoid_backward, (("B", 4), ("B", 4)), is_backward=True),
    Case(lltm_gates_backward, (("B", 4), ("B", 4), ("B", 12), ("B", 4)), is_backward=True),
    Case(
        lltm_cell_backward,
        (("B", 4), ("B", 4), *_CELL, ("B", 12), ("B", 4)),
        is_backward=True,
        unread=(4, 6),  # cell and bias
    ),
    Case(mlp_backward, (("B", 2), *_MLP, ("B", 4)), is_backward=True, unread=(3, 5)),  # the biases
]
ALL = FORWARD + BACKWARD

# What takes classes, sizes or options beside its tensors, or has a loop for a body, which the compiler would take long
# for in each of these tests. `opsmith check` makes inputs for it by its definition and tries the same compositions
# (tests/ops/test_check.py, which forgets no operator), and its own tests say the rest.
CHECKED_ELSEWHERE = frozenset(
    {
        *("bias_activation", "bias_activation_backward"),
        *("box_overlaps", "box_overlaps_backward", "giou_losses", "giou_losses_backward"),
        *("giou_loss_sum", "giou_loss_sum_backward"),
        *("clipped_boxes", "clipped_boxes_backward", "converted_boxes", "converted_boxes_backward"),
        *("deform_conv2d_sized", "deform_conv2d_sized_backward"),
        *("filtered_lrelu_sized", "filtered_lrelu_backward", "filtered_lrelu_signed", "filtered_lrelu_signed_backward"),
        *("focal_loss", "focal_loss_sum", "focal_loss_classes", "focal_loss_classes_sum"),
        *("focal_loss_backward", "focal_loss_sum_backward"),
        *("focal_loss_classes_backward", "focal_loss_classes_sum_backward"),
        *("hard_nms", "hard_nms_padded", "soft_nms", "soft_nms_padded"),
        "linear_assignment_ragged",
        *("lltm_sequence", "lltm_sequence_backward"),
        *("ms_deform_attn_sampled", "ms_deform_attn_sampled_backward"),
        *("pasted_masks", "pasted_masks_backward", "pasted_binary_masks"),
        *("roi_align_sized", "roi_align_transposed", "roi_pool_sized", "roi_pool_backward"),
        *("roi_align_pyramid_sized", "roi_align_pyramid_transposed"),
        *("upfirdn2d_sized", "upfirdn2d_transposed"),
    }
)

# What the gradient path in Python does in another way; docs/guides/what-you-get.md says so.
needs_bridge = pytest.mark.skipif(os.environ.get("OPSMITH_BRIDGE") == "off", reason="the path in Python differs here")

each_operator: Callable[[Any], Any] = pytest.mark.parametrize("case", FORWARD, ids=lambda case: case.name)
each_case: Callable[[Any], Any] = pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
# What is traced, for seconds: the operators, and of their backwards one.
each_traced: Callable[[Any], Any] = pytest.mark.parametrize(
    "case",
    some([*FORWARD, *BACKWARD], len(FORWARD) + 1, "traces of a backward that torch.compile seldom meets alone"),
    ids=lambda case: case.name,
)
