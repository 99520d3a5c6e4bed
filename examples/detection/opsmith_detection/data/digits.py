"""A data set that is made without a network: handwritten digits on photographs, with exact masks, in COCO's format.

The digits are scikit-learn's 1,797 of 8 x 8 pixels, written by people (Alpaydin and Kaynak, 1998), and the photographs are
those that scikit-learn and scikit-image are installed with. Every fifth digit and the last part of each photograph are only
in the test images.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
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

_PHOTOGRAPHS = {
    "sklearn": ("datasets/images/china.jpg", "datasets/images/flower.jpg"),
    "skimage": (
        "data/astronaut.png",
        "data/brick.png",
        "data/chelsea.png",
        "data/coffee.png",
        "data/grass.png",
        "data/gravel.png",
        "data/motorcycle_left.png",
        "data/rocket.jpg",
    ),
}
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


@dataclass(frozen=True)
class _Recipe:
    """All that the data set's bytes follow from. A change of this module needs another version."""

    images: int
    size: tuple[int, int]
    seed: int
    version: int = 2


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
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Make `train.json` and `test.json` with their images in `folder`, unless they are there.

    A fifth of the images are for tests. An image has 1 to 8 digits, which may overlap: a mask is what is visible. The same
    arguments make the same bytes. The folder appears when it is complete; several processes may ask for it at once.

    Args:
        size: height and width of the images, at least 64.
        progress: called after each image with how many there are and how many there will be.

    Returns:
        The folder.

    Raises:
        DataError: the folder has something else, a package is missing, or an argument does not fit.
    """
    recipe = _Recipe(images, (size[0], size[1]), seed)
    if seed < 0:
        raise DataError(f"the seed is {seed}, expected 0 or more")
    if images < 5 or min(size) < 64:
        raise DataError(f"{images} images of {size[0]} x {size[1]} pixels: at least 5 of 64 x 64 are needed")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / f".{folder.name}.lock"):
        if _is_made(folder, recipe):
            return folder
        partial = folder.parent / f".{folder.name}.partial"
        shutil.rmtree(partial, ignore_errors=True)  # of a run that was killed
        tell = progress or (lambda done, total: None)
        learnt = images - images // 5
        _write(partial, recipe, "train", learnt, lambda done: tell(done, images))
        _write(partial, recipe, "test", images - learnt, lambda done: tell(learnt + done, images))
        (partial / "recipe.json").write_text(json.dumps(asdict(recipe)))
        partial.replace(folder)
    return folder


def _write(folder: Path, recipe: _Recipe, split: Split, count: int, progress: Callable[[int], object]) -> None:
    """Write the images of a split and its JSON file."""
    (folder / split).mkdir(parents=True)
    entries = []
    for number in range(1, count + 1):
        image, objects = _composed(recipe, split, number)
        Image.fromarray(image).save(folder / split / f"{number:05}.jpg", quality=95, subsampling=0)
        entries.append(objects)
        progress(number)
    (folder / f"{split}.json").write_text(json.dumps(_as_coco(recipe, split, entries)))


def _is_made(folder: Path, recipe: _Recipe) -> bool:
    if not folder.exists() or not any(folder.iterdir()):
        return False
    try:
        found = json.loads((folder / "recipe.json").read_bytes())
    except (OSError, ValueError):
        raise DataError(f"{folder} is not empty and not a data set of digits: name another folder") from None
    wanted = json.loads(json.dumps(asdict(recipe)))
    if found != wanted:
        raise DataError(f"{folder} has digits made with {found}, not {wanted}: remove it or name another folder")
    return True


def _as_coco(recipe: _Recipe, split: Split, entries: list[list[dict[str, Any]]]) -> dict[str, Any]:
    height, width = recipe.size
    annotations = [
        {"image_id": image, "iscrowd": 0, **one} for image, found in enumerate(entries, start=1) for one in found
    ]
    return {
        "info": {"description": "handwritten digits on photographs", **asdict(recipe)},
        "images": [
            {"id": number, "file_name": f"{split}/{number:05}.jpg", "height": height, "width": width}
            for number in range(1, len(entries) + 1)
        ],
        "annotations": [{"id": number, **one} for number, one in enumerate(annotations, start=1)],
        "categories": [{"id": digit + 1, "name": str(digit)} for digit in range(10)],
    }


def _composed(recipe: _Recipe, split: Split, number: int) -> tuple[_Pixels, list[dict[str, Any]]]:
    """Return an image and its objects as COCO's annotations."""
    random = np.random.default_rng((recipe.seed, split == "test", number - 1))
    canvas = _background(random, split, recipe.size)
    fields, digits = _digits(split)
    painted: list[_Painted] = []
    for _ in range(int(random.integers(1, _OBJECTS + 1))):
        which = int(random.integers(len(fields)))
        coverage = _rendered(random, fields[which], min(recipe.size))
        solid = coverage >= 0.5
        there = _room(random, solid, recipe.size, painted)
        if there is None:
            continue
        canvas[there] += coverage[:, :, None] * (_colour(random, canvas[there].mean((0, 1))) - canvas[there])
        for one in painted:
            one.mask[there] &= ~solid
        mask = np.zeros(recipe.size, np.bool_)
        mask[there] = solid
        painted.append(_Painted(int(digits[which]), mask, int(solid.sum())))
    pixels: _Pixels = np.rint(canvas).clip(0, 255).astype(np.uint8)
    return pixels, [_annotation(one.digit, one.mask) for one in painted]


def _room(
    random: np.random.Generator, solid: _Bools, size: tuple[int, int], painted: list[_Painted]
) -> tuple[slice, slice] | None:
    """Return where a digit hides little of the others, or None if ten places hide more."""
    visible = [int(one.mask.sum()) for one in painted]
    for _ in range(10):
        top = int(random.integers(size[0] - solid.shape[0] + 1))
        left = int(random.integers(size[1] - solid.shape[1] + 1))
        there = slice(top, top + solid.shape[0]), slice(left, left + solid.shape[1])
        hidden = [int((one.mask[there] & solid).sum()) for one in painted]
        if all(seen - lost >= _VISIBLE * one.area for seen, lost, one in zip(visible, hidden, painted, strict=True)):
            return there
    return None


def _annotation(label: int, mask: npt.NDArray[np.bool_]) -> dict[str, Any]:
    rle = coco_mask.encode(np.asfortranarray(mask.astype(np.uint8)))
    return {
        "category_id": label + 1,
        "bbox": coco_mask.toBbox(rle).tolist(),
        "area": int(mask.sum()),
        "segmentation": {"size": rle["size"], "counts": rle["counts"].decode()},
    }


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
    if find_spec("sklearn") is None:
        raise DataError("the digits come from scikit-learn: pip install 'opsmith-detection[digits]'")
    from sklearn.datasets import load_digits

    data = load_digits()
    chosen = (np.arange(len(data.target)) % 5 == 4) == (split == "test")
    sources = np.pad(data.images[chosen].astype(np.float32) / 16, ((0, 0), (1, 1), (1, 1)))
    side = sources.shape[1] * _UPSCALED
    fields = [np.asarray(Image.fromarray(s).resize((side, side), Image.Resampling.BICUBIC)) for s in sources]
    return fields, data.target[chosen]


@cache
def _photographs(split: Split) -> list[Image.Image]:
    parts = []
    for package, names in _PHOTOGRAPHS.items():
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise DataError(f"photographs come from {package}: pip install 'opsmith-detection[digits]'")
        for name in names:
            path = Path(spec.origin).parent / name
            try:
                whole = Image.open(path).convert("RGB")
            except OSError as error:
                raise DataError(f"{path} cannot be read ({error}): install {package} again") from None
            width, height = whole.size
            wide = width >= height
            edge = int(max(whole.size) * _TRAIN_SHARE)
            if split == "train":
                parts.append(whole.crop((0, 0, edge, height) if wide else (0, 0, width, edge)))
            else:
                parts.append(whole.crop((edge, 0, width, height) if wide else (0, edge, width, height)))
    return parts
