"""State dicts of torchvision's models in these ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from opsmith_detection.errors import DetectionError
from opsmith_detection.models.norms import FrozenNorm

__all__ = ["WeightsError", "load_backbone", "load_torchvision", "our_name", "read_tensors", "read_weights"]

# torchvision's names and ours: those of its models now, and those in files that were made before 0.13.
_RESNET: tuple[tuple[str, str], ...] = (
    (r"\bbn(\d)\.", r"conv\1.norm."),
    (r"\bconv(\d)\.weight", r"conv\1.conv.weight"),
    (r"\bdownsample\.0\.", "downsample.conv."),
    (r"\bdownsample\.1\.", "downsample.norm."),
)
_DETECTOR: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"^backbone\.fpn\.inner_blocks\.", "pyramid.inner."),
    (r"^backbone\.fpn\.layer_blocks\.", "pyramid.outer."),
    (r"^backbone\.fpn\.extra_blocks\.(p\d)\.", r"pyramid.\1.conv."),
    (r"^rpn\.head\.conv\.(?=weight|bias)", "rpn.convs.0.0."),
    (r"^rpn\.head\.conv\.", "rpn.convs."),
    (r"^rpn\.head\.cls_logits\.", "rpn.objectness.conv."),
    (r"^rpn\.head\.bbox_pred\.", "rpn.deltas.conv."),
    (r"^roi_heads\.box_head\.fc6\.", "box_head.linears.0."),
    (r"^roi_heads\.box_head\.fc7\.", "box_head.linears.1."),
    (r"^roi_heads\.box_head\.\d\.(?=weight|bias)", "box_head.linears.0."),  # behind the convolutions and Flatten
    (r"^roi_heads\.box_head\.(\d)\.", r"box_head.convs.\1."),
    (r"^roi_heads\.box_predictor\.cls_score\.", "box_head.classes."),
    (r"^roi_heads\.box_predictor\.bbox_pred\.", "box_head.deltas."),
    (r"^roi_heads\.mask_head\.mask_fcn(\d)\.", lambda match: f"mask_head.convs.{int(match[1]) - 1}.0."),
    (r"^roi_heads\.mask_head\.", "mask_head.convs."),
    (r"^roi_heads\.mask_predictor\.conv5_mask\.", "mask_head.upsample."),
    (r"^roi_heads\.mask_predictor\.mask_fcn_logits\.", "mask_head.classes."),
    (r"^head\.classification_head\.cls_logits\.", "class_head.last.conv."),
    (r"^head\.regression_head\.bbox_reg\.", "box_head.last.conv."),
    (r"^head\.classification_head\.", "class_head."),
    (r"^head\.regression_head\.", "box_head."),
    (r"(?<=_head\.)conv\.(\d)\.(?=weight|bias)", lambda match: f"convs.{int(match[1]) // 2}.0."),  # ReLUs between them
    (r"(?<=_head\.)conv\.", "convs."),
    (r"((?:inner|outer|convs)\.\d)\.(?:0\.)?(?=weight|bias)", r"\1.conv."),
    (r"((?:inner|outer|convs)\.\d)\.1\.", r"\1.norm."),
)


class WeightsError(DetectionError, ValueError):
    """Weights that cannot be read, or do not fit a model."""


def read_tensors(path: Path) -> Any:
    """Read tensors, numbers, strings and containers of them that `torch.save` wrote, to the CPU.

    Raises:
        WeightsError: the file cannot be read, or is of something else.
    """
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror}") from None
    except Exception as error:  # of zip files, pickles and types that are not allowed; an empty file has no message
        said = str(error).partition("\n")[0] or type(error).__name__
        raise WeightsError(f"{path} does not have what `torch.save` writes: {said}") from None


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a state dict.

    Raises:
        WeightsError: it cannot be read, or is something else.
    """
    content = read_tensors(path)
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise WeightsError(
            f"{path} is not a state dict of tensors, as `torch.save(model.state_dict(), path)` writes it"
        )
    return content


def load_torchvision(model: nn.Module, state_dict: Mapping[str, Tensor], *, eps: float = 1e-5) -> None:
    """Load what a detector of torchvision returned as its state dict.

    Those of `maskrcnn_resnet50_fpn`, `fasterrcnn_resnet50_fpn`, `retinanet_resnet50_fpn` and their `_v2` fit the
    configurations of the same names. Deformable convolutions begin as ordinary ones.

    Args:
        eps: what frozen batch norm adds to variances. torchvision sets it to 0 for its own weights `COCO_V1` of the
            models without `_v2`, which the state dict does not tell.

    Raises:
        WeightsError: for names or shapes that do not fit.
    """
    _load(model, {our_name(name): value for name, value in state_dict.items()}, eps)


def load_backbone(model: nn.Module, state_dict: Mapping[str, Tensor], *, eps: float = 1e-5) -> None:
    """Load the state dict of a ResNet, as torchvision names it, into a model's backbone. Its classifier is left out.

    Raises:
        WeightsError: for names or shapes that do not fit.
    """
    names = {name: _rename(name, _RESNET) for name in state_dict if not name.startswith("fc.")}
    _load(model.get_submodule("backbone"), {ours: state_dict[name] for name, ours in names.items()}, eps)


def our_name(name: str) -> str:
    """Return what a parameter or a buffer of torchvision's detectors is called here."""
    body = name.removeprefix("backbone.body.")
    return _rename(name, _DETECTOR) if body == name else f"backbone.{_rename(body, _RESNET)}"


def _load(model: nn.Module, state_dict: Mapping[str, Tensor], eps: float) -> None:
    for module in model.modules():
        if isinstance(module, FrozenNorm):
            module.eps = eps
    try:
        missing, unexpected = model.load_state_dict(state_dict, strict=False)
    except RuntimeError as error:
        raise WeightsError(f"the weights do not fit the model: {error}") from None
    missing = [name for name in missing if not name.endswith("num_batches_tracked") and ".offsets." not in name]
    if missing or unexpected:
        raise WeightsError(
            f"the weights are of another model: {_some(missing)} missing, {_some(unexpected)} too many. "
            "The configuration says what the model has"
        )


def _rename(name: str, rules: Sequence[tuple[str, str | Callable[[re.Match[str]], str]]]) -> str:
    for pattern, replacement in rules:
        name = re.sub(pattern, replacement, name)
    return name


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{len(names)} ({shown}{', ...' if len(names) > 3 else ''})" if names else "none"
