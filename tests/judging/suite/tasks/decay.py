"""Numbers that decay by an exponent, as the gates of linear attention do."""

import torch

ROWS, COLUMNS = (2048, 4096) if torch.cuda.is_available() else (64, 384)


class Model(torch.nn.Module):
    def forward(self, x, rate):
        return x * torch.exp(-rate)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), 0.1 * torch.rand(ROWS, COLUMNS)]


def get_init_inputs():
    return []
