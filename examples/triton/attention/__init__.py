"""Attention in one kernel each way, in Triton: no matrix of all queries by all keys is ever in memory.

The method is FlashAttention's: Dao et al., "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness",
NeurIPS 2022, algorithms 1 and 4, with the sums kept as in "FlashAttention-2" (Dao, ICLR 2024), section 3.1.
"""

import math

import torch
from jaxtyping import Float, Float32
from torch import Tensor

import opsmith

__all__ = ["attention"]

FORWARD = [
    {"BLOCK_D": 64, "BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "when": "D <= 64"},
    {"BLOCK_D": 128, "BLOCK_M": 64, "BLOCK_N": 32, "num_warps": 4, "when": "D <= 128"},
]
BACKWARD = [
    {"BLOCK_D": 64, "BLOCK": 32, "num_warps": 4, "num_stages": 2, "when": "D <= 64"},
    {"BLOCK_D": 128, "BLOCK": 32, "num_warps": 4, "num_stages": 1, "when": "D <= 128"},
]
DTYPES = (torch.float16, torch.bfloat16)


@opsmith.op(
    cuda=opsmith.triton("kernels.py:forward", grid="cdiv(M, BLOCK_M), B*H", configs=FORWARD),
    outputs=("y", "logs"),
    saved="logs",
    batch=("B", "H"),
    dtypes=DTYPES,
)
def attention(
    query: Float[Tensor, "B H M D"],
    key: Float[Tensor, "B H N D"],
    value: Float[Tensor, "B H N D"],
    causal: bool = False,
) -> tuple[Float[Tensor, "B H M D"], Float32[Tensor, "B H M"]]:
    """softmax(query key^T / sqrt(D)) value. With `causal` a query sees the keys up to its own place.

    `logs` are the logarithms of the softmax's sums, for the backward.
    """
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    if causal:
        seen = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    return torch.softmax(scores, dim=-1) @ value, torch.logsumexp(scores, dim=-1).float()


@attention.backward(
    cuda=opsmith.triton("kernels.py:backward", grid="max(cdiv(M, BLOCK), cdiv(N, BLOCK)), B*H", configs=BACKWARD),
    dtypes=DTYPES,
)
def attention_backward(
    grad_y: Float[Tensor, "B H M D"],
    query: Float[Tensor, "B H M D"],
    key: Float[Tensor, "B H N D"],
    value: Float[Tensor, "B H N D"],
    causal: bool,
    y: Float[Tensor, "B H M D"],
    logs: Float32[Tensor, "B H M"],
) -> tuple[Float[Tensor, "B H M D"], Float[Tensor, "B H N D"], Float[Tensor, "B H N D"]]:
    """The gradients; the weights are computed again from `logs`."""
    scale = 1 / math.sqrt(query.shape[-1])
    weights = torch.exp(query @ key.transpose(-1, -2) * scale - logs.to(query.dtype)[..., None])
    if causal:
        weights = weights.tril()
    by_weights = grad_y @ value.transpose(-1, -2)
    by_scores = weights * (by_weights - (grad_y * y).sum(-1, keepdim=True)) * scale
    return by_scores @ key, by_scores.transpose(-1, -2) @ query, weights.transpose(-1, -2) @ grad_y
