"""Judges candidates for tasks, both given by the bodies of their functions."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

from opsmith.judging.api import judge
from opsmith.judging.result import Judgement

__all__ = ["judgement_of"]

_TASK = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, *given):
{reference}

def get_inputs():
{inputs}

def get_init_inputs():
    return []
"""
_CANDIDATE = """
import time
import torch

calls, kept = [], {{}}

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, *given):
        calls.append(0)
{body}
"""


def judgement_of(folder: Path, reference: str, inputs: str, candidate: str) -> Judgement:
    """Return the judgement as posed of bodies: of a module's `forward`, of `get_inputs`, and the candidate's `forward`."""
    task, own = folder / "task.py", folder / "candidate.py"
    task.write_text(_TASK.format(reference=indent(reference, " " * 8), inputs=indent(inputs, " " * 4)))
    own.write_text(_CANDIDATE.format(body=indent(candidate, " " * 8)))
    return judge(task, own, threads=1, time=False, operator=False)
