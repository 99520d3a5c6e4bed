"""Degenerate: the reference draws numbers of its own, so it disagrees with itself."""

import torch

ROWS, COLUMNS = 64, 384


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x, 0.5)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
