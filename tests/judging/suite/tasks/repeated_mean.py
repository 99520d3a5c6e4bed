"""Twice the mean of each row, written once for each place."""

import torch

ROWS, COLUMNS, TIMES = (4096, 256, 512) if torch.cuda.is_available() else (200, 24, 64)


class Model(torch.nn.Module):
    def forward(self, x):
        return 2 * x.mean(dim=-1, keepdim=True).repeat(1, TIMES)


def get_inputs():
    return [torch.rand(ROWS, 1) * torch.rand(ROWS, COLUMNS)]


def get_init_inputs():
    return []
