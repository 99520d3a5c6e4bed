"""Average precision of boxes and masks as COCO defines it, by pycocotools."""

from __future__ import annotations

import io
import math
from contextlib import redirect_stdout
from typing import Any

import torch
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from opsmith_detection.data.checks import read_checked
from opsmith_detection.data.coco import CocoDataset, DataError
from opsmith_detection.data.masks import as_rle
from opsmith_detection.engine.distributed import gather
from opsmith_detection.found import Found, as_results, found_in
from opsmith_detection.structures import Batch, Detections

__all__ = ["Evaluation"]

# pycocotools' names of what is compared, and the entry of a result that each is about.
_PYCOCOTOOLS = {"box": ("bbox", "bbox"), "mask": ("segm", "segmentation")}
# Of COCOeval.stats. Small objects have less than 32 x 32 pixels, large ones more than 96 x 96.
_FIGURES = ("AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl")


class Evaluation:
    """Collects detections of a data set and compares them with its objects.

    Args:
        dataset: what `Batch.ids` are of.
        with_masks: whether masks are compared, too.

    Raises:
        DataError: masks are to be compared, and an object has none.
    """

    def __init__(self, dataset: CocoDataset, *, with_masks: bool = False) -> None:
        if with_masks:
            dataset.check_masks(with_crowds=True)
        self._dataset, self._with_masks = dataset, with_masks
        sizes = ((height, width) for height, width in dataset.sizes.tolist())
        self._sizes = dict(zip(dataset.ids, sizes, strict=True))
        self._found: dict[int, Found] = {}

    def add(self, batch: Batch, detections: Detections) -> None:
        """Take the detections of a batch, on any device. Masks are pasted there, at the size of the original image.

        Images with the id -1, detections with label 0, and labels that no category has do not count.

        Raises:
            DataError: masks are evaluated and there are none, or an image comes twice.
        """
        if not self._with_masks:
            detections = detections._replace(masks=None)
        elif detections.masks is None:
            raise DataError("masks are to be evaluated, but the detections have none: leave out with_masks")
        known = torch.tensor(list(self._dataset.categories), device=detections.labels.device)
        kept = torch.isin(detections.labels, known)
        for place, number in enumerate(batch.ids.tolist()):
            if number >= 0:
                self._take(number, found_in(batch, detections, place, kept[place], self._sizes[number]))

    def gathered(self) -> Evaluation:
        """Return an evaluation with the detections of all processes, on each of them."""
        together = Evaluation(self._dataset, with_masks=self._with_masks)
        for found in gather(self._found):
            for number, of_image in found.items():
                together._take(number, of_image)
        return together

    def result(self) -> dict[str, float]:
        """Return `box/AP`, `box/AP50`, `box/APs`, ..., `mask/AP` and so on, from 0 to 1.

        The names are COCO's: AP is the mean over IoU 0.5, 0.55, ... 0.95, AR100 the recall with 100 detections an image;
        s, m and l are small, medium and large objects. A figure is NaN where there are no objects that it is about.

        Raises:
            DataError: images are missing.
        """
        if len(self._found) < len(self._dataset):
            raise DataError(
                f"{len(self._found)} of {len(self._dataset)} images were evaluated: gather the detections of all ranks"
            )
        figures: dict[str, float] = {}
        # By their ids, whichever process had them.
        categories = self._dataset.categories
        rows = [row for number in sorted(self._found) for row in as_results(number, self._found[number], categories)]
        with redirect_stdout(io.StringIO()):  # pycocotools prints tables
            truth = self._truth()
            for kind in ("box", "mask") if self._with_masks else ("box",):
                name, entry = _PYCOCOTOOLS[kind]
                results = [{key: row[key] for key in ("image_id", "category_id", "score", entry)} for row in rows]
                # loadRes does not take an empty list.
                evaluation = COCOeval(truth, truth.loadRes(results) if results else COCO(), name)
                evaluation.evaluate()
                evaluation.accumulate()
                evaluation.summarize()
                for figure, value in zip(_FIGURES, evaluation.stats.tolist(), strict=True):
                    figures[f"{kind}/{figure}"] = value if value >= 0 else math.nan
        return figures

    def _take(self, number: int, found: Found) -> None:
        if number in self._found:
            raise DataError(f"image {number} was evaluated twice: use a loader with training=False, once")
        self._found[number] = found

    def _truth(self) -> Any:
        """Return the data set's objects with what pycocotools needs of them."""
        truth = COCO()
        entries: Any = read_checked(self._dataset.annotations)
        # pycocotools takes an object whose id is 0 for one that was not found, hence the numbers, and no tuples for boxes.
        for number, row in enumerate(entries["annotations"], start=1):
            area = row["bbox"][2] * row["bbox"][3]
            if row["segmentation"] is not None:
                row["segmentation"] = as_rle(row["segmentation"], self._sizes[row["image_id"]])
                area = float(coco_mask.area(row["segmentation"]))
            row |= {"id": number, "bbox": [*row["bbox"]], "area": area if row["area"] is None else row["area"]}
        truth.dataset = entries
        truth.createIndex()
        return truth
