"""mlp: linear, ReLU, linear, as one operator with one gradient.

    hidden = relu(input weight1^T + bias1)
    output = hidden weight2^T + bias2

(The two-layer perceptron that "C++ Extensions in PyTorch" of ROCm's blog extends PyTorch with, 2024. The gradient
published there leaves ReLU's mask out, so it is that of two linear layers; the one here is masked.)
"""

from __future__ import annotations

from opsmith.ops.mlp.module import MLP
from opsmith.ops.mlp.operator import mlp, mlp_backward

__all__ = ["MLP", "mlp", "mlp_backward"]
