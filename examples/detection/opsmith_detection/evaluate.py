"""Average precision as COCO defines it, by pycocotools."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any, Literal

import torch
import torch.distributed as dist
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from opsmith.ops import paste_binary_masks_in_image
from opsmith_detection.data.coco import CocoDataset
from opsmith_detection.structures import Batch, Detections

__all__ = ["Evaluation"]

_NAMES = ("AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl")
_TYPES = {"box": "bbox", "mask": "segm"}


class Evaluation:
    """Collects detections and measures them."""

    def __init__(self, dataset: CocoDataset, iou_types: Sequence[Literal["box", "mask"]] = ("box",)) -> None:
        self._dataset, self._types = dataset, tuple(iou_types)
        self._found: dict[int, list[dict[str, Any]]] = {}
        self._sizes = {id: (int(h), int(w)) for id, (h, w) in zip(dataset.ids, dataset.sizes, strict=True)}

    def add(self, batch: Batch, detections: Detections) -> None:
        """Take the detections of a batch, which may be on any device."""
        for i, id in enumerate(batch.ids.tolist()):
            if id < 0:
                continue
            height, width = self._sizes[id]
            inside = batch.sizes[i].to(detections.boxes.device)
            scale = torch.tensor([height, width], device=inside.device) / inside
            kept = detections.labels[i] > 0
            boxes = detections.boxes[i][kept] * scale[[1, 0, 1, 0]]
            rles: list[Any] = [None] * len(boxes)
            if detections.masks is not None and len(boxes):
                pasted = paste_binary_masks_in_image(detections.masks[i][kept][:, None], boxes, (height, width))
                rles = coco_mask.encode(pasted[:, 0].transpose(1, 2).contiguous().byte().cpu().numpy().T)
            self._found[id] = [
                {"label": label, "score": score, "box": box, "rle": rle}
                for label, score, box, rle in zip(
                    detections.labels[i][kept].tolist(),
                    detections.scores[i][kept].tolist(),
                    boxes.tolist(),
                    rles,
                    strict=True,
                )
            ]

    def gathered(self, group: dist.ProcessGroup | None = None) -> Evaluation:
        """Return the evaluation with the detections of all ranks."""
        everyone: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(everyone, self._found, group=group)
        merged = Evaluation(self._dataset, self._types)
        for found in everyone:
            merged._found.update(found)
        return merged

    def result(self) -> dict[str, float]:
        """Return `box/AP`, `box/AP50`, `mask/AP` and so on, from 0 to 1."""
        results = {}
        with redirect_stdout(io.StringIO()):
            truth = COCO(str(self._dataset.annotations))
            for kind in self._types:
                found = COCO()
                found.dataset = {**truth.dataset, "annotations": self._annotations(kind)}
                found.createIndex()
                evaluation = COCOeval(truth, found, _TYPES[kind])
                evaluation.params.imgIds = sorted(self._found)
                evaluation.evaluate()
                evaluation.accumulate()
                evaluation.summarize()
                results.update({f"{kind}/{name}": float(v) for name, v in zip(_NAMES, evaluation.stats, strict=True)})
        return results

    def _annotations(self, kind: str) -> list[dict[str, Any]]:
        annotations: list[dict[str, Any]] = []
        for image, found in sorted(self._found.items()):
            for one in found:
                x1, y1, x2, y2 = one["box"]
                rle = one["rle"]
                annotations.append(
                    {
                        "id": len(annotations) + 1,
                        "image_id": image,
                        "category_id": self._dataset.categories[one["label"]].id,
                        "score": one["score"],
                        "bbox": [x1, y1, x2 - x1, y2 - y1],
                        "area": float(coco_mask.area(rle)) if kind == "mask" else (x2 - x1) * (y2 - y1),
                        "segmentation": rle,
                        "iscrowd": 0,
                    }
                )
        return annotations
