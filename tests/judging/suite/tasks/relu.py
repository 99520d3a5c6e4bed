"""The positive part of each element."""

import torch

ROWS, COLUMNS = (4096, 4096) if torch.cuda.is_available() else (128, 384)


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
