"""Sizes, canvases, and boxes that go with their pixels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from opsmith_detection.config import DataConfig
from opsmith_detection.data import transforms
from opsmith_detection.data.transforms import batch_of, canvas_of, flip_boxes, put_image, scaled_size
from opsmith_detection.structures import Batch

CANVASES = ((800, 1344), (1344, 800))


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((480, 640), (800, 1066)),
        ((640, 480), (1066, 800)),
        ((427, 640), (800, 1199)),
        ((375, 1242), (402, 1333)),  # the longest side is what limits
        ((1200, 1600), (800, 1066)),
        ((1, 5000), (1, 1333)),  # no side vanishes
    ],
)
def test_sizes_are_torchvisions(size, expected):
    canvas = CANVASES[canvas_of(size, CANVASES)]
    assert scaled_size(size, 800, 1333, canvas) == expected


def test_sizes_are_those_that_torchvision_makes():
    transform = pytest.importorskip("torchvision.models.detection.transform", reason="needs torchvision")
    resize = transform.GeneralizedRCNNTransform(800, 1333, [0.0] * 3, [1.0] * 3)
    for size in [(480, 640), (427, 640), (640, 359), (333, 500), (375, 1242), (97, 61)]:
        images, _ = resize([torch.zeros(3, *size)])
        assert scaled_size(size, 800, 1333, (10_000, 10_000)) == images.image_sizes[0]


def test_an_image_that_is_larger_than_its_canvas_is_scaled_down():
    assert scaled_size((480, 640), 800, 1333, (300, 512)) == (300, 400)
    assert scaled_size((640, 480), 800, 1333, (300, 512)) == (300, 225)


def test_the_canvas_is_the_one_that_shows_an_image_largest():
    assert [canvas_of(size, CANVASES) for size in ((480, 640), (640, 480), (500, 500))] == [0, 1, 0]


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("size", [(120, 200), (30, 50), (75, 60)])
def test_boxes_go_with_their_pixels(size, flip, monkeypatch):
    monkeypatch.setattr(transforms, "scaled_size", lambda *_: size)  # also where an image loses its shape
    pixels = np.zeros((60, 100, 3), np.uint8)
    pixels[20:40, 10:30] = 255
    boxes = np.float32([[10, 20, 30, 40]])
    if flip:
        pixels, boxes = pixels[:, ::-1].copy(), flip_boxes(boxes, 100)
    batch = Batch(torch.zeros(1, 3, 128, 224, dtype=torch.uint8), torch.zeros(1, 2), torch.zeros(1))
    scales = put_image(batch, 0, pixels, 800, 1333)
    assert batch.sizes.tolist() == [list(size)]
    rows, columns = (batch.images[0, 0] >= 128).nonzero(as_tuple=True)
    found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    np.testing.assert_allclose(found, (boxes * scales)[0], atol=0.51)


def test_one_image_is_a_batch():
    config = DataConfig(canvases=((32, 64), (64, 32)), shorter_sides=(16, 24), longest_side=40)
    batch = batch_of(np.full((60, 80, 3), 9, np.uint8), config)
    assert batch.images.shape == (1, 3, 32, 64)
    assert batch.sizes.tolist() == [[24, 32]]
    assert batch.ids.tolist() == [0]
    assert (batch.images[0, :, :24, :32] == 9).all()
    assert batch.images.int().sum() == 9 * 3 * 24 * 32
