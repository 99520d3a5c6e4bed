"""Root-mean-square normalization with a weight of each feature."""

import torch

ROWS, FEATURES = (4096, 2048) if torch.cuda.is_available() else (96, 256)


class Model(torch.nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(1 + 0.2 * torch.randn(features))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.eps) * self.weight


def get_inputs():
    return [2 * torch.randn(ROWS, FEATURES) + 0.5]


def get_init_inputs():
    return [FEATURES]
