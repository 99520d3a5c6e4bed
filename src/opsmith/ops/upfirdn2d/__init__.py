"""Upsample, filter, downsample: the resampling of StyleGAN, by names and arguments of its `torch_utils.ops.upfirdn2d`.

Each image is, along both axes, upsampled by putting zeros between its samples, padded, filtered with a finite impulse
response, and downsampled by keeping every n-th sample (Karras et al., "Analyzing and Improving the Image Quality of
StyleGAN", CVPR 2020; "Alias-Free Generative Adversarial Networks", NeurIPS 2021). Polyphase filtering (Crochiere and
Rabiner, Multirate Digital Signal Processing, 1983) never sees the zeros.
"""

from __future__ import annotations

from opsmith.ops.upfirdn2d.functions import downsample2d, filter2d, setup_filter, upfirdn2d, upsample2d
from opsmith.ops.upfirdn2d.module import Downsample2d, Filter2d, Upsample2d
from opsmith.ops.upfirdn2d.sized import upfirdn2d_sized, upfirdn2d_transposed

__all__ = [
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
]
