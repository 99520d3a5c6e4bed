"""The pictures of nms, roi_align and roi_pool."""

from __future__ import annotations

import torch

from generators.pictures.drawing import Drawing, Point
from opsmith.ops.nms.hard import hard_nms
from opsmith.ops.roi_align.sized import Sampling, roi_align_sized
from opsmith.ops.roi_pool.sized import PoolSizes, roi_pool_sized

__all__ = ["BINS", "BOX", "POINTS", "draw_nms", "draw_roi_align", "features", "sampling_points"]

# A box of roi_align in pixels, its bins along an axis, and the sampling points of a bin along an axis.
BOX = (1.3, 1.2, 8.2, 6.6)
BINS, POINTS = 3, 2
_HEIGHT, _WIDTH = 8, 10

_DETECTIONS = (
    # x1, y1, x2, y2, score
    (22.0, 30.0, 112.0, 150.0, 0.92),
    (34.0, 40.0, 122.0, 168.0, 0.85),
    (14.0, 22.0, 98.0, 132.0, 0.61),
    (150.0, 70.0, 232.0, 176.0, 0.88),
    (158.0, 60.0, 240.0, 157.0, 0.74),
    (142.0, 96.0, 198.0, 195.0, 0.67),
    (66.0, 124.0, 138.0, 196.0, 0.55),
)


def draw_nms() -> Drawing:
    """Boxes and their scores, before and after."""
    numbers = torch.tensor(_DETECTIONS, dtype=torch.float64)
    kept = hard_nms.reference(numbers[:, :4], numbers[:, 4], 0.5).tolist()
    drawing = Drawing(
        f"Of {len(_DETECTIONS)} boxes {len(kept)} are kept; each other one overlaps a better one of these by more than half",
        250,
        (292, 22, 250, 190),
    )
    for left, title in ((6, "boxes, scores"), (292, "nms(boxes, scores, 0.5)")):
        drawing.label((left + 128, 20), title, "strong middle")
        drawing.box((left, 30), (256, 182), "faint")
    for index, (x1, y1, x2, y2, score) in enumerate(_DETECTIONS):
        for left in (6, 292):
            corner = (left + x1, 16 + y1)
            after = left != 6
            kind = ("a" if index in kept else "line dashed") if after else "line"
            drawing.box(corner, (x2 - x1, y2 - y1), kind)
            if not after or index in kept:
                drawing.label(
                    (corner[0] + 5, corner[1] + y2 - y1 - 6), f"{score:.2f}", f"small {'a-text' if after else ''} start"
                )
    order = ", ".join(map(str, kept))
    drawing.label(
        (280, 238), f"keep = [{order}], by decreasing score; dashed: suppressed by a kept box", "small muted middle"
    )
    return drawing


def features() -> torch.Tensor:
    """Return an image with a bright spot, [1, 1, height, width]."""
    y, x = torch.meshgrid(
        torch.arange(_HEIGHT, dtype=torch.float64), torch.arange(_WIDTH, dtype=torch.float64), indexing="ij"
    )
    spots = torch.exp(-((x - 3.2) ** 2 + (y - 2.4) ** 2) / 5) + 0.8 * torch.exp(-((x - 7) ** 2 + (y - 5) ** 2) / 3)
    return (0.05 + 0.8 * spots).clamp(max=1)[None, None]


def sampling_points() -> list[Point]:
    """Return the points of the box in pixels, bin by bin; pixel 0 has its middle at 0, as `aligned=True` counts."""
    x1, y1, x2, y2 = (edge - 0.5 for edge in BOX)
    across, along = (x2 - x1) / (BINS * POINTS), (y2 - y1) / (BINS * POINTS)
    return [
        (x1 + across * (POINTS * column + i + 0.5), y1 + along * (POINTS * row + j + 0.5))
        for row in range(BINS)
        for column in range(BINS)
        for j in range(POINTS)
        for i in range(POINTS)
    ]


def draw_roi_align() -> Drawing:
    """The points of roi_align and the pixels of roi_pool, for one box in one image."""
    image = features()
    boxes = torch.tensor([[0.0, *BOX]])
    aligned = roi_align_sized.reference(image, boxes, Sampling(1, _HEIGHT, _WIDTH, BINS, BINS, 1.0, POINTS, True))[0, 0]
    pooled, pixels = (
        result[0, 0]
        for result in roi_pool_sized.reference(image, boxes, PoolSizes(1, _HEIGHT, _WIDTH, BINS, BINS, 1.0), True)
    )
    size = 26.0
    drawing = Drawing(
        "A box over pixels: roi_align averages four points in each of nine bins, roi_pool takes the largest pixel of each",
        392,
        (6, 36, 260, 208),
    )
    x1, y1, x2, y2 = BOX
    for left, name in ((6, "roi_align"), (294, "roi_pool")):
        drawing.label((left + 130, 24), name, "strong middle")
        drawing.pixels((left, 36), image[0, 0].tolist(), size)
        drawing.arrow((left + 130, 252), (left + 130, 280))
    corner, step = (6 + x1 * size, 36 + y1 * size), ((x2 - x1) * size / BINS, (y2 - y1) * size / BINS)
    for row in range(BINS):
        for column in range(BINS):
            drawing.box((corner[0] + column * step[0], corner[1] + row * step[1]), step, "b thin")
    drawing.box(corner, (step[0] * BINS, step[1] * BINS), "b")
    for x, y in sampling_points():
        drawing.dot((6 + (x + 0.5) * size, 36 + (y + 0.5) * size), "b-fill", 3.5)
    # Edges are rounded to pixels, and both belong to the box.
    left, top = round(x1), round(y1)
    right, bottom = round(x2) + 1, round(y2) + 1
    drawing.box((294 + x1 * size, 36 + y1 * size), ((x2 - x1) * size, (y2 - y1) * size), "line dashed")
    drawing.box((294 + left * size, 36 + top * size), ((right - left) * size, (bottom - top) * size), "b")
    for part in range(1, BINS):
        x, y = (294 + (left + (right - left) * part / BINS) * size, 36 + (top + (bottom - top) * part / BINS) * size)
        drawing.line((x, 36 + top * size), (x, 36 + bottom * size), "b thin dashed")
        drawing.line((294 + left * size, y), (294 + right * size, y), "b thin dashed")
    for pixel in pixels.flatten().tolist():
        y, x = divmod(pixel, _WIDTH)
        drawing.box((294 + x * size + 3, 36 + y * size + 3), (size - 6, size - 6), "b")
    for left, result in ((6, aligned), (294, pooled)):
        place = (left + 130 - 1.5 * 40, 284)
        for row, line in enumerate(result.tolist()):
            for column, value in enumerate(line):
                at = (place[0] + 40 * column, place[1] + 28 * row)
                drawing.box(at, (40, 28), "a-fill", 0.6 * value)
                drawing.box(at, (40, 28), "line")
                drawing.label((at[0] + 20, at[1] + 19), f"{value:.2f}", "small middle")
    drawing.label((136, 386), "a bin is the mean of its points", "small muted middle")
    drawing.label((424, 386), "a bin is its largest pixel", "small muted middle")
    return drawing
