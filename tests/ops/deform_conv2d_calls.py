"""Calls of deform_conv2d, for its tests on the CPU and on a GPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from opsmith.ops.deform_conv2d import deform_conv2d_sized

__all__ = ["FORMS", "TYPES", "near", "numbers", "reference", "tensors"]

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


def near(found: Tensor, expected: Tensor) -> None:
    assert found.shape == expected.shape
    allowed = 8 * torch.finfo(found.dtype).eps * max(float(expected.abs().max()), 1)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=allowed)


def reference(made: dict[str, Tensor], form: Any) -> Tensor:
    arguments = [made["input"], made["offset"], made["weight"], made["bias"], made.get("mask")]
    result: Tensor = deform_conv2d_sized.reference(*arguments, *form[5], *form[6], *form[7], *form[2:4])
    return result
