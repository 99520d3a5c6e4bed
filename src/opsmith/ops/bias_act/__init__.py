"""Bias, activation, gain and clamp in one pass, by names and arguments of StyleGAN's `torch_utils.ops.bias_act`.

They follow every convolution of StyleGAN2 (Karras et al., "Analyzing and Improving the Image Quality of StyleGAN", CVPR
2020). The gradients of the tensor and of the bias are computed in one pass, too.
"""

from __future__ import annotations

from opsmith.ops.bias_act.activations import activation_funcs
from opsmith.ops.bias_act.functions import bias_act, fused_bias_leakyrelu
from opsmith.ops.bias_act.module import FusedBiasLeakyReLU
from opsmith.ops.bias_act.operator import bias_activation, bias_activation_backward

__all__ = [
    "FusedBiasLeakyReLU",
    "activation_funcs",
    "bias_act",
    "bias_activation",
    "bias_activation_backward",
    "fused_bias_leakyrelu",
]
