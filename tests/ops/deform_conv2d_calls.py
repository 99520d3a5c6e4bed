"""Calls of deform_conv2d, for its tests on the CPU and on a GPU."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from opsmith.ops.deform_conv2d import deform_conv2d_sized

__all__ = ["FORMS", "TYPES", "most_summands", "near", "numbers", "reference", "tensors"]

TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]

# Channels, outputs, groups, offset groups; taps; stride; padding; dilation.
FORMS: list[Any] = [
    (4, 3, 1, 1, (3, 3), (1, 1), (1, 1), (1, 1)),
    (6, 4, 2, 3, (3, 2), (2, 1), (1, 0), (1, 2)),
    (6, 6, 3, 2, (1, 3), (1, 2), (0, 2), (2, 1)),
    (6, 12, 6, 6, (2, 2), (1, 1), (1, 1), (1, 1)),
    (39, 35, 1, 1, (3, 3), (1, 1), (1, 1), (1, 1)),
    (70, 40, 2, 1, (3, 1), (1, 1), (1, 0), (1, 1)),
    (48, 33, 1, 3, (2, 3), (2, 1), (0, 1), (1, 1)),
    (34, 34, 34, 1, (3, 3), (1, 1), (1, 1), (1, 1)),
]


def tensors(form: Any, images: int, size: tuple[int, int], seed: int, modulated: bool = True) -> dict[str, Tensor]:
    """Arguments in float64, of numbers that float16 has, so that every type can have the same."""
    channels, outputs, groups, offset_groups, taps, stride, pad, step = form
    generator = torch.Generator().manual_seed(seed)
    out = [(size[k] + 2 * pad[k] - step[k] * (taps[k] - 1) - 1) // stride[k] + 1 for k in (0, 1)]
    count = offset_groups * taps[0] * taps[1]

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).mul(64).round().div(64)

    made = {
        "input": normal(images, channels, *size),
        "offset": 2 * normal(images, 2 * count, *out) + 1 / 256,
        "weight": normal(outputs, channels // groups, *taps),
        "bias": normal(outputs),
    }
    made["offset"][:, :, -1, -1] *= 8  # some are outside
    return {**made, "mask": normal(images, count, *out)} if modulated else made


def numbers(form: Any) -> dict[str, Any]:
    return {"stride": form[5], "padding": form[6], "dilation": form[7]}


def near(found: Tensor, expected: Tensor, summands: int) -> None:
    """Hold a result, or a gradient, to the same in float64; `summands` is how many terms its sums have at most.

    Each step of a sum of n random terms rounds by up to eps / 2 of what there is by then, at random: together by
    eps * sqrt(n) / 5 of the result's standard deviation, which is some quarter of its largest element (Higham and Mary, "A
    new approach to probabilistic rounding error analysis", 2019, has it with fewer assumptions). sqrt(n) / 2 times the
    largest is ten of these deviations. Sums are made in float32 or wider; in float64 what is expected errs as much.
    """
    assert found.shape == expected.shape
    eps, wide = (torch.finfo(one).eps for one in (found.dtype, torch.promote_types(found.dtype, torch.float32)))
    sides = 2 if found.dtype == torch.float64 else 1
    allowed = (8 * eps + sides * summands**0.5 / 2 * wide) * max(float(expected.abs().max()), 1)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=allowed)


def most_summands(form: Any, made: dict[str, Tensor], out: Tensor) -> int:
    """Return how many roundings one after the other a sum of the forward or of its gradients has at most.

    An output sums up over taps and channels, the gradient of a weight or of a bias over images and positions, and that of a
    sample over outputs, from where it goes to pixels, offsets and masks by sums of such sums over taps or channels.
    """
    outputs, of_group, *taps = made["weight"].shape
    filters = math.prod(taps)
    return max(
        of_group * filters, out.numel() // outputs, outputs // form[2] + max(4 * filters, made["input"].shape[1])
    )


def reference(made: dict[str, Tensor], form: Any) -> Tensor:
    arguments = [made["input"], made["offset"], made["weight"], made["bias"], made.get("mask")]
    result: Tensor = deform_conv2d_sized.reference(*arguments, *form[5], *form[6], *form[7], *form[2:4])
    return result
