"""Leaky ReLU at a higher sampling rate, between two filters, by names and arguments of StyleGAN3's filtered_lrelu.

A nonlinearity makes frequencies that the samples cannot hold. StyleGAN3 (Karras et al., "Alias-Free Generative Adversarial
Networks", NeurIPS 2021) upsamples in front of it and filters behind it; here that is one pass, forward and backward.
"""

from __future__ import annotations

from opsmith.ops.filtered_lrelu.functions import filtered_lrelu
from opsmith.ops.filtered_lrelu.module import FilteredLReLU
from opsmith.ops.filtered_lrelu.signed import filtered_lrelu_signed, filtered_lrelu_signed_backward
from opsmith.ops.filtered_lrelu.sized import filtered_lrelu_backward, filtered_lrelu_sized

__all__ = [
    "FilteredLReLU",
    "filtered_lrelu",
    "filtered_lrelu_backward",
    "filtered_lrelu_signed",
    "filtered_lrelu_signed_backward",
    "filtered_lrelu_sized",
]
