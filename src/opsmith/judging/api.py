"""Judges a candidate from Python: `opsmith.judge(task, candidate)`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opsmith._keywords import keywords_of
from opsmith.judging.candidate import read_candidate
from opsmith.judging.options import JudgeOptions
from opsmith.judging.result import Judgement
from opsmith.judging.run import run_judge
from opsmith.judging.task_files import load_task

__all__ = ["judge"]


@keywords_of(JudgeOptions)
def judge(task: Any, candidate: str | Path, options: JudgeOptions) -> Judgement:
    """Judge a candidate for a task, in a process of its own, and return what was found.

    `task` is a definition of opsmith's, a function with `examples=`, or a path: of a module with a KernelBench problem, of
    a gpu-mode reference, or of a FlashInfer-Bench definition. `candidate` is a file, or a folder with a main.py. It is
    never imported here.

    Nothing is raised for what the candidate does; ask `judgement.ok`. A task whose reference raises, or does not return in
    time, is refused in `judgement.task_charges`; in another thread than the main one, its calls end first. Raises
    ArgumentError for a task or a candidate that is not there, and for a GPU where there is none, and NotStartedError where
    no process starts in which it could be judged.
    """
    posed = load_task(task, examples=options.examples, seconds=options.load_seconds)
    return run_judge(posed, read_candidate(candidate), options)
