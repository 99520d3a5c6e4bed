"""Says what the compilers are given and return, and lets several processes share the work."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from .hosted import HostedImage
from .images import Image

__all__ = ["FailureError", "Order", "Produced", "compile_all"]

_Task = TypeVar("_Task")
_Made = TypeVar("_Made")

# Below so many compilations another process costs more than it saves. Several kernels are compiled side by side, so one
# does not take all cores; each process of Triton needs 200 MB.
_WORTH_A_PROCESS, _MOST_PROCESSES = 2, 4


class FailureError(Exception):
    """A kernel that does not compile; the text is the messages as compilers write them."""


@dataclass(frozen=True)
class Order:
    """What to compile: the request that opsmith wrote in the file `name`, the kernel's file, and the images of each variant.

    In the folder of `output` there is place for temporary files. For NVRTC there are its library, and the folders of
    headers: opsmith's, the user's and CUDA's.
    """

    name: str
    request: dict[str, Any]
    kernel: Path
    output: Path
    images: tuple[str, ...]
    library: Path | None = None
    opsmith: Path | None = None
    include: tuple[Path, ...] = ()
    cuda: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Produced:
    """The images, those of the first variant first, and the files that they were made of.

    `hosted` are those that a compiler makes together with functions that launch them.
    """

    images: list[Image]
    files: list[str]
    hosted: list[HostedImage] = field(default_factory=list)


def compile_all(compile_one: Callable[[_Task], _Made], tasks: Sequence[_Task], together: int = 1) -> Iterator[_Made]:
    """Yield what is made of each task. Several processes share the work; so many tasks in a row are for one process."""
    processes = min(len(os.sched_getaffinity(0)), len(tasks) // _WORTH_A_PROCESS, _MOST_PROCESSES)
    if processes < 2:
        yield from map(compile_one, tasks)
        return
    # Forked, they have the compiler and the kernel already.
    _forked.append(compile_one)
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap(_compile_forked, tasks, together)


# What compiles, for the processes that are forked.
_forked: list[Callable[[Any], Any]] = []


def _compile_forked(task: Any) -> Any:
    return _forked[0](task)
