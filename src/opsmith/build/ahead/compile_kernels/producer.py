"""Says what the compilers are given and return, and lets several processes share the work."""

from __future__ import annotations

import importlib.util
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .hosted import HostedImage
from .images import Image

if TYPE_CHECKING:
    from multiprocessing.pool import Pool

__all__ = ["FailureError", "Order", "Produced", "compile_all"]

_Task = TypeVar("_Task")
_Made = TypeVar("_Made")

# Below so many compilations another process costs more than it saves. Several kernels are compiled side by side, so one
# does not take all cores; each process of Triton needs 200 MB.
_WORTH_A_PROCESS, _MOST_PROCESSES = 2, 4

# It imports nothing but Python's own modules.
_RESOURCES = Path(__file__).resolve().parents[3] / "toolchain" / "resources.py"


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
    processes = min(_cpu_count(), len(tasks) // _WORTH_A_PROCESS, _MOST_PROCESSES)
    pool = _fork(processes, compile_one) if processes > 1 else None
    if pool is None:
        yield from map(compile_one, tasks)
        return
    with pool:
        yield from pool.imap(_compile_forked, tasks, together)


def _fork(processes: int, compile_one: Callable[[Any], Any]) -> Pool | None:
    """Return so many processes, which have the compiler and the kernel already; None where there can be none.

    They need semaphores, and those a /dev/shm that can be written, which not every container has.
    """
    try:
        return multiprocessing.get_context("fork").Pool(processes, _begin_forked, (compile_one,))
    except (OSError, ImportError):
        return None


# What compiles, in a process that was forked.
_forked: list[Callable[[Any], Any]] = []


def _begin_forked(compile_one: Callable[[Any], Any]) -> None:
    _forked[:] = [compile_one]


def _compile_forked(task: Any) -> Any:
    return _forked[0](task)


def _cpu_count() -> int:
    """Return how many cores this process may use, by a module of opsmith's that is read alone: see this package."""
    spec = importlib.util.spec_from_file_location("opsmith_resources", _RESOURCES)
    assert spec is not None
    assert spec.loader is not None
    resources = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(resources)
    return int(resources.cpu_count())
