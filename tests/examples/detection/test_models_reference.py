"""What torchvision's models return and lose, ours do, from its state dicts: against a file that torchvision wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from opsmith_detection.models import build_model
from opsmith_detection.models.weights import load_torchvision
from torchvision_models import (
    NAMES,
    SEED,
    check_detections,
    check_losses,
    counting_all,
    made_images,
    made_weights,
    narrow_config,
)

pytestmark = pytest.mark.compile


def reference(name: str) -> dict[str, Any]:
    with np.load(Path(__file__).with_name("torchvision_reference.npz")) as arrays:
        kept = {key.removeprefix(f"{name}/"): arrays[key] for key in arrays.files if key.startswith(f"{name}/")}
    shapes = json.loads(kept.pop("shapes").tobytes())
    return {"shapes": shapes, **{key: torch.from_numpy(value) for key, value in kept.items()}}


def part(kept: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {key.removeprefix(prefix): value for key, value in kept.items() if key.startswith(prefix)}


@pytest.mark.parametrize("name", NAMES)
def test_the_detections_are_torchvisions(name):
    kept = reference(name)
    model = build_model(narrow_config(name)).eval()
    load_torchvision(model, made_weights(kept["shapes"]))
    images, sizes = made_images(SEED)
    with torch.no_grad():
        found = model(images, sizes)
    for number in range(len(images)):
        check_detections(found, number, part(kept, f"{number}/"), side=128)


@pytest.mark.parametrize("name", NAMES)
def test_losses_and_gradients_are_torchvisions(name):
    kept = reference(name)
    model = build_model(counting_all(narrow_config(name)))
    load_torchvision(model, made_weights(kept["shapes"]))
    check_losses(model, name, part(kept, "loss/"), part(kept, "gradient/"))
