"""Reading a JSON file of COCO's format, which is refused if a training or an evaluation would stumble over it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple, NoReturn

from opsmith_detection.data.masks import pixels_of

__all__ = ["Category", "DataError", "check_folder", "read_checked"]

# Pixels by which a box may stick out of its image: those of COCO itself do, by rounding.
_SLACK = 1.0

_KEYS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "images": {"id": int, "file_name": str, "height": int, "width": int},
    "categories": {"id": int, "name": str},
    "annotations": {"image_id": int, "category_id": int, "bbox": list},
}


class DataError(ValueError):
    """A data set that cannot be read, or that contradicts itself."""


class Category(NamedTuple):
    """What a label stands for."""

    name: str
    id: int  # the file's


def read_checked(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Read the lists `images`, `categories` and `annotations`.

    Raises:
        DataError: the first entry that does not fit, and why.
    """
    try:
        entries = json.loads(path.read_bytes(), parse_constant=_refuse)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}): it may have been cut off") from None
    entries = _formatted(entries, path)
    images = _by_id(entries["images"], path, "images")
    categories = _by_id(entries["categories"], path, "categories")
    if not categories:
        raise DataError(f"{path} has no categories")
    for image in entries["images"]:
        if min(image["height"], image["width"]) < 1:
            raise DataError(f"{path}: image {image['id']} is {image['width']} x {image['height']} pixels")
    for place, annotation in enumerate(entries["annotations"]):
        wrong = _wrong(annotation, images, categories)
        if wrong is not None:
            raise _about(annotation, place, path, wrong)
    _check_compressed(entries["annotations"], path)
    return entries


def check_folder(annotations: Path, folder: Path, names: Sequence[str]) -> None:
    """Raise DataError if an image is missing. Listing folders is faster than asking for each of a million files."""
    present = {}
    for parent in {PurePath(name).parent for name in names}:
        try:
            present[parent] = {entry.name for entry in os.scandir(folder / parent)}
        except OSError as error:
            raise DataError(
                f"{folder / parent}, where images of {annotations} should be, cannot be read ({error.strerror}): "
                "set data.images"
            ) from None
    missing = [name for name in names if PurePath(name).name not in present[PurePath(name).parent]]
    if missing:
        raise DataError(
            f"{len(missing)} of the {len(names)} images of {annotations} are not in {folder}, the first is {missing[0]}: "
            "set data.images, or fetch them"
        )


def _formatted(entries: Any, path: Path) -> dict[str, list[dict[str, Any]]]:
    for kind, keys in _KEYS.items():
        if not isinstance(entries, dict) or not isinstance(entries.get(kind), list):
            raise DataError(f"{path} does not have a list `{kind}`: it is not of COCO's detection format")
        for place, entry in enumerate(entries[kind]):
            for key, wanted in keys.items():
                if not isinstance(entry, dict) or not isinstance(entry.get(key), wanted):
                    raise DataError(f"{path}: {kind}[{place}] lacks the entry `{key}` of COCO's format")
    return {kind: entries[kind] for kind in _KEYS}


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _about(annotation: dict[str, Any], place: int, path: Path, wrong: str) -> DataError:
    number = annotation.get("id", f"at place {place}")
    return DataError(f"{path}: annotation {number} of image {annotation['image_id']} {wrong}")


def _check_compressed(annotations: list[dict[str, Any]], path: Path) -> None:
    places = []
    for place, annotation in enumerate(annotations):
        segmentation = annotation.get("segmentation")
        if isinstance(segmentation, dict) and isinstance(segmentation["counts"], str):
            places.append(place)
    for start in range(0, len(places), 10_000):
        part = places[start : start + 10_000]
        pixels = pixels_of([annotations[place]["segmentation"]["counts"] for place in part])
        for place, found in zip(part, pixels.tolist(), strict=True):
            height, width = annotations[place]["segmentation"]["size"]
            if found != height * width:
                runs = "no runs" if found < 0 else f"the runs of {found} pixels"
                wrong = f"has an RLE with {runs}, but {height * width} are in its image: correct or remove it"
                raise _about(annotations[place], place, path, wrong)


def _by_id(entries: list[dict[str, Any]], path: Path, kind: str) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for entry in entries:
        if found.setdefault(entry["id"], entry) is not entry:
            raise DataError(f"{path}: two entries of `{kind}` have the id {entry['id']}")
    return found


def _wrong(
    annotation: dict[str, Any], images: dict[int, dict[str, Any]], categories: dict[int, dict[str, Any]]
) -> str | None:
    """Return what is wrong with an annotation, as the end of a sentence."""
    image = images.get(annotation["image_id"])
    if image is None:
        return "is of an image that is not in `images`: remove it"
    if annotation["category_id"] not in categories:
        return f"is of category {annotation['category_id']}, which is not in `categories`: add that, or remove it"
    wrong = _wrong_box(annotation["bbox"], image)
    segmentation = annotation.get("segmentation")
    if wrong is not None or segmentation is None:
        return wrong
    return _wrong_polygons(segmentation, image) if isinstance(segmentation, list) else _wrong_rle(segmentation, image)


def _wrong_box(box: list[Any], image: dict[str, Any]) -> str | None:
    try:
        x, y, width, height = map(float, box)
    except (TypeError, ValueError):
        return f"has the box {box}, not [x, y, width, height]"
    if not all(map(math.isfinite, (x, y, width, height))) or width < 0 or height < 0:
        return f"has the box {box}: a width and a height are numbers from 0"
    right, bottom = image["width"] + _SLACK, image["height"] + _SLACK
    if x < -_SLACK or y < -_SLACK or x + width > right or y + height > bottom:
        return (
            f"has the box {box} as [x, y, width, height], outside of the image's {image['width']} x {image['height']} "
            "pixels: correct or remove it"
        )
    return None


def _wrong_polygons(segmentation: list[Any], image: dict[str, Any]) -> str | None:
    if not segmentation:
        return "has no polygon: leave `segmentation` out"
    # pycocotools draws each point of an edge: one that is far away would take all memory.
    farthest = 2 * max(image["height"], image["width"])
    for polygon in segmentation:
        if not isinstance(polygon, list) or len(polygon) % 2 or len(polygon) < 6:
            return "has a polygon that is not [x, y, x, y, ...] of three points or more: correct or remove it"
        try:
            near = min(polygon) >= -farthest and max(polygon) <= farthest
        except TypeError:
            near = False
        if not near:
            return "has a polygon with a point that is not near its image: correct or remove it"
    return None


def _wrong_rle(segmentation: Any, image: dict[str, Any]) -> str | None:
    if not isinstance(segmentation, dict) or not {"size", "counts"} <= segmentation.keys():
        return "has a segmentation that is neither polygons nor an RLE of `size` and `counts`"
    size = [image["height"], image["width"]]
    if segmentation["size"] != size:
        return (
            f"has an RLE of size {segmentation['size']}, but its image is {size} (height, width): correct or remove it"
        )
    counts = segmentation["counts"]
    if isinstance(counts, str):  # see _check_compressed
        return None
    if not isinstance(counts, list) or not all(isinstance(count, int) and count >= 0 for count in counts):
        return "has an RLE whose counts are neither a string nor numbers from 0"
    if sum(counts) != size[0] * size[1]:
        return f"has an RLE of {sum(counts)} pixels, but {size[0] * size[1]} are in its image: correct or remove it"
    return None
