"""Settles what a judgement needs before it begins: the device, the candidate's files and limits, and its process."""

from __future__ import annotations

from dataclasses import replace

import torch

from opsmith.benchmark.conditions import torch_threads
from opsmith.errors import ArgumentError
from opsmith.judging.candidate import Candidate
from opsmith.judging.candidate_process import CandidateProcess
from opsmith.judging.gpu_memory import usual_limit_bytes
from opsmith.judging.launch import Limits
from opsmith.judging.options import JudgeOptions
from opsmith.judging.task import Task

__all__ = ["device_of", "limits_of", "start_ahead", "with_its_files"]


def device_of(options: JudgeOptions) -> str:
    """Return the device to judge on; raises ArgumentError for a GPU where there is none."""
    if options.device == "cuda" and not torch.cuda.is_available():
        raise ArgumentError("there is no GPU here to judge on; pass device='cpu'")
    return options.device or ("cuda" if torch.cuda.is_available() else "cpu")


def with_its_files(task: Task, candidate: Candidate) -> Candidate:
    """Return the candidate with the files that its task puts beside it; its own come before them."""
    return replace(candidate, files={**task.beside, **candidate.files})


def limits_of(options: JudgeOptions, device: str) -> Limits:
    """Return what a candidate may take, with the threads that PyTorch has here."""
    gpu_bytes = 0
    if device == "cuda":
        gpu_bytes = int(options.gpu_memory_gib * 2**30) if options.gpu_memory_gib is not None else usual_limit_bytes()
    memory_bytes, threads = int(options.memory_gib * 2**30), torch.get_num_threads()
    return Limits(options.load_seconds, options.call_seconds, memory_bytes, gpu_bytes, threads=threads)


def start_ahead(options: JudgeOptions) -> CandidateProcess:
    """Start the process of a candidate that is judged next, and return at once; raises ArgumentError as `device_of`."""
    device = device_of(options)
    with torch_threads(options.threads):
        return CandidateProcess(device, limits_of(options, device))
