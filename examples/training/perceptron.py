"""Trains a perceptron with one hidden layer to classify handwritten digits of 64 numbers each."""

from __future__ import annotations

import torch
from builds import REFERENCE
from digits import load_digits
from side_by_side import Example, Length, Result, fit, run
from torch import Tensor, nn

from opsmith.ops.mlp import MLP, mlp

UNITS = 128
BATCH = 16
RIVAL = "nn.Sequential"


class ReferenceMLP(MLP):
    """The perceptron as its definition has it, differentiated by PyTorch."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        """Return [B, O] for [B, F]."""
        output = mlp.reference(input, self.weight1, self.bias1, self.weight2, self.bias2)
        return output if isinstance(output, Tensor) else output[0]  # others are what the backward keeps


def make_model(variant: str) -> nn.Module:
    """Return the perceptron of a variant; it takes [B, 64] and gives [B, 10]."""
    if variant == RIVAL:
        return nn.Sequential(nn.Linear(64, UNITS), nn.ReLU(), nn.Linear(UNITS, 10))
    return (ReferenceMLP if variant == REFERENCE else MLP)(64, UNITS, 10)


def train(variant: str, length: Length) -> Result:
    """Train on three quarters of the images; the score is the accuracy on the rest."""
    torch.manual_seed(0)
    train_images, test_images, train_labels, test_labels = load_digits()
    train_images, test_images = train_images.flatten(1), test_images.flatten(1)
    model = make_model(variant)

    def batches(epoch: int) -> list[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(train_images), generator=torch.Generator().manual_seed(epoch))
        return [(train_images[part], train_labels[part]) for part in order.split(BATCH)]

    def accuracy() -> float:
        return (model(test_images).argmax(dim=1) == test_labels).float().mean().item()

    return fit(model, batches, nn.functional.cross_entropy, accuracy, length=length, rate=0.001)


if __name__ == "__main__":
    run(Example("Digits, as 64 numbers", ["opsmith.ops.mlp.operator"], "accuracy", 20, train, rival=RIVAL))
