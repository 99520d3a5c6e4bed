"""Trains an LLTM classifier of digits, with opsmith's kernels and with the reference bodies."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from opsmith.demo.digits import Digits
from opsmith.ops.lltm import LLTM, lltm_gates
from opsmith.spec.definition import Device

__all__ = [
    "BATCH",
    "EPOCHS",
    "KERNELS",
    "LEAST_LOSS",
    "QUICK_EPOCHS",
    "REFERENCE",
    "SMOOTHING",
    "TARGET",
    "UNITS",
    "Run",
    "gain_of",
    "largest_gap",
    "train",
    "variants",
]

EPOCHS = 40
QUICK_EPOCHS = 3

# Test accuracy that a whole run must reach.
TARGET = 0.95

UNITS = 128
BATCH = 32
_RATE = 0.02

# A smoothed target keeps the loss away from 0, where a bit of rounding would send two trainings different ways.
SMOOTHING = 0.1
_CLASSES = 10

# The entropy of a smoothed target; no prediction gets below it.
_SURE, _OTHER = 1 - SMOOTHING + SMOOTHING / _CLASSES, SMOOTHING / _CLASSES
LEAST_LOSS = -_SURE * math.log(_SURE) - (_CLASSES - 1) * _OTHER * math.log(_OTHER)

# What is trained, in tables and pictures: the kernels on each device, and the bodies in plain PyTorch.
KERNELS = {"cpu": "opsmith C++", "cuda": "opsmith CUDA"}
REFERENCE = "reference"

State = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Run:
    """One training: mean loss and test accuracy of each epoch, and the last predictions for the test images.

    `step_ms` is the median time of a step: forward, loss, backward and optimizer.
    """

    variant: str
    seconds: float
    steps: int
    step_ms: float
    losses: tuple[float, ...]
    accuracies: tuple[float, ...]
    predictions: tuple[int, ...]

    @property
    def accuracy(self) -> float:
        """Test accuracy after the last epoch."""
        return self.accuracies[-1]


class ReferenceLLTM(LLTM):
    """The same module in plain PyTorch: a loop over the body of lltm_gates, differentiated by PyTorch."""

    def forward(self, input: Any, state: State | None = None) -> tuple[Any, State]:  # noqa: A002
        """Return what LLTM does, for a batch of sequences [B, T, I]."""
        hidden, cell = state or input.new_zeros(2, input.shape[0], self.hidden_size)
        parameters = dict(self.named_parameters())
        steps = []
        for step in input.unbind(1):
            gates = functional.linear(torch.cat([hidden, step], dim=1), parameters["weight_l0"], parameters["bias_l0"])
            hidden, cell = lltm_gates.reference(gates, cell)
            steps.append(hidden)
        return torch.stack(steps, dim=1), (hidden.unsqueeze(0), cell.unsqueeze(0))


class Classifier(nn.Module):
    """Reads an image row by row and names the digit from the last hidden state."""

    def __init__(self, recurrent: type[LLTM]) -> None:
        super().__init__()
        self.recurrent = recurrent(8, UNITS, batch_first=True)
        self.head = nn.Linear(UNITS, _CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits [B, 10] of images [B, 8, 8]."""
        _, (hidden, _) = self.recurrent(images)
        logits: Tensor = self.head(hidden[-1])
        return logits


def variants(devices: Sequence[Device]) -> dict[str, tuple[type[LLTM], Device]]:
    """Return what is trained, the first of which counts: kernels on each device, then the reference."""
    kernels = {KERNELS[device]: (LLTM, device) for device in devices}
    return {**kernels, REFERENCE: (ReferenceLLTM, "cpu")}


def train(
    variant: str,
    recurrent: type[LLTM],
    device: Device,
    digits: Digits,
    epochs: int,
    *,
    seed: int,
    on_epoch: Callable[[int, float, float], None] | None = None,
) -> Run:
    """Train a classifier; equal seeds give equal weights and equal batches, whatever the variant.

    `on_epoch` gets the number of the epoch, its mean loss and the test accuracy after it.
    """
    torch.manual_seed(seed)
    model = Classifier(recurrent).to(device)
    images, labels = digits.train_images.to(device), digits.train_labels.to(device)
    test_images = digits.test_images.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=_RATE)
    steps = epochs * -(-len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=steps)
    shuffle = torch.Generator().manual_seed(seed)
    losses, accuracies, times_ms = [], [], []
    started = time.perf_counter()
    for epoch in range(1, epochs + 1):
        total = 0.0
        for batch in torch.randperm(len(images), generator=shuffle).split(BATCH):
            begun = time.perf_counter()
            loss = functional.cross_entropy(model(images[batch]), labels[batch], label_smoothing=SMOOTHING)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(batch)
            times_ms.append((time.perf_counter() - begun) * 1e3)
        losses.append(total / len(images))
        predictions = _predict(model, test_images)
        accuracies.append((predictions == digits.test_labels).double().mean().item())
        if on_epoch is not None:
            on_epoch(epoch, losses[-1], accuracies[-1])
    seconds = time.perf_counter() - started
    step_ms = statistics.median(times_ms)
    return Run(variant, seconds, steps, step_ms, tuple(losses), tuple(accuracies), tuple(predictions.tolist()))


def gain_of(runs: Sequence[Run]) -> float | None:
    """Return how many steps the kernels take on the CPU in the time of one of the reference; None without one of them."""
    times = {run.variant: run.step_ms for run in runs}
    if REFERENCE not in times or KERNELS["cpu"] not in times:
        return None
    return times[REFERENCE] / times[KERNELS["cpu"]]


def largest_gap(runs: Sequence[Run]) -> tuple[float, float]:
    """Return how far the losses of any run are from the first one's, relative: in the first epoch, and at most."""
    first, *others = runs
    gaps = [[abs(one - other) / one for one, other in zip(first.losses, run.losses, strict=True)] for run in others]
    return max(gap[0] for gap in gaps), max(max(gap) for gap in gaps)


def _predict(model: nn.Module, images: Tensor) -> Tensor:
    with torch.no_grad():
        predictions: Tensor = model(images).argmax(dim=1).cpu()
    return predictions
