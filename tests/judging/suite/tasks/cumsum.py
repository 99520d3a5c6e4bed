"""Running sums along each row."""

import torch

ROWS, COLUMNS = (1024, 2048) if torch.cuda.is_available() else (64, 256)


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.cumsum(x, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
