"""Checkpoints: written whole or not at all, and the same for any number of processes.

A checkpoint holds names and full tensors, whichever way the parameters are sharded. It is read with `weights_only=True`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from opsmith_detection.engine.optimizer import Average
from opsmith_detection.errors import DetectionError
from opsmith_detection.models.weights import read_tensors

__all__ = [
    "CheckpointError",
    "list_checkpoints",
    "load_checkpoint",
    "load_weights",
    "restore",
    "save_checkpoint",
    "snapshot",
]

_FORMAT = 1  # of the dictionary in the file


class CheckpointError(DetectionError, ValueError):
    """A checkpoint that is missing, or of another model or training."""


def snapshot(model: nn.Module, optimizer: torch.optim.Optimizer, average: Average | None) -> dict[str, Any]:
    """Copy weights, averaged weights and what the optimizer keeps to the CPU. All ranks take part."""
    return {
        "model": _full(model.state_dict()),
        "average": None if average is None else _full(average.tensors),
        "optimizer": {name: _full(optimizer.state[p]) for name, p in model.named_parameters() if p in optimizer.state},
    }


def restore(
    checkpoint: Mapping[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer, average: Average | None
) -> None:
    """Put a snapshot back, sharded as the parameters are now.

    Raises:
        CheckpointError: names or shapes differ from the model's, or others are trained, or by another optimizer.
    """
    is_adam = any("exp_avg" in state for state in checkpoint["optimizer"].values())
    if checkpoint["optimizer"] and is_adam != isinstance(optimizer, torch.optim.AdamW):
        raise CheckpointError(
            f"the checkpoint is of a training with {'adamw' if is_adam else 'sgd'}: resume with this solver.optimizer, or "
            "start another run with output=FOLDER"
        )
    parameters = dict(model.named_parameters())
    trained = {name for name, parameter in parameters.items() if parameter.requires_grad}
    if checkpoint["optimizer"] and (others := trained ^ checkpoint["optimizer"].keys()):
        name = min(others)
        said = "trained here" if name in trained else "not trained here"
        raise CheckpointError(
            f"the checkpoint is of a training of other parameters: {name} is {said}. "
            "Resume with the model.backbone.trainable_stages that the run started with"
        )
    _copy(checkpoint["model"], model.state_dict(), "the model")
    if average is not None:
        of_model = {name: tensor for name, tensor in checkpoint["model"].items() if name in average.tensors}
        _copy(checkpoint["average"] or of_model, average.tensors, "the averaged weights")
    for name, state in checkpoint["optimizer"].items():
        like = parameters[name]
        optimizer.state[like] = {key: _placed(value, like) for key, value in state.items()}


def load_weights(checkpoint: Mapping[str, Any], model: nn.Module) -> None:
    """Give a model a checkpoint's averaged weights, or its weights if it has none.

    Raises:
        CheckpointError: names or shapes differ from the model's.
    """
    _copy({**checkpoint["model"], **(checkpoint["average"] or {})}, model.state_dict(), "the model")


def save_checkpoint(folder: Path, step: int, content: Mapping[str, Any], keep: int) -> None:
    """Write a checkpoint and remove all but the last `keep`. A process that dies meanwhile leaves the former ones.

    Args:
        folder: is made if need be.
        step: the number of steps done, which names the file.
        content: `snapshot` and what else a run needs: tensors, numbers, strings, and containers of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"checkpoint-{step:08d}.pt"
    being_written = folder / ".checkpoint.pt"  # or what a process left that died meanwhile
    with being_written.open("wb") as file:
        torch.save({"format": _FORMAT, "step": step, **content}, file)
        file.flush()
        os.fsync(file.fileno())
    being_written.replace(path)
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)  # the new name is on the disk before older files go
    os.close(handle)
    for old in list_checkpoints(folder)[:-keep]:
        old.unlink(missing_ok=True)


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the complete checkpoints of a folder, the newest one last."""
    return sorted(folder.glob("checkpoint-*.pt"))


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint, or the newest one of a folder, to the CPU.

    Raises:
        CheckpointError: there is none, or the file is of something else.
        WeightsError: the file cannot be read.
    """
    if path.is_dir():
        checkpoints = list_checkpoints(path)
        if not checkpoints:
            raise CheckpointError(f"{path} has no checkpoint: train first, or name another folder or file")
        path = checkpoints[-1]
    content = read_tensors(path)
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint of this program (format {_FORMAT})")
    return content


def _full(tensors: Mapping[str, Any]) -> dict[str, Any]:
    def whole(value: Any) -> Any:
        if isinstance(value, DTensor):
            value = value.full_tensor()
        return value.detach().cpu().clone() if isinstance(value, Tensor) else value

    return {name: whole(value) for name, value in tensors.items()}


@torch.no_grad()
def _copy(saved: Mapping[str, Tensor], into: Mapping[str, Tensor], what: str) -> None:
    found, wanted = ({name: list(t.shape) for name, t in tensors.items()} for tensors in (saved, into))
    for name in sorted(found.keys() | wanted.keys()):
        if found.get(name) != wanted.get(name):
            raise CheckpointError(
                f"the checkpoint does not fit {what}: {name} is {found.get(name, 'missing')} in it, "
                f"{wanted.get(name, 'missing')} here. Resume with the configuration that the run started with"
            )
    for name, tensor in into.items():
        tensor.copy_(_placed(saved[name], tensor))


def _placed(value: Any, like: Tensor) -> Any:
    if not isinstance(value, Tensor):
        return value
    value = value.to(like.device)
    if isinstance(like, DTensor) and value.shape == like.shape:
        return distribute_tensor(value, like.device_mesh, like.placements)
    return value.clone(memory_format=torch.preserve_format)
