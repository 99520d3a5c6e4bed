"""What passes between loader, model and evaluation: tensors of fixed sizes, where padding takes the place of absence.

Boxes are float32, (x1, y1, x2, y2) in pixels of the network's input. B is the number of images, G the most objects of an
image (`data.max_objects`), D the most detections. Labels count from 1; label 0 marks padding, whose other values are zeros.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

__all__ = ["Batch", "Detections", "Targets"]


class Targets(NamedTuple):
    """The objects of a batch. Crowds are not among them: they count as background, as in torchvision."""

    boxes: Tensor  # float32 [B, G, 4]
    labels: Tensor  # int64 [B, G]
    masks: Tensor | None = None  # uint8 [B, G, R, R], 0 to 255: cut out at the box, resized (data.mask_resolution)


class Batch(NamedTuple):
    """Images of a batch, each in the upper left corner of a canvas, and their objects if they are known."""

    images: Tensor  # uint8 [B, 3, H, W], RGB; zeros around the image
    sizes: Tensor  # float32 [B, 2], height and width of each image within its canvas
    ids: Tensor  # int64 [B], the data set's own numbers
    targets: Targets | None = None


class Detections(NamedTuple):
    """What a model found, by decreasing score."""

    boxes: Tensor  # float32 [B, D, 4], within the image
    scores: Tensor  # float32 [B, D]
    labels: Tensor  # int64 [B, D]
    masks: Tensor | None = None  # float32 [B, D, M, M], probabilities on a grid over each box
