"""A linear layer and its positive part."""

import torch

BATCH, INPUTS, OUTPUTS = (1024, 512, 768) if torch.cuda.is_available() else (48, 64, 80)


class Model(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = torch.nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(BATCH, INPUTS)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
