"""Reading a JSON file of COCO's format, which is refused if a training or an evaluation would stumble over it."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import pydantic
from pydantic import AfterValidator, ConfigDict, Field, NonNegativeFloat, PositiveInt, Tag, ValidationError
from typing_extensions import NotRequired, TypedDict

from opsmith_detection.data.masks import pixels_of
from opsmith_detection.errors import DetectionError, explain

__all__ = ["Annotation", "Category", "DataError", "check_folder", "read_checked"]

# Pixels by which a box may stick out of its image: those of COCO itself do, by rounding.
_SLACK = 1.0

_Polygon = Annotated[list[float], Field(min_length=6)]


class _RLE(TypedDict):
    size: tuple[int, int]
    counts: str | list[pydantic.NonNegativeInt]


_Id = Annotated[int, Field(ge=0, lt=2**63)]
_Segmentation = Annotated[
    Annotated[list[_Polygon], Tag("polygons")] | Annotated[_RLE, Tag("RLE")],
    pydantic.Discriminator(lambda found: "polygons" if isinstance(found, list) else "RLE"),
]


def _whole(found: object) -> object:
    """Return what some programs write as 480.0 as 480."""
    return int(found) if isinstance(found, float) and found.is_integer() else found


_Side = Annotated[PositiveInt, pydantic.BeforeValidator(_whole)]


class _Image(TypedDict):
    id: _Id
    file_name: str
    height: _Side
    width: _Side


class _Category(TypedDict):
    id: _Id
    name: str


class Annotation(TypedDict):
    """An object. What else the file says of it is left out."""

    id: NotRequired[Any]
    image_id: int
    category_id: int
    bbox: tuple[float, float, NonNegativeFloat, NonNegativeFloat]  # x, y, width, height
    iscrowd: NotRequired[int | bool]
    area: NotRequired[NonNegativeFloat | None]
    # Files of boxes alone have [] at every object.
    segmentation: NotRequired[Annotated[_Segmentation | None, AfterValidator(lambda found: found or None)]]


@pydantic.with_config(ConfigDict(strict=True, allow_inf_nan=False))
class _File(TypedDict):
    images: Annotated[list[_Image], pydantic.FailFast()]
    categories: Annotated[list[_Category], pydantic.FailFast(), Field(min_length=1)]
    annotations: Annotated[list[Annotation], pydantic.FailFast()]


_Entry = TypeVar("_Entry", _Image, _Category)


class DataError(DetectionError, ValueError):
    """A data set that cannot be read, or that contradicts itself."""


class Category(NamedTuple):
    """What a label stands for."""

    name: str
    id: int  # the file's


def read_checked(path: Path) -> _File:
    """Read the lists `images`, `categories` and `annotations`, with what annotations may leave out.

    Raises:
        DataError: the file cannot be read, or the first entry that does not fit, and why.
    """
    try:
        entries = pydantic.TypeAdapter(_File).validate_json(path.read_bytes())
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror}. Set data.train and data.test, or let "
            "`python -m opsmith_detection demo` (or `make detect`) make a data set of digits"
        ) from None
    except ValidationError as error:
        raise DataError(f"{path} is not of COCO's detection format:\n{explain(error)}") from None
    images = _by_id(entries["images"], path)
    categories = _by_id(entries["categories"], path)
    for place, annotation in enumerate(entries["annotations"]):
        annotation.setdefault("iscrowd", 0)
        annotation.setdefault("area", None)
        annotation.setdefault("segmentation", None)
        for wrong in _wrong(annotation, images.get(annotation["image_id"]), categories):
            number = annotation.get("id", f"at place {place}")
            raise DataError(
                f"{path}: annotation {number} of image {annotation['image_id']} {wrong}: correct or remove it"
            )
    return entries


def check_folder(annotations: Path, folder: Path, names: Sequence[str]) -> None:
    """Raise DataError if an image is missing. Listing folders is faster than asking for each of a million files."""
    present: set[Path] = set()
    for parent in {(folder / name).parent for name in names}:
        with suppress(OSError):
            present.update(parent.iterdir())
    missing = [name for name in names if folder / name not in present]
    if missing:
        raise DataError(
            f"{len(missing)} of the {len(names)} images of {annotations} are not found in {folder}, the first is "
            f"{missing[0]}: set data.train_images or data.test_images, or fetch them"
        )


def _by_id(entries: list[_Entry], path: Path) -> dict[int, _Entry]:
    by_id: dict[int, _Entry] = {}
    for entry in entries:
        if by_id.setdefault(entry["id"], entry) is not entry:
            raise DataError(f"{path}: two entries have the id {entry['id']}: {by_id[entry['id']]} and {entry}")
    return by_id


def _wrong(annotation: Annotation, image: _Image | None, categories: Container[int]) -> Iterator[str]:
    """Give what is wrong with an annotation, as the end of a sentence."""
    if image is None:
        yield "is of an image that is not in `images`"
        return
    if annotation["category_id"] not in categories:
        yield f"is of category {annotation['category_id']}, which is not in `categories`"
    size = height, width = image["height"], image["width"]
    x, y, across, down = annotation["bbox"]
    if min(x, y) < -_SLACK or x + across > width + _SLACK or y + down > height + _SLACK:
        yield f"has the box {[x, y, across, down]}, outside of the image's {width} x {height} pixels"
    segmentation = annotation["segmentation"]
    if isinstance(segmentation, list):
        if any(len(polygon) % 2 for polygon in segmentation):
            yield "has a polygon that is not [x, y, x, y, ...]"
        # pycocotools draws each point of an edge: one that is far away would take all memory.
        if max(abs(side) for polygon in segmentation for side in polygon) > 2 * max(size):
            yield "has a polygon with a point that is not near its image"
    elif segmentation is not None:
        if segmentation["size"] != size:
            yield f"has an RLE of size {segmentation['size']}, but its image is {size} (height, width)"
        pixels = pixels_of(segmentation["counts"])
        if pixels is None:
            yield "has an RLE whose counts are not runs"
        if pixels != height * width:
            yield f"has an RLE of {pixels} pixels, but {height * width} are in its image"
