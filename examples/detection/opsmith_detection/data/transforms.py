"""What happens to an image and its boxes on their way to the network: flip, resize, and a place on a canvas."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from opsmith_detection.config import DataConfig
from opsmith_detection.structures import Batch

__all__ = ["batch_of", "canvas_of", "flip_boxes", "put_image", "scaled_size"]


def canvas_of(size: tuple[int, int], canvases: Sequence[tuple[int, int]]) -> int:
    """Return which canvas shows an image of `size` (height, width) largest; the first of several."""
    scales = [min(canvas[0] / size[0], canvas[1] / size[1]) for canvas in canvases]
    return scales.index(max(scales))


def scaled_size(
    size: tuple[int, int], shorter_side: int, longest_side: int, canvas: tuple[int, int]
) -> tuple[int, int]:
    """Return the height and width that an image of `size` is resized to.

    Its shorter side becomes `shorter_side`, unless the longer one would exceed `longest_side`, as in torchvision's
    `GeneralizedRCNNTransform`, or the image its canvas: then it is as large as fits.
    """
    height, width = size
    # Fractions of integers: a rounded factor may lose the last row.
    above, below = min(
        ((shorter_side, min(size)), (longest_side, max(size)), (canvas[0], height), (canvas[1], width)),
        key=lambda factor: factor[0] / factor[1],
    )
    return max(height * above // below, 1), max(width * above // below, 1)


def put_image(
    batch: Batch, place: int, pixels: npt.NDArray[np.uint8], shorter_side: int, longest_side: int
) -> npt.NDArray[np.float64]:
    """Put an image, RGB [height, width, 3], into the upper left corner of its canvas, and return its boxes' scales, [4].

    It is resized bilinearly with antialiasing, as Pillow resizes: torchvision's models, which have none, see smaller images
    differently.
    """
    original, canvas = (pixels.shape[0], pixels.shape[1]), (batch.images.shape[2], batch.images.shape[3])
    height, width = size = scaled_size(original, shorter_side, longest_side, canvas)
    image = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    resized = torch.nn.functional.interpolate(image, size, mode="bilinear", antialias=True)
    batch.images[place, :, :height, :width] = resized[0]
    batch.sizes[place] = torch.tensor(size)
    return np.array([width / original[1], height / original[0]] * 2)


def flip_boxes(boxes: npt.NDArray[np.float32], width: int) -> npt.NDArray[np.float32]:
    """Return boxes [N, 4] of an image of this width as they are in its mirror image, whose left is right."""
    return np.stack([width - boxes[:, 2], boxes[:, 1], width - boxes[:, 0], boxes[:, 3]], 1)


def batch_of(pixels: npt.NDArray[np.uint8], config: DataConfig) -> Batch:
    """Make the batch of one image, RGB [height, width, 3], as tests see it."""
    canvas = config.canvases[canvas_of((pixels.shape[0], pixels.shape[1]), config.canvases)]
    batch = Batch(torch.zeros(1, 3, *canvas, dtype=torch.uint8), torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64))
    put_image(batch, 0, pixels, config.shorter_sides[-1], config.longest_side)
    return batch
