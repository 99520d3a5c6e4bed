"""Data sets in COCO's format: a JSON file of images, categories and objects, and a folder of images.

The file is checked as a whole when it is read, so that a training does not end at its last batch. What is kept of it are a
few arrays: forked workers then share them, which they would not share of a million Python objects.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

__all__ = ["Category", "CocoDataset", "DataError", "Objects"]

# Boxes of COCO itself stick out by rounding.
_EDGE = 1.0


class DataError(ValueError):
    """A data set that cannot be read, or that contradicts itself."""


class Category(NamedTuple):
    """What a label stands for."""

    name: str
    id: int  # in the file


class Objects(NamedTuple):
    """The objects of an image, in its own pixels."""

    boxes: npt.NDArray[np.float32]  # [N, 4] as (x1, y1, x2, y2)
    labels: npt.NDArray[np.int64]  # [N]
    segmentations: list[Any]  # [N]: lists of polygons, or RLE as pycocotools has it; None where the file has none


class CocoDataset:
    """A data set in COCO's format.

    Args:
        annotations: the JSON file.
        images: the folder that its file names are relative to; by default the file's own.
        labels: `ids` takes the categories' ids as labels, which is what torchvision's models of COCO do, whose 80
            categories have ids up to 90; `contiguous` counts categories from 1, by their ids.

    Objects of crowds, and those without a width or a height, are not learnt.

    Raises:
        DataError: a file is missing or is not what it should be, or what it says does not fit together.
    """

    def __init__(
        self, annotations: Path, images: Path | None = None, *, labels: Literal["ids", "contiguous"] = "ids"
    ) -> None:
        self.annotations = annotations
        self.folder = annotations.parent if images is None else images
        entries = _read(annotations)
        self.categories: dict[int, Category] = _categories(entries["categories"], labels, annotations)
        """What each label stands for."""
        label_of = {category.id: label for label, category in self.categories.items()}

        self.ids: list[int] = [int(image["id"]) for image in entries["images"]]
        """The file's number of each image."""
        self.names: list[str] = [image["file_name"] for image in entries["images"]]
        self.sizes = np.array([(i["height"], i["width"]) for i in entries["images"]], np.int64).reshape(-1, 2)
        """Height and width of each image: [len, 2]."""
        index_of = {id: index for index, id in enumerate(self.ids)}
        kept = [a for a in entries["annotations"] if not a.get("iscrowd", 0) and min(a["bbox"][2:]) > 0]
        owners = np.array([index_of[a["image_id"]] for a in kept], np.int64)
        order = np.argsort(owners, kind="stable")
        kept = [kept[i] for i in order]
        self._starts = np.searchsorted(owners[order], np.arange(len(self.ids) + 1))
        boxes = np.array([a["bbox"] for a in kept], np.float32).reshape(-1, 4)
        boxes[:, 2:] += boxes[:, :2]
        limits = self.sizes[owners[order]][:, [1, 0, 1, 0]].astype(np.float32)
        self._boxes = np.clip(boxes, 0, limits)
        self._labels = np.array([label_of[a["category_id"]] for a in kept], np.int64)
        texts = [json.dumps(a.get("segmentation")).encode() for a in kept]
        self._ends = np.cumsum([0, *map(len, texts)])
        self._texts = np.frombuffer(b"".join(texts), np.uint8)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def classes(self) -> int:
        """The highest label: what `model.classes` must at least be."""
        return max(self.categories)

    def image(self, index: int) -> npt.NDArray[np.uint8]:
        """Read an image: RGB, [height, width, 3].

        Raises:
            DataError: it cannot be read, or its size is not the file's.
        """
        path = self.folder / self.names[index]
        try:
            with Image.open(path) as file:
                pixels = np.array(file.convert("RGB"))
        except (OSError, UnidentifiedImageError) as error:
            raise DataError(f"{path} cannot be read as an image ({error}): fetch it again") from None
        height, width = self.sizes[index]
        if pixels.shape != (height, width, 3):
            found, said = f"{pixels.shape[1]} x {pixels.shape[0]}", f"{width} x {height}"
            raise DataError(
                f"{path} is {found} pixels (width x height), but {self.annotations} says {said}: correct it"
            )
        return pixels

    def objects(self, index: int) -> Objects:
        """Return the objects of an image, without crowds."""
        start, stop = self._starts[index], self._starts[index + 1]
        texts = (self._texts[self._ends[i] : self._ends[i + 1]].tobytes() for i in range(start, stop))
        return Objects(self._boxes[start:stop], self._labels[start:stop], [json.loads(text) for text in texts])


def _read(path: Path) -> dict[str, Any]:
    try:
        entries = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}): it may have been cut off") from None
    return dict(entries)


def _categories(entries: Sequence[Any], labels: str, path: Path) -> dict[int, Category]:
    found = sorted((Category(str(c["name"]), int(c["id"])) for c in entries), key=lambda c: c.id)
    if labels == "contiguous":
        return dict(enumerate(found, start=1))
    return {category.id: category for category in found}
