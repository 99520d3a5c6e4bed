"""What happens to an image and its boxes on their way to the network: flip, resize, and a place on a canvas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from opsmith_detection.config import DataConfig
from opsmith_detection.structures import Batch

__all__ = ["Geometry", "batch_of", "canvas_of", "put_image", "scaled_size"]


@dataclass(frozen=True)
class Geometry:
    """How an image is shown to the network. Sizes are (height, width)."""

    original: tuple[int, int]
    size: tuple[int, int]
    flip: bool = False  # left to right

    def image(self, pixels: npt.NDArray[np.uint8]) -> Tensor:
        """Resize [height, width, 3], bilinearly: uint8 [3, *size].

        With antialiasing, as Pillow resizes: torchvision's models, which have none, see smaller images differently.
        """
        tensor = torch.from_numpy(pixels).permute(2, 0, 1)[None]
        if self.flip:
            tensor = tensor.flip(-1)
        return torch.nn.functional.interpolate(tensor, self.size, mode="bilinear", antialias=True)[0]

    def boxes(self, boxes: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return boxes [N, 4] of the image as they are in the resized one."""
        height, width = self.original
        scales = np.array([self.size[1] / width, self.size[0] / height] * 2)
        if self.flip:
            boxes = np.stack([width - boxes[:, 2], boxes[:, 1], width - boxes[:, 0], boxes[:, 3]], 1)
        scaled: npt.NDArray[np.float32] = (boxes * scales).astype(np.float32)
        return scaled


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
    batch: Batch, place: int, pixels: npt.NDArray[np.uint8], shorter_side: int, longest_side: int, flip: bool = False
) -> Geometry:
    """Put an image, RGB [height, width, 3], into the upper left corner of its canvas, and return how it is shown."""
    original, canvas = (pixels.shape[0], pixels.shape[1]), (batch.images.shape[2], batch.images.shape[3])
    height, width = size = scaled_size(original, shorter_side, longest_side, canvas)
    geometry = Geometry(original, size, flip)
    batch.images[place, :, :height, :width] = geometry.image(pixels)
    batch.sizes[place] = torch.tensor(size)
    return geometry


def batch_of(pixels: npt.NDArray[np.uint8], config: DataConfig) -> Batch:
    """Make the batch of one image, RGB [height, width, 3], as tests see it."""
    canvas = config.canvases[canvas_of((pixels.shape[0], pixels.shape[1]), config.canvases)]
    batch = Batch(torch.zeros(1, 3, *canvas, dtype=torch.uint8), torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64))
    put_image(batch, 0, pixels, config.shorter_sides[-1], config.longest_side)
    return batch
