"""Proves a wheel in each environment that it claims to work in."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from opsmith.errors import BuildError
from opsmith.package.audit.api import read_facts
from opsmith.package.audit.facts import Facts
from opsmith.package.audit.floors import find_floors
from opsmith.package.prove.environment import (
    MissingError,
    adopt_environment,
    make_environment,
    own_requirement,
)
from opsmith.package.prove.result import Claim, Proof, Row
from opsmith.package.prove.trial import Subject, try_wheel
from opsmith.toolchain import find_torch
from opsmith.toolchain.shims import release_text, shim_table

__all__ = ["ProofRequest", "claims_of", "has_gpu_code", "modules_of", "prove"]

# So many environments at a time: a check has one core at a time mostly, and an installation waits for the disk.
_MOST_JOBS = 2


@dataclass(frozen=True)
class ProofRequest:
    """Which environments a wheel is tried in, and for how long each check may go on.

    `pythons` and `torches` are versions, such as "3.11" and "2.10"; none means this Python, and every torch from the
    wheel's floor up. `index` is where torch comes from, or None for pip's own. `here` means this Python and its torch
    alone, with nothing from a network. `jobs` environments are made at a time, by default as many as there are cores and at
    most two. They are removed unless there is a folder to `keep` them in, whose installations of torch are used again.
    """

    pythons: tuple[str, ...] = ()
    torches: tuple[str, ...] = ()
    index: str | None = None
    here: bool = False
    seconds: float = 40.0
    keep: Path | None = None
    jobs: int | None = None


def prove(wheel: Path, request: ProofRequest, tell: Callable[[Claim, Row | None], None]) -> Proof:
    """Run a wheel in every environment; `tell` hears of each before it begins and when it has ended.

    Raises BuildError if the file is not a wheel with operators of opsmith's.
    """
    facts = read_facts(wheel)
    modules = modules_of(facts)
    if not modules:
        raise BuildError(f"{wheel.name} has no operators of opsmith's, and what it does is not known")
    copies = facts.wheel.copies if facts.wheel is not None else ()
    subject = Subject(wheel, tuple(modules), copies, has_gpu_code(facts))
    lock = threading.Lock()

    def run(claim: Claim) -> Row:
        with lock:
            tell(claim, None)
        started = time.perf_counter()
        with _folder(request, claim) as folder:
            row = _try(subject, claim, request, opsmith, folder)
        row = replace(row, seconds=time.perf_counter() - started)
        with lock:
            tell(claim, row)
        return row

    with tempfile.TemporaryDirectory(prefix="opsmith-prove-") as scratch:
        opsmith = () if request.here else own_requirement(Path(scratch))
        with ThreadPoolExecutor(_jobs(request)) as pool:
            rows = tuple(pool.map(run, claims_of(facts, request)))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return Proof(wheel.name, digest, rows, has_gpu_code=subject.has_gpu_code)


def _jobs(request: ProofRequest) -> int:
    return request.jobs or min(_MOST_JOBS, len(os.sched_getaffinity(0)))


def _try(subject: Subject, claim: Claim, request: ProofRequest, opsmith: Sequence[str], folder: Path) -> Row:
    try:
        if request.here:
            environment = adopt_environment(folder)
        else:
            environment = make_environment(folder, claim, () if subject.copies else opsmith, request.index)
        return try_wheel(subject, claim, environment, opsmith, request.seconds)
    except MissingError as error:
        return Row(claim, is_missing=True, failed_at="install", problem=str(error))


def claims_of(facts: Facts, request: ProofRequest) -> Iterator[Claim]:
    """Yield the environments that a wheel claims to work in, as far as they are asked for."""
    if request.here:
        yield Claim("{}.{}".format(*sys.version_info[:2]), release_text(find_torch().release))
        return
    floor = find_floors(facts.libraries).torch or shim_table().oldest
    torches = request.torches or tuple(release_text(one) for one in shim_table().releases if one >= floor)
    for python in request.pythons or ("{}.{}".format(*sys.version_info[:2]),):
        for torch in torches:
            yield Claim(python, torch)


def modules_of(facts: Facts) -> list[str]:
    """Return the modules whose operators a wheel has: `_ops.so` is its package's, and `_NAME_ops.so` is NAME's beside it."""
    modules = []
    for library in facts.libraries:
        path = PurePosixPath(library.path)
        if library.manifest is not None and path.name.endswith("_ops.so"):
            own = path.name.removesuffix("_ops.so").strip("_")
            modules.append(".".join([*path.parts[:-1], *([own] if own else [])]))
    return modules


def has_gpu_code(facts: Facts) -> bool:
    """Tell whether a wheel's operators have kernels for GPUs."""
    return any(library.manifest is not None and "cuda" in library.manifest.devices for library in facts.libraries)


@contextmanager
def _folder(request: ProofRequest, claim: Claim) -> Iterator[Path]:
    """Yield the folder of an environment, which goes when it is left unless environments are kept."""
    name = f"python{claim.python}-torch{claim.torch}"
    if request.keep is not None:
        yield request.keep.absolute() / name
        return
    with tempfile.TemporaryDirectory(prefix="opsmith-prove-") as folder:
        yield Path(folder) / name
