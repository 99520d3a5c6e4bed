"""A stand-in for a detector, and batches for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from opsmith_detection.config import Config, load_config
from opsmith_detection.structures import Batch, Targets
from torch import Tensor, nn

__all__ = ["SMALL", "Counted", "StandIn", "batch_of", "objects", "small_config"]

# Overrides that make a Mask R-CNN of a few thousand weights.
SMALL = [
    "model.classes=3", "model.backbone.depth=18", "model.backbone.width=8", "model.backbone.pyramid_channels=32",
    "model.backbone.trainable_stages=5", "model.box_head.channels=32", "model.mask_head.channels=8",
    "model.rpn.candidates=[64, 64]", "model.rpn.proposals=[32, 32]", "model.box_head.samples=16",
]  # fmt: skip


class StandIn(nn.Module):
    """Two losses of the images' means; one of them draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.norm, self.last = nn.Linear(3, 8), nn.LayerNorm(8), nn.Linear(8, 2)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, images: Tensor, sizes: Tensor, targets: Targets | None = None) -> Any:
        with torch.no_grad():
            self.seen.add_(1)
        out = self.last(self.norm(self.first(images.float().mean((2, 3)) / 255)).relu())
        noise = torch.rand(len(images), device=images.device)
        return {"loss_a": out[:, 0].square().mean(), "loss_b": (out[:, 1] - noise).square().mean()}


class Counted:
    """An endless source of batches that follow from their numbers, like the loader."""

    def __init__(self, images: int = 4) -> None:
        self.images, self.next = images, 0

    def __iter__(self) -> Iterator[Batch]:
        while True:
            self.next += 1
            yield batch_of(self.images, self.next - 1)

    def state(self) -> dict[str, int]:
        return {"next": self.next}

    def restore(self, state: dict[str, int]) -> None:
        self.next = state["next"]


def batch_of(images: int, number: int = 0) -> Batch:
    random = torch.Generator().manual_seed(number)
    pixels = torch.randint(0, 256, (images, 3, 8, 8), generator=random, dtype=torch.uint8)
    targets = Targets(torch.zeros(images, 1, 4), torch.zeros(images, 1, dtype=torch.int64))
    return Batch(pixels, torch.full((images, 2), 8.0), torch.arange(images), targets)


def small_config(**solver: Any) -> Config:
    given = {"precision": "float32", "steps": 10, "warm_up_steps": 0, "rate": 0.1, "milestones": [], **solver}
    return load_config(None, [f"solver.{name}={'null' if v is None else v}" for name, v in given.items()])


def objects(device: str = "cpu") -> Batch:
    """Two images, of which the second has no objects."""
    torch.manual_seed(0)
    boxes = torch.zeros(2, 4, 4)
    boxes[0, :2] = torch.tensor([[4.0, 4, 40, 30], [20, 10, 60, 60]])
    labels = torch.zeros(2, 4, dtype=torch.int64)
    labels[0, :2] = torch.tensor([1, 3])
    masks = torch.zeros(2, 4, 28, 28, dtype=torch.uint8)
    masks[0, :2, 5:20, 5:20] = 255
    images = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8)
    batch = [images, torch.full((2, 2), 64.0), torch.arange(2), boxes, labels, masks]
    batch = [tensor.to(device) for tensor in batch]
    return Batch(*batch[:3], Targets(*batch[3:]))
