"""Operators that take every kind of argument."""

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

import opsmith


@opsmith.op(cpu="arguments.cpp")
def every_scalar(
    x: Float[Tensor, "N"],
    i: int,
    f: float,
    b: bool,
    s: str,
    ints: list[int],
    floats: list[float],
    oi: int | None = None,
    of: float | None = 1,
    ob: bool | None = None,
    *,
    label: str = 'a "quoted"\\\n',
    steps: list[int] = [2, -1],  # noqa: B006 - a definition's default is never changed
    double: float = 0.5,
) -> Float[Tensor, "N"]:
    """Add a number that depends on every argument."""
    total = i + f + (8 if b else 0) + len(s) + sum(ints) + sum(floats)
    total += -100 if oi is None else oi
    total += -200 if of is None else of
    total += -300 if ob is None else (64 if ob else 0)
    return x + (total + len(label) + sum(steps) + double)


@opsmith.op(cpu="arguments.cpp")
def shift(
    x: Float[Tensor, "B C"], bias: Float[Tensor, "C"] | None = None, rows: Float[Tensor, "B"] | None = None
) -> Float[Tensor, "B C"]:
    """Add a row, a column, both or nothing."""
    x = x if bias is None else x + bias
    return x if rows is None else x + rows[:, None]


@opsmith.op(cpu="arguments.cpp", outputs="total")
def pyramid(levels: list[Float[Tensor, "B C _ _"]], weight: Float32[Tensor, "C"]) -> Float[Tensor, "B C"]:
    """Sum a feature pyramid over its levels and their pixels, in float32 or wider."""
    wide = torch.float64 if levels[0].dtype == torch.float64 else torch.float32
    total = torch.stack([level.to(wide).sum((2, 3)) for level in levels]).sum(0)
    return (total * weight).to(levels[0].dtype)


@opsmith.op(cpu="arguments.cpp")
def crop(
    features: Float[Tensor, "B C H W"],
    boxes: Float32[Tensor, "R 4"],
    batch: Int[Tensor, "R"],
    pooled_h: int,
    pooled_w: int,
) -> Float[Tensor, "R C pooled_h pooled_w"]:
    """Copy the pixels behind the upper left corner of each box; zero outside of the image."""
    padded = torch.nn.functional.pad(features, (0, pooled_w, 0, pooled_h))
    rows = boxes[:, 1].long()[:, None] + torch.arange(pooled_h)
    columns = boxes[:, 0].long()[:, None] + torch.arange(pooled_w)
    return padded[batch.long()[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


@opsmith.op(cpu="arguments.cpp", dtypes={"T": [torch.float64, torch.float32], "I": [torch.int16]})
def pick(x: Float[Tensor, "N"], index: Int[Tensor, "M"], B: Float[Tensor, "M"]) -> Float[Tensor, "M"]:
    """Gather and add; with element types of its own, and an argument called as a dimension elsewhere."""
    return x[index.long()] + B
