"""Degenerate: of numbers from a normal distribution, a layer norm is nearly a copy."""

import torch

ROWS, FEATURES = (256, 65536) if torch.cuda.is_available() else (8, 65536)


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.layer_norm(x, x.shape[-1:])


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return []
