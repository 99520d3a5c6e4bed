"""The mean of all absolute values, of numbers whose scale is another one in each call."""

import torch

COUNT = 1 << (24 if torch.cuda.is_available() else 21)


class Model(torch.nn.Module):
    def forward(self, x):
        return x.abs().mean()


def get_inputs():
    return [torch.randn(COUNT) * torch.rand(()).add(0.5)]


def get_init_inputs():
    return []
