"""Average precision of boxes and masks as COCO defines it, by pycocotools."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from torch import Tensor

from opsmith.ops import paste_binary_masks_in_image
from opsmith_detection.data.coco import CocoDataset, DataError
from opsmith_detection.data.masks import as_rle, encoded
from opsmith_detection.structures import Batch, Detections

__all__ = ["Evaluation"]

IouType = Literal["box", "mask"]

_PYCOCOTOOLS = {"box": "bbox", "mask": "segm"}
# Of COCOeval.stats. Small objects have less than 32 x 32 pixels, large ones more than 96 x 96.
_FIGURES = ("AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl")
_PASTED_AT_ONCE = 2**26  # pixels of masks, a byte each


class _Found(NamedTuple):
    """Detections of an image in its own pixels, by decreasing score."""

    labels: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32]
    boxes: npt.NDArray[np.float32]  # [N, 4] as (x1, y1, x2, y2)
    masks: list[dict[str, Any]] | None  # RLE


class Evaluation:
    """Collects detections of a data set and compares them with its objects.

    Args:
        dataset: what `Batch.ids` are of.
        iou_types: whether boxes, masks or both are compared.
    """

    def __init__(self, dataset: CocoDataset, iou_types: Sequence[IouType] = ("box",)) -> None:
        self._dataset, self._iou_types = dataset, tuple(iou_types)
        sizes = dataset.sizes.tolist()
        self._sizes = {number: (height, width) for number, (height, width) in zip(dataset.ids, sizes, strict=True)}
        self._found: dict[int, _Found] = {}

    def add(self, batch: Batch, detections: Detections) -> None:
        """Take the detections of a batch, on any device. Masks are pasted there, at the size of the original image.

        Images with the id -1, detections with label 0, and labels that no category has do not count.

        Raises:
            DataError: masks are evaluated and there are none, or an image comes twice.
        """
        if "mask" in self._iou_types and detections.masks is None:
            raise DataError("masks are to be evaluated, but the detections have none: leave out the IoU type 'mask'")
        sizes, known = (
            batch.sizes.tolist(),
            torch.tensor(list(self._dataset.categories), device=detections.labels.device),
        )
        for place, number in enumerate(batch.ids.tolist()):
            if number >= 0:
                kept = torch.isin(detections.labels[place], known).nonzero()[:, 0]
                of_image = Detections(
                    detections.boxes[place, kept],
                    detections.scores[place, kept],
                    detections.labels[place, kept],
                    None if detections.masks is None else detections.masks[place, kept],
                )
                self._take(number, self._in_original(of_image, sizes[place], self._sizes[number]))

    def gathered(self, group: dist.ProcessGroup | None = None) -> Evaluation:
        """Return an evaluation with the detections of all ranks of a group, on each of them."""
        everyone: list[dict[int, _Found]] = [{}] * dist.get_world_size(group)
        dist.all_gather_object(everyone, self._found, group=group)
        together = Evaluation(self._dataset, self._iou_types)
        for found in everyone:
            for number, of_image in found.items():
                together._take(number, of_image)
        return together

    def result(self, *, partial: bool = False) -> dict[str, float]:
        """Return `box/AP`, `box/AP50`, `box/APs`, ..., `mask/AP` and so on, from 0 to 1.

        The names are COCO's: AP is the mean over IoU 0.5, 0.55, ... 0.95, AR100 the recall with 100 detections an image;
        s, m and l are small, medium and large objects. A figure is NaN where there are no objects that it is about.

        Args:
            partial: measure the images that were added, where they are not all.

        Raises:
            DataError: images are missing, or an object has no mask to compare with.
        """
        if len(self._found) < (1 if partial else len(self._dataset)):
            raise DataError(
                f"{len(self._found)} of {len(self._dataset)} images were evaluated: gather the ranks' detections, or pass "
                "partial=True"
            )
        figures: dict[str, float] = {}
        with redirect_stdout(io.StringIO()):  # pycocotools prints tables
            truth = self._truth()
            for iou_type in self._iou_types:
                evaluation = COCOeval(truth, _indexed(truth.dataset, self._rows(iou_type)), _PYCOCOTOOLS[iou_type])
                evaluation.params.imgIds = sorted(self._found)
                evaluation.evaluate()
                evaluation.accumulate()
                evaluation.summarize()
                for name, value in zip(_FIGURES, evaluation.stats.tolist(), strict=True):
                    figures[f"{iou_type}/{name}"] = value if value >= 0 else math.nan
        return figures

    def _take(self, number: int, found: _Found) -> None:
        if number in self._found:
            raise DataError(f"image {number} was evaluated twice: use a loader with training=False, once")
        self._found[number] = found

    def _in_original(self, found: Detections, size: list[float], original: tuple[int, int]) -> _Found:
        height, width = original
        boxes = found.boxes.float() * found.boxes.new_tensor(
            [width / size[1], height / size[0]] * 2, dtype=torch.float32
        )
        masks = None
        if "mask" in self._iou_types and found.masks is not None:
            masks = list(_pasted(found.masks[:, None], boxes, (height, width)))
        return _Found(found.labels.cpu().numpy(), found.scores.float().cpu().numpy(), boxes.cpu().numpy(), masks)

    def _truth(self) -> Any:
        """Return the data set's objects with what pycocotools needs of them."""
        dataset = COCO(str(self._dataset.annotations)).dataset
        sizes, rows = self._sizes, []
        # pycocotools takes an object whose id is 0 for one that was not found, hence the numbers.
        for row_number, given in enumerate(dataset["annotations"], start=1):
            row = {"iscrowd": 0, **given, "id": row_number}
            segmentation = row.get("segmentation")
            if segmentation is not None:
                row["segmentation"] = as_rle(segmentation, sizes[row["image_id"]])
            elif "mask" in self._iou_types:
                raise DataError(f"{self._dataset.annotations}: annotation {given.get('id')} has no `segmentation`")
            if "area" not in row:
                box = row["bbox"]
                row["area"] = box[2] * box[3] if segmentation is None else float(coco_mask.area(row["segmentation"]))
            rows.append(row)
        return _indexed(dataset, rows)

    def _rows(self, iou_type: IouType) -> Iterable[dict[str, Any]]:
        number = 0
        for image, found in sorted(self._found.items()):
            for i, (x1, y1, x2, y2) in enumerate(found.boxes.tolist()):
                number += 1
                row = {
                    "id": number,
                    "image_id": image,
                    "category_id": self._dataset.categories[int(found.labels[i])].id,
                    "score": float(found.scores[i]),
                    "bbox": [x1, y1, x2 - x1, y2 - y1],
                    "area": (x2 - x1) * (y2 - y1),
                    "iscrowd": 0,
                }
                if iou_type == "mask" and found.masks is not None:
                    row |= {"segmentation": found.masks[i], "area": float(coco_mask.area(found.masks[i]))}
                yield row


def _pasted(masks: Tensor, boxes: Tensor, size: tuple[int, int]) -> Iterable[dict[str, Any]]:
    at_once = max(_PASTED_AT_ONCE // (size[0] * size[1]), 1)
    for start in range(0, len(masks), at_once):
        part = slice(start, start + at_once)
        yield from encoded(paste_binary_masks_in_image(masks[part], boxes[part], size)[:, 0])


def _indexed(dataset: dict[str, Any], rows: Iterable[dict[str, Any]]) -> Any:
    """Return pycocotools' data set of other annotations. Its loadRes does not take an empty list."""
    indexed = COCO()
    indexed.dataset = {"images": dataset["images"], "categories": dataset["categories"], "annotations": list(rows)}
    indexed.createIndex()
    return indexed
