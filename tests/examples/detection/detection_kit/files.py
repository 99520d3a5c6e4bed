"""Small data sets in COCO's format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

__all__ = ["annotation", "disc", "square", "write"]


def write(folder: Path, sizes: list[tuple[int, int]], annotations: list[dict[str, Any]], **entries: Any) -> Path:
    """Write images of these sizes (height, width) with numbers from 1, and a JSON file, whose path is returned."""
    images = []
    for number, (height, width) in enumerate(sizes, start=1):
        down, across = np.mgrid[:height, :width]
        pixels = np.stack([down * 255 / height, across * 255 / width, np.full((height, width), 20 * number)], -1)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")
        images.append({"id": number, "file_name": f"{number}.png", "height": height, "width": width})
    numbered = [{"id": number, **one} for number, one in enumerate(annotations, start=1)]
    categories = [{"id": 3, "name": "disc"}, {"id": 1, "name": "square"}]
    path = folder / "data.json"
    path.write_text(json.dumps({"images": images, "annotations": numbered, "categories": categories, **entries}))
    return path


def annotation(image: int, category: int, box: list[float], **entries: Any) -> dict[str, Any]:
    """An object by its box [x, y, width, height]."""
    return {"image_id": image, "category_id": category, "bbox": box, "area": box[2] * box[3], "iscrowd": 0, **entries}


def square(image: int, x: float, y: float, side: float, **entries: Any) -> dict[str, Any]:
    """A square of category 1 with a polygon."""
    polygon = [x, y, x + side, y, x + side, y + side, x, y + side]
    return annotation(image, 1, [x, y, side, side], segmentation=[polygon], **entries)


def disc(image: int, x: float, y: float, radius: float) -> dict[str, Any]:
    """A disc of category 3 with a polygon."""
    angles = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    points = np.stack([x + radius * np.cos(angles), y + radius * np.sin(angles)], 1)
    box = [x - radius, y - radius, 2 * radius, 2 * radius]
    return annotation(image, 3, box, segmentation=[points.ravel().tolist()])
