"""Collects what the code of StyleGAN2-ADA and StyleGAN3 imports from `torch_utils.ops`, under the same names.

`from torch_utils.ops import bias_act, upfirdn2d` becomes `from opsmith.ops.stylegan import bias_act, upfirdn2d`. Most of
that are operators of opsmith.ops; the modules in this folder are made of those and of PyTorch's.
"""

from __future__ import annotations

from importlib import import_module

from opsmith.ops.stylegan import conv2d_gradfix, conv2d_resample, fma

__all__ = ["bias_act", "conv2d_gradfix", "conv2d_resample", "filtered_lrelu", "fma", "upfirdn2d"]

# The modules, as in StyleGAN's code; `opsmith.ops.bias_act` is the function.
bias_act = import_module("opsmith.ops.bias_act")
filtered_lrelu = import_module("opsmith.ops.filtered_lrelu")
upfirdn2d = import_module("opsmith.ops.upfirdn2d")
