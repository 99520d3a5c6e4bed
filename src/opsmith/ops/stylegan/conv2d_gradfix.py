"""`torch_utils.ops.conv2d_gradfix`: PyTorch's convolutions, under the names that code written for older ones uses.

They were replaced there because PyTorch before 1.11 could not differentiate a convolution twice at speed. Its own are
what is called here: they have gradients of any order, and skip that of a weight for which none is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.nn.functional import conv2d, conv_transpose2d

__all__ = ["conv2d", "conv_transpose2d", "enabled", "no_weight_gradients"]

enabled = False  # programs set this; there is nothing to switch


@contextmanager
def no_weight_gradients(disable: bool = True) -> Iterator[None]:
    """Do nothing: a gradient penalty asks for the gradient of the images alone, and `torch.autograd.grad` computes no other.

    `disable` has no meaning. Weights keep their gradient in a `backward()` inside of it.
    """
    yield
