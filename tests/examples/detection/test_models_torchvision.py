"""torchvision's six detectors with a ResNet-50 and ours, with its state dicts and on photographs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from opsmith_detection.config import load_config
from opsmith_detection.models import build_model
from opsmith_detection.models.weights import load_torchvision
from torch import Tensor
from torchvision_models import as_list, check_detections, prepared

theirs = pytest.importorskip("torchvision.models.detection", reason="torchvision is not installed")
data = pytest.importorskip("skimage.data", reason="scikit-image is not installed")

pytestmark = [pytest.mark.compile, pytest.mark.slow("runs ResNet-50 twelve times")]

CONFIGS = Path(__file__).parents[3] / "examples" / "detection" / "configs"
MODELS = {
    "mask_rcnn_r50": "maskrcnn_resnet50_fpn",
    "mask_rcnn_r50_v2": "maskrcnn_resnet50_fpn_v2",
    "faster_rcnn_r50": "fasterrcnn_resnet50_fpn",
    "faster_rcnn_r50_v2": "fasterrcnn_resnet50_fpn_v2",
    "retinanet_r50": "retinanet_resnet50_fpn",
    "retinanet_r50_v2": "retinanet_resnet50_fpn_v2",
}


def photographs() -> tuple[Tensor, Tensor]:
    """Return photographs of three sizes in a canvas, and the sizes."""
    photos = [data.astronaut()[:250, 60:380], data.chelsea()[20:276, 100:340], data.coffee()[100:292, 200:520]]
    images = torch.zeros(len(photos), 3, 256, 320, dtype=torch.uint8)
    for image, photo in zip(images, photos, strict=True):
        image[:, : photo.shape[0], : photo.shape[1]] = torch.from_numpy(photo.copy()).permute(2, 0, 1)
    return images, torch.tensor([photo.shape[:2] for photo in photos]).float()


@pytest.mark.parametrize("config", MODELS)
def test_the_detections_are_torchvisions(config):
    reference: Any = prepared(getattr(theirs, MODELS[config])(weights=None, weights_backbone=None)).eval()
    model = build_model(load_config(CONFIGS / f"{config}.yaml").model).eval()
    load_torchvision(model, reference.state_dict())
    images, sizes = photographs()
    with torch.no_grad():
        wanted, found = reference(as_list(images, sizes)), model(images, sizes)
    for number, each in enumerate(wanted):
        assert len(each["scores"]) > 50
        check_detections(found, number, each, side=float(sizes[number].min()))
