"""The mean of each row."""

import torch

ROWS, COLUMNS = (2048, 4096) if torch.cuda.is_available() else (96, 512)


class Model(torch.nn.Module):
    def forward(self, x):
        return x.mean(dim=-1)


def get_inputs():
    return [torch.rand(ROWS, 1) + 0.1 * torch.rand(ROWS, COLUMNS)]


def get_init_inputs():
    return []
