"""Data sets in COCO's format: a JSON file of images, categories and objects, and a folder of images.

The file is checked as a whole when it is read, so that a training does not end at its last batch. What is kept of it are a
few arrays: forked workers share their memory, but not that of a million Python objects.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from itertools import compress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image

from opsmith_detection.data.checks import Annotation, Category, DataError, check_folder, read_checked

__all__ = ["Category", "CocoDataset", "DataError", "Objects", "read_image"]

Exif = Literal["auto", "apply", "ignore"]

# By EXIF's orientation. Pillow's exif_transpose writes the EXIF data again, too, and fails where it is damaged.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip


class Objects(NamedTuple):
    """The objects of an image, in its own pixels."""

    boxes: npt.NDArray[np.float32]  # [N, 4] as (x1, y1, x2, y2)
    labels: npt.NDArray[np.int64]  # [N]
    segmentations: list[Any]  # [N], as the file has them: polygons or RLE; None where it has none


def read_image(path: Path, size: tuple[int, int] | None = None, exif: Exif = "auto") -> Image.Image:
    """Read an image as RGB, turned as its camera said (EXIF).

    Args:
        size: width and height that it should have.
        exif: `ignore` does not turn it, and `auto` does so unless only the pixels as they are stored have the size.

    Raises:
        DataError: it cannot be read, or has more than 8 bits.
    """
    try:
        with Image.open(path) as file:
            mode, image = file.mode, file.convert("RGB")
            turn = _TURNS.get(file.getexif().get(ExifTags.Base.Orientation))
            upright: Image.Image = image if turn is None else image.transpose(turn)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:  # all of these are Pillow's
        raise DataError(f"{path} cannot be read as an image: {error}") from None
    if mode.startswith(("I", "F")):  # which Pillow clips to 0 and 255
        raise DataError(
            f"{path} has pixels of more than 8 bits (Pillow's mode {mode}): scale them to 0 to 255 and save it"
        )
    is_stored = exif == "ignore" or (exif == "auto" and upright.size != size == image.size)
    return image if is_stored else upright


class CocoDataset:
    """A data set in COCO's format.

    Crowds, and objects without a width or a height in their image, are not learnt. An evaluation ignores what is found in
    crowds.

    Args:
        annotations: the JSON file.
        images: the folder that its file names are relative to; by default the file's own.
        labels: `ids` takes the categories' ids as labels, as torchvision's models of COCO do, whose 80 categories have
            ids up to 90; `contiguous` counts the categories from 1, by their ids.
        categories: what labels stand for already, in the training's file or in a checkpoint. The file's categories must be
            among them; with `ids` there may be others, too.
        exif: of `read_image`.

    Raises:
        DataError: a file is missing or broken, or what it says does not fit together.
    """

    def __init__(
        self,
        annotations: Path,
        images: Path | None = None,
        *,
        labels: Literal["ids", "contiguous"] = "ids",
        categories: Mapping[int, Category] | None = None,
        exif: Exif = "auto",
    ) -> None:
        self._exif: Exif = exif
        self.annotations = Path(annotations)
        self.folder = self.annotations.parent if images is None else Path(images)
        entries = read_checked(self.annotations)
        listed = sorted((Category(c["name"], c["id"]) for c in entries["categories"]), key=lambda c: c.id)
        if labels == "ids" and listed[0].id < 1:
            raise DataError(
                f"{annotations}: category {listed[0].name!r} has the id {listed[0].id}, and labels below 1 are not objects: "
                "set data.labels=contiguous"
            )
        self.categories: dict[int, Category] = dict(categories or {})
        """What each label stands for."""
        known = {category.id: category for category in self.categories.values()}
        for place, category in enumerate(listed, start=1):
            label = category.id if labels == "ids" else place
            is_free = category.id not in known and label not in self.categories
            if is_free and (labels == "ids" or categories is None):
                self.categories[label] = category
            elif known.get(category.id) != category:
                raise DataError(
                    f"{annotations}: category {category.name!r} with the id {category.id} is not one of the training: "
                    f"{', '.join(f'{name!r} {number}' for name, number in known.values())}. "
                    "Give equal categories equal names and ids in both files"
                )
        self.ids: list[int] = [image["id"] for image in entries["images"]]
        """The file's number of each image."""
        self.names: list[str] = [image["file_name"] for image in entries["images"]]
        self.sizes = np.array([(i["height"], i["width"]) for i in entries["images"]], np.int64).reshape(-1, 2)
        """Height and width of each image: [len, 2]."""
        check_folder(self.annotations, self.folder, self.names)
        self._keep(entries["annotations"])

    def _keep(self, annotations: list[Annotation]) -> None:
        index_of = {number: index for index, number in enumerate(self.ids)}
        label_of = {category.id: label for label, category in self.categories.items()}
        learnt = [a for a in annotations if not a["iscrowd"]]
        learnt.sort(key=lambda a: index_of[a["image_id"]])
        owners = np.array([index_of[a["image_id"]] for a in learnt], np.int64)
        boxes = np.array([a["bbox"] for a in learnt], np.float64).reshape(-1, 4)
        boxes[:, 2:] += boxes[:, :2]
        self._boxes = boxes.clip(0, self.sizes[owners][:, [1, 0, 1, 0]]).astype(np.float32)
        # What is left of a box in its image, rounded, may have no area.
        has_area = np.all(self._boxes[:, 2:] > self._boxes[:, :2], axis=1)
        learnt, self._boxes = list(compress(learnt, has_area)), self._boxes[has_area]
        self._starts = np.searchsorted(owners[has_area], np.arange(len(self.ids) + 1))
        self._labels = np.array([label_of[a["category_id"]] for a in learnt], np.int64)
        without = [a for a in annotations if a["segmentation"] is None]
        self._without_mask, self._without_mask_or_crowd = len(without), sum(not a["iscrowd"] for a in without)
        pickled = [pickle.dumps(a["segmentation"], pickle.HIGHEST_PROTOCOL) for a in learnt]
        self._ends = np.cumsum([0, *map(len, pickled)])
        self._pickled = np.frombuffer(b"".join(pickled), np.uint8)

    def __len__(self) -> int:
        """Return how many images there are."""
        return len(self.ids)

    @property
    def classes(self) -> int:
        """The highest label: `model.classes` must be at least as high."""
        return max(self.categories)

    def check_masks(self, *, with_crowds: bool) -> None:
        """Raise DataError if an object has no segmentation. Crowds need one in an evaluation, and are not learnt."""
        missing = self._without_mask if with_crowds else self._without_mask_or_crowd
        if missing:
            raise DataError(
                f"{self.annotations}: {missing} objects have no `segmentation`: train a detector without masks "
                "(model.mask_head=null), or add them"
            )

    def image(self, index: int) -> npt.NDArray[np.uint8]:
        """Read an image: RGB, [height, width, 3].

        Raises:
            DataError: it cannot be read, or its size is not what the JSON file says.
        """
        path = self.folder / self.names[index]
        height, width = self.sizes[index].tolist()
        pixels = np.array(read_image(path, (width, height), self._exif))
        if pixels.shape != (height, width, 3):
            found, said = f"{pixels.shape[1]} x {pixels.shape[0]}", f"{width} x {height}"
            raise DataError(
                f"{path} has {found} pixels (width x height), but {self.annotations} says {said}: correct it"
                + (" or data.exif" if self._exif != "auto" else "")
            )
        return pixels

    def objects(self, index: int) -> Objects:
        """Return the objects of an image, without crowds."""
        start, stop = self._starts[index], self._starts[index + 1]
        pickled = (self._pickled[self._ends[i] : self._ends[i + 1]].tobytes() for i in range(start, stop))
        return Objects(self._boxes[start:stop], self._labels[start:stop], [pickle.loads(one) for one in pickled])
