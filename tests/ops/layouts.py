"""The same values in another layout, for the tests of several operators."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["laid_out"]


def laid_out(x: Tensor, layout: str) -> Tensor:
    """A tensor with the values of `x`, which is contiguous.

    "contiguous" and "channels_last" are PyTorch's. "transposed": the last dimension but one has the stride of 1; "inner":
    a part of a larger image; "sliced": every second element; "expanded": all rows are the first; "offset": one element in,
    where no vector is aligned, behind a NaN.
    """
    if layout == "channels_last":
        return x.to(memory_format=torch.channels_last)
    if layout == "transposed":
        return x.mT.contiguous().mT if x.dim() > 1 else x
    if layout == "inner":
        return functional.pad(x, (1, 2, 1, 0))[..., 1:, 1:-2]
    if layout == "sliced":
        return torch.stack([x, -x], dim=-1)[..., 0]
    if layout == "expanded":
        return x[:1].expand(x.shape)
    if layout == "offset":
        return torch.cat([x.new_full((1,), torch.nan), x.flatten()])[1:].view(x.shape)
    assert layout == "contiguous"
    return x
