"""Degenerate: the mean of many numbers from a normal distribution is nearly zero."""

import torch

ROWS, COLUMNS = (256, 262144) if torch.cuda.is_available() else (8, 262144)


class Model(torch.nn.Module):
    def forward(self, x):
        return x.mean(dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
