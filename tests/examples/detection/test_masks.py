"""Masks in boxes, and run lengths."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from opsmith_detection.data.masks import as_rle, cut_out, encoded, pixels_of
from pycocotools import mask as coco_mask

SIZE = (97, 131)


def polygons(random: np.random.Generator) -> list[list[float]]:
    """Triangles to octagons, some of which reach out of the image."""
    count = int(random.integers(3, 9))
    high, wide = 1.2 * SIZE[0], 1.2 * SIZE[1]
    return [(random.random((count, 2)) * (wide, high) - 10).ravel().tolist() for _ in range(random.integers(1, 3))]


def box_near(rle, random: np.random.Generator) -> np.ndarray:
    x, y, width, height = coco_mask.toBbox(rle)
    box = np.array([x, y, x + width, y + height]) + random.uniform(-3, 3, 4)
    return box.clip(0, (SIZE[1], SIZE[0]) * 2).astype(np.float32)


def test_a_cut_out_is_the_share_of_each_cell():
    random = np.random.default_rng(0)
    resolution, points = 10, 240
    for _ in range(5):
        rle = as_rle(polygons(random), SIZE)
        box = box_near(rle, random)
        inside = (np.arange(resolution * points) + 0.5) / (resolution * points)
        columns = (box[0] + inside * (box[2] - box[0])).astype(int)
        rows = (box[1] + inside * (box[3] - box[1])).astype(int)
        sampled = coco_mask.decode(rle)[rows][:, columns].reshape(resolution, points, resolution, points)
        np.testing.assert_allclose(cut_out(rle, SIZE, box, resolution), 255 * sampled.mean((1, 3)), atol=1.5)


def test_a_polygon_is_drawn_near_its_box_as_in_the_whole_image():
    random = np.random.default_rng(1)
    for _ in range(50):
        drawn = polygons(random)
        rle = as_rle(drawn, SIZE)
        box = box_near(rle, random)
        if min(box[2] - box[0], box[3] - box[1]) > 0:
            np.testing.assert_array_equal(cut_out(drawn, SIZE, box, 20), cut_out(rle, SIZE, box, 20))


def test_a_box_inside_of_a_pixel_has_a_mask():
    rle = as_rle([[0, 0, 131, 0, 131, 97, 0, 97]], SIZE)
    assert (cut_out(rle, SIZE, np.float32([130.2, 96.5, 130.3, 97.0]), 4) == 255).all()


@pytest.mark.compile
@pytest.mark.parametrize("scale", [0.75, 1.0, 1.6])
def test_a_target_pasted_at_its_object_is_the_objects_mask(scale):
    """Also where the image is resized for the network; targets that are half a pixel off miss twice as much."""
    from opsmith_detection.models.box_head import RoIs
    from opsmith_detection.models.mask_head import mask_targets
    from opsmith_detection.structures import Targets

    from opsmith.ops import paste_binary_masks_in_image

    random = np.random.default_rng(3)
    missed = []
    for side in random.uniform(30, 90, 20):
        middle, turn = random.uniform(60, 68, 2), random.uniform(0, 2 * np.pi)
        angles = turn + np.linspace(0, 2 * np.pi, 60, endpoint=False)
        radius = side / 2 * (0.7 + 0.3 * np.sin(5 * angles))
        outline = middle + radius[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1)
        rle = as_rle([outline.ravel().tolist()], (128, 128))
        x, y, width, height = coco_mask.toBbox(rle)
        box = np.float32([x, y, x + width, y + height])
        mask = torch.from_numpy(cut_out(rle, (128, 128), box, 112))[None, None]
        seen, label = torch.from_numpy(box * scale)[None, None], torch.ones(1, 1, dtype=torch.int64)
        rois = RoIs(seen, label > 0, label > 0, label - 1, label)
        target = mask_targets(Targets(seen, label, mask), rois, 28)
        pasted = paste_binary_masks_in_image(target, torch.from_numpy(box)[None], (128, 128))[0, 0].numpy() > 0
        whole = coco_mask.decode(rle) > 0
        missed.append(1 - (pasted & whole).sum() / (pasted | whole).sum())
    assert np.mean(missed) < 0.05


@pytest.mark.compile
@pytest.mark.parametrize(("side", "mean", "agree"), [(12, 0.04, 0.97), (48, 0.004, 0.99), (200, 0.003, 0.99)])
def test_roi_align_of_a_cut_out_is_that_of_the_whole_mask(side, mean, agree):
    """At proposals that overlap with the object as a mask head's do, with many samples in each bin.

    The smaller an object, the more it matters that roi_align sees points between pixels where a cut-out sees squares.
    """
    from opsmith.ops import roi_align

    random = np.random.default_rng(side)
    angles = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    off, wrong = [], []
    for _ in range(10):
        radius = side / 2 * (1 + 0.25 * np.sin(2 * angles + random.uniform(0, 6)))
        middle = random.uniform(150, 170, 2)
        outline = middle + radius[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1)
        rle = as_rle([outline.ravel().tolist()], (320, 320))
        x, y, width, height = coco_mask.toBbox(rle)
        box = np.float32([x, y, x + width, y + height])
        proposal = box + np.float32(random.uniform(-0.12, 0.12, 4) * np.array([width, height, width, height]))
        whole = torch.from_numpy(coco_mask.decode(rle)).float()[None, None]
        grid = torch.from_numpy(cut_out(rle, (320, 320), box, 112)).float()[None, None] / 255
        in_grid = (proposal - box[[0, 1, 0, 1]]) * 112 / np.float32([width, height, width, height])
        wanted = roi_align(whole, [torch.from_numpy(proposal)[None]], (28, 28), 1.0, 16, True)
        got = roi_align(grid, [torch.from_numpy(in_grid)[None]], (28, 28), 1.0, 4, True)
        off.append((wanted - got).abs().mean().item())
        wrong.append(((wanted >= 0.5) != (got >= 0.5)).float().mean().item())
    assert np.mean(off) <= mean
    assert 1 - np.mean(wrong) >= agree


def test_encoded_masks_are_those_of_pycocotools():
    random = np.random.default_rng(2)
    masks = random.random((6, 21, 34)) < np.array([0, 1, 0.5, 0.1, 0.9, 0.5])[:, None, None]
    masks[4, 0, 0], masks[5, -1, -1] = True, True
    expected = [coco_mask.encode(np.asfortranarray(mask.astype(np.uint8))) for mask in masks]
    assert encoded(torch.from_numpy(masks)) == expected
    assert encoded(torch.zeros(0, 21, 34, dtype=torch.bool)) == []


def test_pixels_of_compressed_rle():
    random = np.random.default_rng(3)
    texts, pixels = [], []
    for height, width in random.integers(1, 300, (40, 2)):
        mask = random.random((height, width)) < random.random() ** 3
        texts.append(coco_mask.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"].decode())
        pixels.append(height * width)
    assert [pixels_of(text) for text in texts] == pixels
    broken = ["", "0", "ooooo", "\x00\x01", "é", texts[0][:-1] + "p"]
    assert [pixels_of(text) for text in broken] == [None, 0, None, None, None, None]
    assert pixels_of([3, 0, 4]) == 7
