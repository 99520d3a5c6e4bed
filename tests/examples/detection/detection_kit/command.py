"""Runs `python -m opsmith_detection` on a data set and with a model that are as small as they may be."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import opsmith

__all__ = ["ARGV", "CONFIG", "environment", "tiny_overrides"]

EXAMPLE = Path(__file__).parents[4] / "examples" / "detection"
CONFIG = str(EXAMPLE / "configs" / "digits_small.yaml")
ARGV = [sys.executable, "-m", "opsmith_detection"]


def environment() -> dict[str, str]:
    """Return the environment of a process with the packages of this one, on one core of the CPU."""
    paths = [
        str(EXAMPLE),
        str(Path(__file__).parents[1]),
        str(Path(opsmith.__file__).parents[1]),
        *filter(None, sys.path),
    ]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def tiny_overrides(folder: Path) -> list[str]:
    """Return what makes the configuration of digits_small.yaml so small that a step takes a hundredth of a second."""
    return [
        f"data.train={folder}/digits/train.json",
        f"data.test={folder}/digits/test.json",
        "data.canvases=[[64, 64]]",
        "data.shorter_sides=[64]",
        "data.longest_side=64",
        "data.mask_resolution=28",
        "data.batch=2",
        "data.workers=0",
        "model.backbone.width=8",
        "model.backbone.pyramid_channels=16",
        "model.box_head.channels=32",
        "model.mask_head.channels=8",
        "model.rpn.sizes=[[8], [12], [16], [24], [32]]",
    ]
