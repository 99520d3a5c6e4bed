"""Predictions: which images, what is drawn, and files that must not be lost."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from detection_kit.tiny import small_config
from opsmith_detection.config import DataConfig
from opsmith_detection.data.coco import DataError
from opsmith_detection.engine.inference import Predictor
from opsmith_detection.found import Found, captions, draw_objects
from opsmith_detection.predict import find_objects, list_images, predict_images
from opsmith_detection.structures import Detections
from PIL import Image
from pycocotools import mask as coco_mask

DATA = DataConfig(canvases=((32, 32),), shorter_sides=(32,), longest_side=32)


class Finds(torch.nn.Module):
    """Finds one object in the upper left quarter of each image, with a full mask, and one of a low score."""

    def forward(self, images: torch.Tensor, sizes: torch.Tensor) -> Detections:
        boxes = torch.stack([torch.zeros_like(sizes), sizes.flip(1) / 2], 1).flatten(1)[:, None].repeat(1, 3, 1)
        scores = torch.tensor([[0.9, 0.2, 0.0]])
        return Detections(boxes, scores, torch.tensor([[7, 7, 0]]), torch.ones(1, 3, 28, 28))


def predictor() -> Predictor:
    return Predictor(Finds(), replace(small_config(), data=DATA), torch.device("cpu"))


def test_objects_are_in_the_pixels_of_the_image():
    found = find_objects(predictor(), np.zeros((20, 64, 3), np.uint8), threshold=0.5)
    assert found.labels == [7] and found.scores == pytest.approx([0.9])
    np.testing.assert_allclose(found.boxes, [[0, 0, 32, 10]])
    assert found.masks is not None and len(found.masks) == 1
    mask = coco_mask.decode(found.masks[0])
    assert mask.shape == (20, 64) and mask[1:9, 1:31].all() and not mask[12:].any()
    assert captions(found, {}) == ["7 0.90"]  # COCO's ids have gaps


def test_pictures_and_results_are_written(tmp_path: Path):
    for name in ("a.png", "a.jpg", "b.png"):
        Image.new("RGB", (64, 20)).save(tmp_path / name)
    paths = list_images([tmp_path, tmp_path / "b.png"])
    assert [path.name for path in paths] == ["a.jpg", "a.png", "b.png", "b.png"]
    output = tmp_path / "found"
    assert predict_images(predictor(), paths[:3], output, {}) > 0
    pictures = ["00001-a.png", "00002-a.png", "00003-b.png"]
    assert sorted(path.name for path in output.iterdir()) == [*pictures, "predictions.json"]


def test_an_image_is_looked_at_once_and_the_first_one_does_not_set_the_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("a.png", "b.png", "c.png"):
        Image.new("RGB", (64, 20)).save(tmp_path / name)
    calls, forward = [], Finds.forward

    def slow_at_first(model: Finds, images: torch.Tensor, sizes: torch.Tensor) -> Detections:
        calls.append(len(images))
        time.sleep(0.5 if len(calls) == 1 else 0)
        return forward(model, images, sizes)

    monkeypatch.setattr(Finds, "forward", slow_at_first)
    speed = predict_images(predictor(), list_images([tmp_path]), tmp_path / "found", {})
    assert calls == [1, 1, 1]
    assert speed > 1 / 0.25


def test_an_image_that_cannot_be_read_does_not_lose_what_the_others_have(tmp_path: Path):
    for name in ("b.png", "d.png"):
        Image.new("RGB", (64, 20)).save(tmp_path / name)
    for name in ("a.png", "c.png"):
        (tmp_path / name).write_bytes(b"no image")
    with pytest.raises(DataError, match=r"(?s)a\.png cannot be .*c\.png cannot be .* found in the other 2 images"):
        predict_images(predictor(), list_images([tmp_path]), tmp_path / "found", {})
    results = json.loads((tmp_path / "found" / "predictions.json").read_text())
    assert [(result["image_id"], result["file_name"]) for result in results] == [(2, "b.png"), (4, "d.png")]


def test_images_are_not_written_over(tmp_path: Path):
    Image.new("RGB", (8, 8)).save(tmp_path / "00001-a.png")
    (tmp_path / "a.png").symlink_to("00001-a.png")
    with pytest.raises(DataError, match="would be written over"):
        predict_images(predictor(), [tmp_path / "a.png"], tmp_path, {})


def test_what_is_not_an_image_is_refused(tmp_path: Path):
    (tmp_path / "a.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"a\.png cannot be read as an image"):
        predict_images(predictor(), [tmp_path / "a.png"], tmp_path / "found", {})
    (tmp_path / "a.png").unlink()
    with pytest.raises(DataError, match="no images in"):
        list_images([tmp_path])


def test_a_drawing_shows_mask_and_box():
    image = np.full((300, 300, 3), 100, np.uint8)
    mask = np.zeros((300, 300), np.uint8, order="F")
    mask[40:45, 30:35] = 1
    found = Found(np.array([[20, 30, 50, 50]], np.float32), [1.0], [1], [coco_mask.encode(mask)])
    drawn: Any = np.asarray(draw_objects(image, found, ["x"]))
    assert drawn.shape == (300, 300, 3)
    assert drawn[42, 32].tolist() == [165, 130, 50]  # half of the colour (230, 159, 0)
    assert drawn[42, 20].tolist() == [230, 159, 0]  # the box
    assert drawn[42, 40].tolist() == [100, 100, 100]
    small = draw_objects(image[:100, :90], found._replace(masks=None), ["x"])
    assert small.size == (270, 300)  # three times as large
