"""Judges a candidate from Python: `opsmith.judge(task, candidate)`."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any

import torch

from opsmith.errors import ArgumentError
from opsmith.judging.candidate import Candidate, read_candidate
from opsmith.judging.cell import Cell, CellError, Limits
from opsmith.judging.options import JudgeOptions
from opsmith.judging.posed import judge_as_posed
from opsmith.judging.result import Judgement, Part, Walls
from opsmith.judging.task import Task
from opsmith.judging.task_files import load_task
from opsmith.judging.trial import Trial

__all__ = ["judge"]

# The part of the time after which nothing new is begun for the verdict as posed.
_FOR_POSED = 0.4


def judge(task: Any, candidate: str | Path, options: JudgeOptions | None = None) -> Judgement:
    """Judge a candidate for a task, in a process of its own, and return what was found.

    `task` is what `load_task` reads, and `candidate` a file, or a folder with a main.py. Nothing is raised for what the
    candidate does; ask `judgement.ok`. Raises ArgumentError for a task or a candidate that is not there.
    """
    options = options or JudgeOptions()
    return _judged(load_task(task, examples=options.examples), read_candidate(candidate), options)


def _judged(task: Task, candidate: Candidate, options: JudgeOptions) -> Judgement:
    begun = time.perf_counter()
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise ArgumentError("there is no GPU here to judge on; pass device='cpu'")
    seed = options.seed if options.seed is not None else secrets.randbits(31)
    limits = Limits(options.load_seconds, options.call_seconds, int(options.memory_gib * 2**30))
    walls = Walls()
    try:
        with Cell(candidate, device, limits) as cell:
            walls = cell.walls
            cell.open(task.entry)
            posed = judge_as_posed(Trial(task, cell, time.monotonic() + options.seconds * _FOR_POSED), seed)
    except CellError as error:
        posed = Part("refused", (error.charge,))
    operator = Part("not judged", note="not asked for")
    seconds = time.perf_counter() - begun
    return Judgement(task.name, candidate.name, device, posed, operator, walls=walls, seed=seed, seconds=seconds)
