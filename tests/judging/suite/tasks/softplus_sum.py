"""The sum over each row of a smooth positive part."""

import torch

ROWS, COLUMNS = (2048, 4096) if torch.cuda.is_available() else (64, 384)


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.softplus(x).sum(dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
