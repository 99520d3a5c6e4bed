"""The data set of digits: whole or not there, the same from the same seed, and true."""

from __future__ import annotations

import hashlib
import json
from importlib.util import find_spec

import numpy as np
import pytest
from opsmith_detection.data import digits
from opsmith_detection.data.coco import CocoDataset, DataError
from opsmith_detection.data.digits import make_digits
from pycocotools import mask as coco_mask

MISSING = [name for name in ("sklearn", "skimage") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_digits(tmp_path_factory.mktemp("made") / "digits", images=40, size=(96, 128))


def contents(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_it_is_coco(folder):
    train, test = CocoDataset(folder / "train.json"), CocoDataset(folder / "test.json")
    assert (len(train), len(test)) == (32, 8)
    train.check_masks(with_crowds=True)
    assert [train.categories[label].name for label in range(1, 11)] == list("0123456789")
    assert {tuple(size) for size in train.sizes.tolist()} == {(96, 128)}
    counts = [len(train.objects(index).labels) for index in range(32)]
    assert min(counts) >= 1
    assert max(counts) <= 8
    assert len(set(counts)) > 3
    labels = np.concatenate([train.objects(index).labels for index in range(32)])
    assert set(labels) == set(range(1, 11))


def test_masks_are_what_is_visible_and_boxes_fit_them(folder):
    dataset = CocoDataset(folder / "train.json")
    touching = 0
    for index in range(len(dataset)):
        objects = dataset.objects(index)
        masks = np.stack([coco_mask.decode(segmentation) for segmentation in objects.segmentations])
        assert masks.sum(0).max() == 1  # a pixel shows one digit
        boxes = [coco_mask.toBbox(segmentation) for segmentation in objects.segmentations]
        np.testing.assert_array_equal(objects.boxes[:, 2:] - objects.boxes[:, :2], np.array(boxes)[:, 2:])
        np.testing.assert_array_equal(objects.boxes[:, :2], np.array(boxes)[:, :2])
        inside = [masks[:, int(y1) : int(y2), int(x1) : int(x2)].any((1, 2)).sum() for x1, y1, x2, y2 in objects.boxes]
        touching += sum(count > 1 for count in inside)
    assert touching > 5


def test_a_digit_has_its_colour_where_its_mask_is(folder):
    """JPEG aside: inside of a mask colours vary far less than between it and its surroundings."""
    dataset = CocoDataset(folder / "test.json")
    pixels, objects = dataset.image(0).astype(float), dataset.objects(0)
    for segmentation in objects.segmentations:
        mask = coco_mask.decode(segmentation).astype(bool)
        middle = np.median(pixels[mask], 0)
        assert np.mean(np.abs(pixels[mask] - middle).max(-1) < 40) > 0.7


def test_the_same_seed_makes_the_same_bytes(folder, tmp_path):
    again = make_digits(tmp_path / "again", images=40, size=(96, 128))
    assert contents(again) == contents(folder)
    other = make_digits(tmp_path / "other", images=40, size=(96, 128), seed=1)
    assert contents(other)["train/00001.jpg"] != contents(folder)["train/00001.jpg"]


def test_tests_have_other_digits_and_other_parts_of_photographs():
    (train, _), (test, _) = digits._digits("train"), digits._digits("test")
    assert len(train) + len(test) == 1797
    assert not {field.tobytes() for field in train} & {field.tobytes() for field in test}
    for left, right in zip(digits._photographs("train"), digits._photographs("test"), strict=True):
        assert (left.width == right.width) != (left.height == right.height)


def test_what_is_there_is_kept(folder):
    told = []
    before = contents(folder)
    make_digits(folder, images=40, size=(96, 128), progress=lambda *done: told.append(done))
    assert told == []
    assert contents(folder) == before


def test_progress_counts_all_images(tmp_path):
    told = []
    make_digits(tmp_path / "digits", images=5, size=(64, 64), progress=lambda *done: told.append(done))
    assert told == [(n, 5) for n in range(1, 6)]


def test_a_run_that_was_killed_leaves_nothing_that_looks_whole(tmp_path):
    folder = tmp_path / "digits"

    def stop(done, total):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_digits(folder, images=5, size=(64, 64), progress=stop)
    assert not folder.exists()
    make_digits(folder, images=5, size=(64, 64))
    assert len(CocoDataset(folder / "train.json")) == 4
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["digits"]


def test_other_contents_are_not_touched(tmp_path, folder):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="not empty and not a data set of digits"):
        make_digits(tmp_path, images=5)
    with pytest.raises(DataError, match=r"made with .*'seed': 0.* not .*'seed': 1"):
        make_digits(folder, images=40, size=(96, 128), seed=1)
    assert json.loads((folder / "recipe.json").read_text())["images"] == 40
    with pytest.raises(DataError, match="at least 5 of 64 x 64"):
        make_digits(tmp_path / "small", images=2)
    with pytest.raises(DataError, match=r"with the seed -1: .*a seed of at least 0"):
        make_digits(tmp_path / "small", images=5, seed=-1)
