"""A data set that is made without a network: handwritten digits on photographs, with exact masks, in COCO's format.

The digits are scikit-learn's 1,797 of 8 x 8 pixels, written by people (Alpaydin and Kaynak, 1998), and the photographs are
those that scikit-learn and scikit-image are installed with. Every fifth digit and the last part of each photograph are only
in the test images.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from filelock import FileLock
from PIL import Image
from pycocotools import mask as coco_mask

from opsmith_detection.data.coco import DataError

__all__ = ["make_digits"]

Split = Literal["train", "test"]

_VERSION = 2  # of what this module makes: a change of the bytes needs another one
_PHOTOGRAPHS = {
    "sklearn.datasets.images": ("china.jpg", "flower.jpg"),
    "skimage.data": (
        "astronaut.png", "brick.png", "chelsea.png", "coffee.png", "grass.png", "gravel.png", "motorcycle_left.png",
        "rocket.jpg",
    ),
}  # fmt: skip
_TRAIN_SHARE = 0.7  # of a photograph, along its longer side
_UPSCALED = 8  # how many times larger a digit's field is than its 8 x 8 pixels
_SAMPLES = 3  # squared: points of a pixel at which its coverage is taken
_INK = 0.5  # of the darkest value, from where a point is inside of the digit
_HEIGHTS = (0.2, 0.6)  # of a digit, to the image's shorter side
_OBJECTS = 8
_VISIBLE = 0.8  # of a digit, at least, under those that are painted over it

_Floats = npt.NDArray[np.float32]
_Bools = npt.NDArray[np.bool_]
_Pixels = npt.NDArray[np.uint8]


class _Painted(NamedTuple):
    """A digit of an image."""

    digit: int
    mask: _Bools  # what is visible of it: [height, width]
    area: int  # pixels of the whole


def make_digits(
    folder: Path,
    images: int = 2000,
    size: tuple[int, int] = (256, 256),
    seed: int = 0,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> Path:
    """Make `train.json` and `test.json` with their images in `folder`, unless they are there, and return it.

    A fifth of the images are for tests. An image has 1 to 8 digits, which may overlap: a mask is what is visible. The same
    arguments make the same bytes. The folder appears when it is complete; several processes may ask for it at once.

    Args:
        size: height and width of the images, at least 64.
        progress: called after each image with how many there are and how many there will be.

    Raises:
        DataError: the folder has something else, a package is missing, or an argument does not fit.
    """
    if find_spec("sklearn") is None or find_spec("skimage") is None:
        raise DataError(
            "digits and photographs come from scikit-learn and scikit-image: pip install 'opsmith-detection[digits]'"
        )
    if seed < 0 or images < 5 or min(size) < 64:
        asked = f"{images} images of {size[0]} x {size[1]} pixels with the seed {seed}"
        raise DataError(f"{asked}: at least 5 of 64 x 64 and a seed of at least 0 are needed")
    recipe = {"images": images, "size": list(size), "seed": seed, "version": _VERSION}
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / f".{folder.name}.lock"):
        if folder.exists() and any(folder.iterdir()):
            _check_made(folder, recipe)
            return folder
        partial = folder.parent / f".{folder.name}.partial"
        shutil.rmtree(partial, ignore_errors=True)  # of a run that was killed
        splits: dict[Split, int] = {"train": images - images // 5, "test": images // 5}
        for split, count in splits.items():
            (partial / split).mkdir(parents=True)
            painted = []
            for number in range(count):
                pixels, digits = _composed(np.random.default_rng((seed, split == "test", number)), split, size)
                Image.fromarray(pixels).save(partial / f"{split}/{number + 1:05}.jpg", quality=95, subsampling=0)
                painted.append([(digit, _encoded(mask)) for digit, mask, _ in digits])
                progress(number + 1 + (split == "test") * splits["train"], images)
            info = {"description": "handwritten digits on photographs", **recipe}
            (partial / f"{split}.json").write_text(json.dumps({"info": info, **_as_coco(split, size, painted)}))
        (partial / "recipe.json").write_text(json.dumps(recipe))
        partial.replace(folder)
    return folder


def _check_made(folder: Path, recipe: dict[str, Any]) -> None:
    try:
        made = json.loads((folder / "recipe.json").read_bytes())
    except (OSError, ValueError):
        raise DataError(f"{folder} is not empty and not a data set of digits: name another folder") from None
    if made != recipe:
        raise DataError(f"{folder} has digits made with {made}, not {recipe}: remove it or name another folder")


def _encoded(mask: _Bools) -> dict[str, Any]:
    """Return a mask as a compressed RLE, of which a whole data set fits into memory."""
    return dict(coco_mask.encode(np.asfortranarray(mask.astype(np.uint8))))


def _as_coco(split: Split, size: tuple[int, int], painted: list[list[tuple[int, dict[str, Any]]]]) -> dict[str, Any]:
    """Return the entries of a JSON file for images with these digits."""
    annotations: list[dict[str, Any]] = []
    for image, digits in enumerate(painted, start=1):
        for digit, rle in digits:
            annotations.append(
                {
                    "id": len(annotations) + 1, "image_id": image, "iscrowd": 0, "category_id": digit + 1,
                    "bbox": coco_mask.toBbox(rle).tolist(), "area": int(coco_mask.area(rle)),
                    "segmentation": {"size": rle["size"], "counts": rle["counts"].decode()},
                }
            )  # fmt: skip
    images = [
        {"id": number, "file_name": f"{split}/{number:05}.jpg", "height": size[0], "width": size[1]}
        for number in range(1, len(painted) + 1)
    ]
    categories = [{"id": digit + 1, "name": str(digit)} for digit in range(10)]
    return {"images": images, "annotations": annotations, "categories": categories}


def _composed(random: np.random.Generator, split: Split, size: tuple[int, int]) -> tuple[_Pixels, list[_Painted]]:
    """Return an image and its digits."""
    canvas = _background(random, split, size)
    fields, digits = _digits(split)
    painted: list[_Painted] = []
    for _ in range(int(random.integers(1, _OBJECTS + 1))):
        which = int(random.integers(len(fields)))
        coverage = _rendered(random, fields[which], min(size))
        solid = coverage >= 0.5
        there = _room(random, solid, size, painted)
        if there is None:
            continue
        canvas[there] += coverage[:, :, None] * (_colour(random, canvas[there].mean((0, 1))) - canvas[there])
        for one in painted:
            one.mask[there] &= ~solid
        mask = np.zeros(size, np.bool_)
        mask[there] = solid
        painted.append(_Painted(int(digits[which]), mask, int(solid.sum())))
    return np.rint(canvas).clip(0, 255).astype(np.uint8), painted


def _room(
    random: np.random.Generator, solid: _Bools, size: tuple[int, int], painted: list[_Painted]
) -> tuple[slice, slice] | None:
    """Return where a digit hides little of the others, or None if ten places hide more."""
    for _ in range(10):
        top, left = (int(random.integers(whole - own + 1)) for whole, own in zip(size, solid.shape, strict=True))
        there = slice(top, top + solid.shape[0]), slice(left, left + solid.shape[1])
        visible = [int(one.mask.sum() - (one.mask[there] & solid).sum()) for one in painted]
        if all(seen >= _VISIBLE * one.area for seen, one in zip(visible, painted, strict=True)):
            return there
    return None


def _rendered(random: np.random.Generator, field: _Floats, side: int) -> _Floats:
    """Return how much of each pixel a digit covers, drawn at a random size and angle: a tight [height, width]."""
    height = side * float(np.exp(random.uniform(*np.log(_HEIGHTS))))
    angle = float(random.uniform(-0.35, 0.35))
    stretch = float(random.uniform(0.85, 1.2))  # across
    # A point of the patch to one of the field, both from their middles.
    per_pixel = len(field) / height / _SAMPLES
    a, b = np.cos(angle) * per_pixel / stretch, np.sin(angle) * per_pixel / stretch
    c, d = -np.sin(angle) * per_pixel, np.cos(angle) * per_pixel
    points = int(np.ceil(height * 1.25)) * _SAMPLES
    middle, other = len(field) / 2, points / 2
    matrix = (a, b, middle - (a + b) * other, c, d, middle - (c + d) * other)
    drawn = Image.fromarray(field).transform(
        (points, points), Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR
    )
    inside = np.asarray(drawn) > _INK
    coverage = inside.reshape(points // _SAMPLES, _SAMPLES, -1, _SAMPLES).mean((1, 3), np.float32)
    rows, columns = np.flatnonzero(coverage.any(1)), np.flatnonzero(coverage.any(0))
    tight: _Floats = coverage[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1][:side, :side]
    return tight


def _colour(random: np.random.Generator, behind: _Floats) -> _Floats:
    """Return a colour that is not the one behind: of some, the farthest."""
    colours = random.uniform(0, 255, (4, 3)).astype(np.float32)
    farthest: _Floats = colours[np.abs(colours - behind).sum(1).argmax()]
    return farthest


def _background(random: np.random.Generator, split: Split, size: tuple[int, int]) -> _Floats:
    photographs = _photographs(split)
    photograph = photographs[int(random.integers(len(photographs)))]
    zoom = max(float(random.uniform(0.7, 1.8)), size[0] / photograph.height, size[1] / photograph.width)
    height, width = size[0] / zoom, size[1] / zoom
    top = float(random.uniform(0, photograph.height - height))
    left = float(random.uniform(0, photograph.width - width))
    crop = photograph.resize(size[::-1], Image.Resampling.BILINEAR, (left, top, left + width, top + height))
    pixels: _Floats = np.asarray(crop, np.float32) * np.float32(random.uniform(0.6, 1.0))
    return pixels[:, ::-1].copy() if random.random() < 0.5 else pixels


@cache
def _digits(split: Split) -> tuple[list[_Floats], npt.NDArray[np.int64]]:
    """Return smooth fields of the split's digits, from 0 to 1 with a margin of zeros, and which digits they are."""
    from sklearn.datasets import load_digits

    data = load_digits()
    chosen = (np.arange(len(data.target)) % 5 == 4) == (split == "test")
    sources = np.pad(data.images[chosen].astype(np.float32) / 16, ((0, 0), (1, 1), (1, 1)))
    side = sources.shape[1] * _UPSCALED
    fields = [np.asarray(Image.fromarray(s).resize((side, side), Image.Resampling.BICUBIC)) for s in sources]
    return fields, data.target[chosen]


@cache
def _photographs(split: Split) -> list[Image.Image]:
    """Return the split's part of each photograph."""
    parts = []
    for package, names in _PHOTOGRAPHS.items():
        for name in names:
            with (files(package) / name).open("rb") as file:
                whole = Image.open(file).convert("RGB")
            width, height = whole.size
            edge = int(max(whole.size) * _TRAIN_SHARE)
            right, bottom = (edge, height) if width >= height else (width, edge)
            left, top = (edge, 0) if width >= height else (0, edge)
            parts.append(whole.crop((0, 0, right, bottom) if split == "train" else (left, top, width, height)))
    return parts
