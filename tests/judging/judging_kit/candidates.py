"""Writes candidates to files, and judges them quickly: what the tests of this folder share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.api import judge
from opsmith.judging.result import Judgement

__all__ = ["EXAMPLES", "RIGHT", "judged", "normalize"]

EXAMPLES = [(torch.linspace(-2, 2, 2048).reshape(32, 64), torch.linspace(-1.5, 2, 64))]
RIGHT = "import torch\n\ndef normalize(x, w):\n    return torch.softmax(x * w, dim=-1)\n"


def normalize(x: Tensor, w: Tensor) -> Tensor:
    """The task of most tests."""
    return torch.softmax(x * w, dim=-1)


def judged(folder: Path, text: str, **options: Any) -> Judgement:
    """Judge a candidate's text; by default neither its time nor as an operator."""
    path = folder / "candidate.py"
    path.write_text(text)
    usual = {
        "examples": EXAMPLES,
        "threads": 1,
        "call_seconds": 3.0,
        "load_seconds": 6.0,
        "memory_gib": 3.0,
        "time": False,
        "operator": False,
    }
    return judge(normalize, path, **{**usual, **options})
