"""Compiles a model with an operator of opsmith's inside, ahead of time: `python package.py model.pt2`."""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "smooth"))

from smooth import LowPass


class Smoothed(nn.Module):
    """Filters each channel, and squashes what is left."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = LowPass(3, decay=0.75)

    def forward(self, x: Tensor) -> Tensor:
        """Return the model's output for x, [batch, 3, time]."""
        return torch.tanh(self.filter(x)) + 1


def main(file: str) -> None:
    """Compile the model for any batch and length, and print what it gives for the input of run_package.cpp."""
    x = torch.linspace(0, 1, 4 * 3 * 9).reshape(4, 3, 9)
    model = Smoothed().eval()
    batch, time = torch.export.Dim("batch", min=1), torch.export.Dim("time", min=1)
    with torch.no_grad():
        program = torch.export.export(model, (torch.randn(2, 3, 8),), dynamic_shapes=({0: batch, 2: time},))
        torch._inductor.aoti_compile_and_package(program, package_path=file)
        print(list(x.shape), f"{model(x).sum():.4f}")


if __name__ == "__main__":
    main(sys.argv[1])
