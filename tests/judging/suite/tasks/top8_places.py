"""The eight largest numbers of each row, and where they are."""

import torch

ROWS, COLUMNS = (2048, 4096) if torch.cuda.is_available() else (64, 512)


class Model(torch.nn.Module):
    def forward(self, x):
        values, places = torch.topk(x, 8, dim=-1)
        return values, places


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
