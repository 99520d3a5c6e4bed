"""Trains an LLTM and an LSTM of equal size to classify handwritten digits, read row by row."""

from __future__ import annotations

import sklearn.datasets
import sklearn.model_selection
import torch
from recurrent import MODULE, RIVAL, make_layer
from side_by_side import Example, Length, Result, fit, run
from torch import Tensor, nn

UNITS = 64
BATCH = 32


class Classifier(nn.Module):
    """Names the digit from the hidden state after the last row."""

    def __init__(self, variant: str) -> None:
        super().__init__()
        self.recurrent = make_layer(variant, 8, UNITS)
        self.head = nn.Linear(UNITS, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits [B, 10] of images [B, 8, 8]."""
        return self.head(self.recurrent(images)[0][:, -1])


def load_digits() -> list[Tensor]:
    """Return scikit-learn's images [N, 8, 8], between 0 and 1, and their labels [N], three quarters to train with."""
    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    parts: list[Tensor] = sklearn.model_selection.train_test_split(
        torch.tensor(images, dtype=torch.get_default_dtype()).view(-1, 8, 8) / 16,
        torch.tensor(labels),
        test_size=0.25,
        random_state=0,
        stratify=labels,
    )  # images to train with and to test with, then their labels
    return parts


def train(variant: str, length: Length) -> Result:
    """Train on three quarters of the images; the score is the accuracy on the rest."""
    torch.manual_seed(0)
    train_images, test_images, train_labels, test_labels = load_digits()
    model = Classifier(variant)

    def batches(epoch: int) -> list[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(train_images), generator=torch.Generator().manual_seed(epoch))
        return [(train_images[part], train_labels[part]) for part in order.split(BATCH)]

    def accuracy() -> float:
        return (model(test_images).argmax(dim=1) == test_labels).float().mean().item()

    return fit(model, batches, nn.functional.cross_entropy, accuracy, length=length, rate=0.01)


if __name__ == "__main__":
    run(Example("Digits, row by row", [MODULE], "accuracy", 20, train, rival=RIVAL))
