"""Installs a wheel in each environment that it claims to work in, and checks its operators there."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from opsmith.errors import BuildError
from opsmith.package.audit.api import read_facts
from opsmith.package.audit.facts import Facts
from opsmith.package.audit.floors import find_floors
from opsmith.package.prove.environment import (
    Environment,
    MissingError,
    adopt_environment,
    last_lines,
    make_environment,
    own_requirement,
)
from opsmith.package.prove.result import Claim, Proof, Row, Step
from opsmith.toolchain import find_torch
from opsmith.toolchain.shims import release_text, shim_table

__all__ = ["ProofRequest", "claims_of", "has_gpu_code", "modules_of", "prove"]

# Values with a gradient's are what differs between releases of torch; the rest was checked where the wheel was made.
_CHECKS: dict[Step, tuple[str, ...]] = {"check": ("value", "sizes", "strides"), "gradient": ("gradient",)}
_GRACE_S = 300.0
_ASK_TORCH = "import torch; print(torch.__version__, torch.cuda.is_available())"


@dataclass(frozen=True)
class ProofRequest:
    """Which environments a wheel is tried in, and for how long each check may go on.

    `pythons` and `torches` are versions, such as "3.11" and "2.10"; none means this Python, and every torch from the
    wheel's floor up. `index` is where torch comes from, or None for pip's own. `here` means this Python and its torch
    alone, with nothing from a network. Environments are removed unless there is a folder to `keep` them in.
    """

    pythons: tuple[str, ...] = ()
    torches: tuple[str, ...] = ()
    index: str | None = None
    here: bool = False
    seconds: float = 20.0
    keep: Path | None = None


def prove(wheel: Path, request: ProofRequest, tell: Callable[[Claim, Row | None], None]) -> Proof:
    """Run a wheel in every environment; `tell` hears of each before it begins and when it has ended.

    Raises BuildError if the file is no wheel with operators of opsmith's.
    """
    facts = read_facts(wheel)
    modules = modules_of(facts)
    if not modules:
        raise BuildError(f"{wheel.name} has no operators of opsmith's, and what it does is not known")
    subject = _Subject(
        wheel, tuple(modules), facts.wheel.copies if facts.wheel is not None else (), has_gpu_code(facts)
    )
    rows = []
    for claim in claims_of(facts, request):
        tell(claim, None)
        started = time.perf_counter()
        with _folder(request, claim) as folder:
            row = replace(_try(subject, claim, request, folder), seconds=time.perf_counter() - started)
        rows.append(row)
        tell(claim, row)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return Proof(wheel.name, digest, tuple(rows), has_gpu_code=subject.has_gpu_code)


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


@dataclass(frozen=True)
class _Subject:
    """The wheel: its modules with operators, and its copies of opsmith, which a standalone one has."""

    wheel: Path
    modules: tuple[str, ...]
    copies: tuple[str, ...]
    has_gpu_code: bool


@contextmanager
def _folder(request: ProofRequest, claim: Claim) -> Iterator[Path]:
    """Yield the folder of an environment, which goes when it is left unless environments are kept."""
    name = f"python{claim.python}-torch{claim.torch}"
    if request.keep is not None:
        yield request.keep.absolute() / name
        return
    with tempfile.TemporaryDirectory(prefix="opsmith-prove-") as folder:
        yield Path(folder) / name


def _try(subject: _Subject, claim: Claim, request: ProofRequest, folder: Path) -> Row:
    row = Row(claim)
    try:
        environment = _environment(subject, claim, request, folder)
    except MissingError as error:
        return replace(row, is_missing=True, failed_at="install", problem=str(error))
    asked = environment.run("-c", _ASK_TORCH, seconds=_GRACE_S)
    version, _, sees_gpu = asked.stdout.strip().partition(" ")
    devices = ("cpu", "cuda") if subject.has_gpu_code and sees_gpu == "True" else ("cpu",)
    row = replace(row, torch=version, devices=devices)
    if problem := environment.install(*_installing(subject, request), subject.wheel.resolve()):
        return _failed(row, "install", problem)
    imported = environment.run("-c", _loading(subject), seconds=_GRACE_S)
    if imported.returncode:
        return _failed(row, "import", last_lines(imported))
    if subject.copies and not request.here:
        _install_opsmith(environment, claim)
    return _checked(environment, subject.modules, request.seconds, row)


def _environment(subject: _Subject, claim: Claim, request: ProofRequest, folder: Path) -> Environment:
    if request.here:
        return adopt_environment(folder)
    return make_environment(folder, claim, () if subject.copies else own_requirement(), request.index)


def _installing(subject: _Subject, request: ProofRequest) -> tuple[str, ...]:
    """Return pip's options: what a standalone wheel requires is all that it needs; opsmith has brought it to the others."""
    if request.here:
        return ("--no-deps", "--no-index", "--force-reinstall")
    return () if subject.copies else ("--no-deps",)


def _install_opsmith(environment: Environment, claim: Claim) -> None:
    """Install what the check of a standalone wheel needs; it has run without opsmith by now."""
    opsmith = own_requirement()
    if opsmith and (problem := environment.install(*opsmith)):
        raise BuildError(f"opsmith cannot be installed for {claim}: {problem}")


def _checked(environment: Environment, modules: Sequence[str], seconds: float, row: Row) -> Row:
    """Return the row with what the checks of all modules have found."""
    for step, properties in _CHECKS.items():
        compared: set[str] = set()
        for module in modules:
            found = _check(environment, module, properties, row.devices, seconds)
            if isinstance(found, str):
                return _failed(row, step, found)
            if not found.inputs and (step == "check" or found.is_out_of_time):
                return _failed(row, step, _nothing(step, f"of {module}", seconds))
            compared |= found.devices
            row = replace(
                row,
                checks=row.checks + found.holding,
                inputs=row.inputs + found.inputs,
                gradients=row.gradients + (found.inputs if step == "gradient" else 0),
            )
        if step == "check" and "cuda" in row.devices and "cuda" not in compared:
            return _failed(row, step, _nothing(step, "on the GPU", seconds))
    return row


def _loading(subject: _Subject) -> str:
    """Return a program that imports the modules; a standalone wheel's operators are loaded, too, without opsmith."""
    lines = ["import sys", "sys.modules['opsmith'] = None"] if subject.copies else []
    lines.append(f"import {', '.join(subject.modules)}")
    for copy in subject.copies:
        lines.append(f"from {copy}.runtime.operator import load_module")
        package = copy.rpartition(".")[0]
        lines += [f"load_module({module!r})" for module in subject.modules if f"{module}.".startswith(f"{package}.")]
    return "\n".join(lines)


@dataclass(frozen=True)
class _Found:
    """What a check that found nothing wrong has compared: how many properties hold, how many calls, and on which devices.

    `is_out_of_time` says that something was left out: where nothing was compared then, nothing is known.
    """

    holding: int
    inputs: int
    devices: frozenset[str]
    is_out_of_time: bool = False


def _check(
    environment: Environment, module: str, properties: Sequence[str], devices: Sequence[str], seconds: float
) -> _Found | str:
    """Return what holds, or what is wrong."""
    chosen = [word for name in properties for word in ("--property", name)]
    chosen += [word for name in devices for word in ("--device", name)]
    done = environment.run(
        *("-m", "opsmith", "check", module, "--json", "--seconds", f"{seconds:g}", *chosen),
        seconds=20 * seconds + _GRACE_S,
    )
    try:
        content = json.loads(done.stdout)
    except ValueError:
        return last_lines(done)
    results = [result for report in content["operators"] for result in report["results"]]
    wrong = [f"{result['property']}: {result['findings'][0]['message']}" for result in results if result["findings"]]
    if wrong or not content["ok"]:
        return "\n".join(wrong) or "the check itself failed"
    return _Found(
        holding=sum(result["state"] == "passed" for result in results),
        inputs=sum(result["inputs"] for result in results),
        devices=frozenset(result["device"] for result in results if result["inputs"]),
        is_out_of_time=any(result["is_out_of_time"] for result in results),
    )


def _nothing(step: Step, of: str, seconds: float) -> str:
    what = "no gradient" if step == "gradient" else "nothing"
    return f"{what} {of} was compared within {seconds:g} s (--seconds)"


def _failed(row: Row, step: Step, problem: str) -> Row:
    return replace(row, failed_at=step, problem=problem)
