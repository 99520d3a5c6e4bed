"""Builds the detectors that are timed beside each other: those of examples/detection and torchvision's, alike.

Both have the same weights, which a seed makes, and the same images, on the device already.
"""

# ruff: noqa: E402 -- the package of examples/detection is found after its folder is named

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "examples" / "detection")]

from opsmith_detection.config import Config, ModelConfig, load_config
from opsmith_detection.engine.inference import Predictor
from opsmith_detection.engine.optimizer import build_optimizer
from opsmith_detection.engine.step import TrainStep, autocast
from opsmith_detection.models import build_model
from opsmith_detection.models.weights import load_torchvision
from opsmith_detection.structures import Batch, Targets

from torchvision_detectors import torchvision_model

__all__ = [
    "COMPETITORS",
    "CPU_CANVAS",
    "GPU_CANVAS",
    "Call",
    "case_on_cpu",
    "case_on_gpu",
    "inference",
    "make_batch",
    "prepared",
    "training",
]

CONFIGS = ROOT / "examples" / "detection" / "configs"
GPU_CANVAS, CPU_CANVAS = (800, 1344), (128, 128)
OBJECTS = 7  # COCO's images have so many on average
COMPETITORS = ("opsmith", "opsmith eager", "opsmith recompute", "torchvision", "channels_last", "compiled")

Call = Callable[[], Any]

# Names of torchvision's parameters and the deviations of their weights; others are spread by the number of their inputs.
SPREADS = (
    (r"rpn\.head\.cls_logits", 0.1),
    (r"rpn\.head\.bbox_pred", 0.05),
    (r"cls_score", 0.05),
    (r"box_predictor\.bbox_pred", 0.03),
    (r"mask_fcn_logits", 0.05),
    (r"classification_head\.cls_logits", 0.03),
    (r"bbox_reg", 0.02),
)


@torch.no_grad()
def spread(model: nn.Module) -> nn.Module:
    """Give a model weights with which activations keep their size and scores differ."""
    names = {name for name, _ in (*model.named_parameters(), *model.named_buffers())}
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        if value.dim() < 2:
            is_last = name.endswith("bn3.weight") or (
                name.endswith("bn2.weight") and name.replace("bn2", "bn3") not in names
            )
            if is_last:  # of a block: rounding does not grow from block to block
                value.fill_(0.2)
            continue
        own = next((deviation for pattern, deviation in SPREADS if re.search(pattern, name)), None)
        gain = 0.3 if ".fpn." in name else 1.0
        value.normal_(std=own or gain * (2 / value[0].numel()) ** 0.5)
    return model


def make_batch(images: int, canvas: tuple[int, int], config: ModelConfig, device: str) -> Batch:
    """Return images that fill the canvas and their objects, padded as the loader does it."""
    random = torch.Generator().manual_seed(1)
    height, width = canvas
    coarse = torch.rand(images, 3, height // 8, width // 8, generator=random)
    pixels = nn.functional.interpolate(coarse, canvas, mode="bilinear").mul(255).to(torch.uint8)
    most = 100 if device == "cuda" else 8
    boxes, labels = torch.zeros(images, most, 4), torch.zeros(images, most, dtype=torch.int64)
    corner = torch.rand(images, OBJECTS, 2, generator=random) * 0.6
    side = 0.05 + 0.35 * torch.rand(images, OBJECTS, 2, generator=random)
    boxes[:, :OBJECTS] = torch.cat([corner, corner + side], 2) * torch.tensor([width, height, width, height])
    labels[:, :OBJECTS] = torch.randint(1, config.classes + 1, (images, OBJECTS), generator=random)
    masks = torch.zeros(images, most, 112, 112, dtype=torch.uint8)
    masks[:, :OBJECTS, 10:-10, 10:-10] = 255
    batch = Batch(pixels, torch.tensor([canvas] * images).float(), torch.arange(images), Targets(boxes, labels, masks))
    return Batch(*(each.to(device) for each in batch[:3]), Targets(*(each.to(device) for each in batch.targets)))


def as_theirs(batch: Batch) -> tuple[list[Tensor], list[dict[str, Tensor]]]:
    """Return a batch as torchvision takes it, with masks of whole images."""
    assert batch.targets is not None
    images = [image.float() / 255 for image in batch.images]
    found = []
    for boxes, labels in zip(batch.targets.boxes, batch.targets.labels, strict=True):
        own = boxes[labels > 0]
        masks = torch.zeros(len(own), *batch.images.shape[2:], dtype=torch.uint8, device=own.device)
        for mask, (x1, y1, x2, y2) in zip(masks, own.int().tolist(), strict=True):
            mask[y1:y2, x1:x2] = 1
        found.append({"boxes": own, "labels": labels[labels > 0], "masks": masks})
    return images, found


def prepared(name: str, config: Config, canvas: tuple[int, int], device: str) -> nn.Module:
    """Return a competitor's model: ours or torchvision's, with the same weights."""
    torch.manual_seed(0)
    theirs = spread(torchvision_model(config.model, (min(canvas),), max(canvas)))
    if name.startswith("opsmith"):
        model = build_model(replace(config.model, recompute=name == "opsmith recompute"))
        load_torchvision(model, theirs.state_dict())
        return model.to(device)
    theirs = theirs.to(device)
    if name != "torchvision":
        theirs = theirs.to(memory_format=torch.channels_last)
    if name == "compiled":
        theirs.backbone = torch.compile(theirs.backbone)
        if config.model.kind == "rcnn":
            theirs.rpn.head = torch.compile(theirs.rpn.head)
    return theirs


def training(name: str, config: Config, canvas: tuple[int, int], batch: Batch, device: str) -> Call:
    """Return a training step of a competitor."""
    model = prepared(name, config, canvas, device).train()
    optimizer = build_optimizer(model, config.solver)
    if name.startswith("opsmith"):
        step = TrainStep(model, optimizer, replace(config, graph=name != "opsmith eager"), images=len(batch.images))
        return lambda: step(iter([batch]), 0)
    images, targets = as_theirs(batch)

    def call() -> None:
        optimizer.zero_grad()
        with autocast(torch.device(device), config.solver.precision):
            losses = model(images, targets)
        torch.stack([*losses.values()]).sum().backward()
        optimizer.step()

    return call


def inference(name: str, config: Config, canvas: tuple[int, int], batch: Batch, device: str) -> Call:
    """Return a call that detects, without masks of whole images, which both have after it."""
    model = prepared(name, config, canvas, device).eval().requires_grad_(False)
    if name.startswith("opsmith"):
        predictor = Predictor(model, replace(config, graph=name == "opsmith"), torch.device(device))
        return lambda: predictor(batch)
    images, _ = as_theirs(batch)
    model.transform.postprocess = lambda result, *_: result  # ours has no pasting in the model

    def call() -> Any:
        with torch.inference_mode(), autocast(torch.device(device), config.solver.precision):
            return model(images)

    return call


def case_on_gpu(model: str, batch_size: int, precision: str) -> tuple[Config, Batch]:
    """Return the configuration and the batch of a case, in whose precision PyTorch computes from here on."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    config = load_config(CONFIGS / f"{model}.yaml", [f"solver.precision={precision}", "solver.rate=1e-5"])
    return config, make_batch(batch_size, GPU_CANVAS, config.model, "cuda")


def case_on_cpu(batch_size: int) -> tuple[Config, Batch]:
    """Return the small configuration and its batch."""
    config = load_config(CONFIGS / "digits_small.yaml")
    return config, make_batch(batch_size, CPU_CANVAS, config.model, "cpu")
