"""Numbers cut off at four; few of a normal distribution are."""

import torch

ROWS, COLUMNS = (2048, 4096) if torch.cuda.is_available() else (64, 384)


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.clamp(x, -4.0, 4.0)


def get_inputs():
    return [1.5 * torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
