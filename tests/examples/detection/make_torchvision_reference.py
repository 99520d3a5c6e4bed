"""Writes torchvision_reference.npz: what torchvision's models return and lose, for tests where it is not installed.

    PYTHONPATH=src:examples/detection:tests/examples/detection python tests/examples/detection/make_torchvision_reference.py

The models are narrow, and made by a seed; only the names and shapes of their weights are kept. It was run with torchvision
0.27.1 and torch 2.12.1.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torchvision_models import NAMES, SEED, as_list, losses_of_theirs, made_images, narrow_model

FILE = Path(__file__).with_name("torchvision_reference.npz")


def reference(name: str) -> dict[str, Any]:
    """Return the detections of a model, its losses and gradients, and the names and shapes of its weights."""
    images, sizes = made_images(SEED)
    model = narrow_model(name).eval()
    with torch.no_grad():
        found = model(as_list(images, sizes))
    kept: dict[str, Any] = {
        f"{number}/{key}": value.numpy() for number, each in enumerate(found) for key, value in each.items()
    }
    losses, gradients = losses_of_theirs(name)
    kept |= {f"loss/{key}": value.numpy() for key, value in losses.items()}
    kept |= {f"gradient/{key}": value.numpy() for key, value in gradients.items()}
    shapes = {key: list(value.shape) for key, value in model.state_dict().items()}
    return {**kept, "shapes": np.frombuffer(json.dumps(shapes).encode(), np.uint8)}


if __name__ == "__main__":
    arrays = {f"{name}/{key}": value for name in NAMES for key, value in reference(name).items()}
    np.savez_compressed(FILE, **arrays)
    print(f"{FILE}: {FILE.stat().st_size} bytes")
