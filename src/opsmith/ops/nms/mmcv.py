"""nms, batched_nms and soft_nms by the names, arguments and results of `mmcv.ops`, which torchvision's are not."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import torch
from torch import Tensor

from opsmith.errors import ArgumentTypeError, ArgumentValueError, DeviceError, describe
from opsmith.ops._arguments import (
    TensorShapeError,
    UnsupportedValueError,
    as_tensor,
    check_flags,
    check_ints,
    check_numbers,
    check_promotable,
    check_storage,
    check_tensors,
)
from opsmith.ops.nms import hard, soft

__all__ = ["batched_nms", "nms", "soft_nms"]

if TYPE_CHECKING:
    import numpy as np

    Boxes = Tensor | np.ndarray[Any, Any]

# mmcv's.
_SPLIT, _MIN_SCORE = 10_000, 1e-3

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def _takes_iou_thr(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let a function take its `iou_threshold` by mmcv's older name, as mmcv's do."""

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return function(*args, **_renamed(function.__name__, kwargs))

    return call


def _renamed(function: str, given: dict[str, Any]) -> dict[str, Any]:
    if "iou_thr" in given and "iou_threshold" in given:
        raise ArgumentTypeError(f"{function}(): iou_thr is the older name of iou_threshold; found both")
    return {"iou_threshold" if name == "iou_thr" else name: value for name, value in given.items()}


@_takes_iou_thr
def nms(
    boxes: Boxes,
    scores: Boxes,
    iou_threshold: float,
    offset: int = 0,
    score_threshold: float = 0,
    max_num: int = -1,
) -> tuple[Boxes, Boxes]:
    """Return the kept boxes with their scores, [K, 5], and their indices, int64 [K], by decreasing score: `mmcv.ops.nms`.

    `boxes` [N, 4] as (x1, y1, x2, y2) and `scores` [N] are tensors, or arrays for which arrays are returned. `offset`, 0 or
    1, is added to widths and heights. Boxes with a score of `score_threshold` or less are left out where that is above 0,
    and no more than `max_num` are kept where that is above 0.
    """
    check_numbers("nms", iou_threshold=iou_threshold, score_threshold=score_threshold)
    check_ints("nms", max_num=max_num)
    given, ranks = _tensors("nms", boxes, scores, offset)
    candidates = _above("nms", ranks, score_threshold)
    moved, likely = _chosen(candidates, _with_offset(given, offset), ranks)
    kept = hard.nms(moved, likely, iou_threshold)
    if max_num > 0:
        kept = kept[:max_num]
    if candidates is not None:
        kept = candidates[kept]
    return _as_given(boxes, torch.cat([given[kept], ranks[kept, None]], 1), kept)


@_takes_iou_thr
def soft_nms(
    boxes: Boxes,
    scores: Boxes,
    iou_threshold: float = 0.3,
    sigma: float = 0.5,
    min_score: float = _MIN_SCORE,
    method: Literal["naive", "linear", "gaussian"] = "linear",
    offset: int = 0,
) -> tuple[Boxes, Boxes]:
    """Return what `opsmith.ops.nms.soft_nms` does, which is `mmcv.ops.soft_nms`; arrays for arrays."""
    if not isinstance(method, str) or method not in ("naive", "linear", "gaussian"):
        raise UnsupportedValueError(f"soft_nms(): method is {method!r:.60}, expected 'naive', 'linear' or 'gaussian'")
    check_numbers("soft_nms", iou_threshold=iou_threshold, sigma=sigma, min_score=min_score)
    given, ranks = _tensors("soft_nms", boxes, scores, offset)
    return _as_given(boxes, *soft.soft_nms(given, ranks, iou_threshold, sigma, min_score, method, offset))


def batched_nms(
    boxes: Tensor, scores: Tensor, idxs: Tensor, nms_cfg: dict[str, Any] | None, class_agnostic: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the kept boxes with their scores, [K, 5], and their indices, int64 [K]: `mmcv.ops.batched_nms`.

    `nms_cfg` says what to do by "type", "nms" or "soft_nms", and has the other arguments of that function here,
    "class_agnostic" and "max_num"; None sorts by score alone. Boxes of different `idxs` [N] do not meet unless
    `class_agnostic`; they are compared, not moved apart. From "split_thr" boxes on (10,000) mmcv takes class by class to
    spare memory. That changes one thing, here too: soft_nms returns the best box of each class then, whatever its score.
    """
    check_tensors("batched_nms", boxes=boxes, scores=scores, idxs=idxs)
    _check_shapes("batched_nms", boxes, scores)
    if idxs.shape != scores.shape:
        raise TensorShapeError(
            f"batched_nms(): idxs are {list(idxs.shape)}, expected one for each of {len(scores)} boxes"
        )
    check_storage("batched_nms", boxes=boxes, scores=scores, idxs=idxs)
    check_promotable("batched_nms", idxs=idxs, scores=scores)
    check_promotable("batched_nms", boxes=boxes, scores=scores)
    if nms_cfg is None:
        ranks, order = scores.sort(descending=True)
        return torch.cat([boxes[order], ranks[:, None]], 1), order
    if not isinstance(nms_cfg, dict):
        raise ArgumentTypeError(f"batched_nms(): nms_cfg is {describe(nms_cfg)}, expected a dict or None")
    config = _renamed("batched_nms", nms_cfg)
    split = config.pop("split_thr", _SPLIT)
    check_ints("batched_nms", split_thr=split)
    kind = config.pop("type", "nms")
    most = config.pop("max_num", -1)
    class_agnostic = config.pop("class_agnostic", class_agnostic)
    check_flags("batched_nms", class_agnostic=class_agnostic)
    check_ints("batched_nms", max_num=most)
    if class_agnostic:
        idxs = torch.zeros_like(idxs)
    _check_config(kind, config)
    if kind == "nms":
        lowered, kept = _nms_by_class(boxes, scores, idxs, **config)
    else:
        lowered, kept = _soft_nms_by_class(boxes, scores, idxs, **config)
        if len(boxes) < split:
            # In one call the best box of all alone is not held against it.
            stays = ~(lowered < config.get("min_score", _MIN_SCORE))
            stays[:1] = True
            lowered, kept = lowered[stays], kept[stays]
    if most > 0:
        lowered, kept = lowered[:most], kept[:most]
    return torch.cat([boxes[kept], lowered[:, None]], 1), kept


# What else nms_cfg may have, by its type.
_CONFIG = {
    "nms": ("iou_threshold", "offset", "score_threshold"),
    "soft_nms": ("iou_threshold", "sigma", "min_score", "method", "offset"),
}


def _check_config(kind: Any, config: dict[str, Any]) -> None:
    if not isinstance(kind, str) or kind not in _CONFIG:
        raise ArgumentValueError(f"batched_nms(): nms_cfg has type {kind!r:.60}, expected 'nms' or 'soft_nms'")
    if unknown := [name for name in config if name not in _CONFIG[kind]]:
        raise ArgumentTypeError(f"batched_nms(): nms_cfg has {unknown}, but {kind} takes {', '.join(_CONFIG[kind])}")
    if kind == "nms" and "iou_threshold" not in config:
        raise ArgumentTypeError("batched_nms(): nms_cfg has no iou_threshold")


def _nms_by_class(
    boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float, offset: int = 0, score_threshold: float = 0
) -> tuple[Tensor, Tensor]:
    """Return the scores and indices of what is kept."""
    candidates = _above("batched_nms", scores, score_threshold)
    moved, likely, classes = _chosen(candidates, _with_offset(boxes, offset), scores, idxs)
    kept = hard.batched_nms(moved, likely, classes, iou_threshold)
    if candidates is not None:
        kept = candidates[kept]
    return scores[kept], kept


def _soft_nms_by_class(boxes: Tensor, scores: Tensor, idxs: Tensor, **config: Any) -> tuple[Tensor, Tensor]:
    """Return the lowered scores and the indices of what is left, class after class and then by decreasing score."""
    _refuse_meta("batched_nms", "idxs", idxs, "how many classes there are")
    lowered, kept = [scores[:0]], [torch.empty(0, dtype=torch.int64, device=scores.device)]
    for value in idxs.unique():
        members = (idxs == value).nonzero()[:, 0]
        dets, own = soft.soft_nms(boxes[members], scores[members], **config)
        lowered.append(dets[:, 4])
        kept.append(members[own])
    ranks, order = torch.cat(lowered).sort(descending=True, stable=True)
    return ranks, torch.cat(kept)[order]


def _tensors(function: str, boxes: Boxes, scores: Boxes, offset: int) -> tuple[Tensor, Tensor]:
    given, ranks = as_tensor(function, "boxes", boxes), as_tensor(function, "scores", scores)
    _check_shapes(function, given, ranks)
    check_storage(function, boxes=given, scores=ranks)
    check_promotable(function, boxes=given, scores=ranks)
    check_ints(function, offset=offset)
    if offset not in (0, 1):
        raise UnsupportedValueError(f"{function}(): offset is {offset}, expected 0 or 1")
    return given, ranks


def _check_shapes(function: str, boxes: Tensor, scores: Tensor) -> None:
    if boxes.dim() != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
        raise TensorShapeError(
            f"{function}(): boxes are {list(boxes.shape)} and scores {list(scores.shape)}, expected [N, 4] and [N]"
        )


def _refuse_meta(function: str, name: str, tensor: Tensor, unknown: str) -> None:
    if tensor.is_meta:
        raise DeviceError(f"{function}(): {name} is on the meta device and holds no numbers, which decide {unknown}")


def _above(function: str, scores: Tensor, threshold: float) -> Tensor | None:
    """Return the indices of the scores above a threshold, or None where that is 0 and leaves none out."""
    if threshold <= 0:
        return None
    _refuse_meta(function, "scores", scores, "how many are above score_threshold")
    return (scores > float(threshold)).nonzero()[:, 0]  # a comparison takes no int of more than 64 bits


def _with_offset(boxes: Tensor, offset: int) -> Tensor:
    return torch.cat([boxes[:, :2], boxes[:, 2:] + offset], 1) if offset else boxes


def _chosen(rows: Tensor | None, *tensors: Tensor) -> tuple[Tensor, ...]:
    return tensors if rows is None else tuple(tensor[rows] for tensor in tensors)


def _as_given(boxes: Boxes, dets: Tensor, inds: Tensor) -> tuple[Boxes, Boxes]:
    return (dets, inds) if isinstance(boxes, Tensor) else (dets.detach().numpy(), inds.numpy())
