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
from opsmith.package.prove.environment import Environment, MissingError, last_lines, make_environment, own_requirement
from opsmith.package.prove.result import Claim, Proof, Row, Step
from opsmith.toolchain.shims import release_text, shim_table

__all__ = ["ProofRequest", "claims_of", "modules_of", "prove"]

# Values with a gradient's are what differs between releases of torch; the rest was checked where the wheel was made.
_VALUES = ("value", "sizes", "strides")
_GRADIENT = "gradient"
_GRACE_S = 300.0


@dataclass(frozen=True)
class ProofRequest:
    """Which environments a wheel is tried in, and for how long each check may go on.

    `pythons` and `torches` are versions, such as "3.11" and "2.10"; none means this Python, and every torch from the
    wheel's floor up. `index` is where torch comes from, or None for pip's own. Environments are removed unless there is
    a folder to `keep` them in.
    """

    pythons: tuple[str, ...] = ()
    torches: tuple[str, ...] = ()
    index: str | None = None
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
    copies = facts.wheel.copies if facts.wheel is not None else ()
    rows = []
    for claim in claims_of(facts, request):
        tell(claim, None)
        started = time.perf_counter()
        with _folder(request, claim) as folder:
            row = replace(_try(wheel, modules, copies, claim, request, folder), seconds=time.perf_counter() - started)
        rows.append(row)
        tell(claim, row)
    return Proof(wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest(), tuple(rows))


def claims_of(facts: Facts, request: ProofRequest) -> Iterator[Claim]:
    """Yield the environments that a wheel claims to work in, as far as they are asked for."""
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


@contextmanager
def _folder(request: ProofRequest, claim: Claim) -> Iterator[Path]:
    """Yield the folder of an environment, which goes when it is left unless environments are kept."""
    name = f"python{claim.python}-torch{claim.torch}"
    if request.keep is not None:
        yield request.keep.absolute() / name
        return
    with tempfile.TemporaryDirectory(prefix="opsmith-prove-") as folder:
        yield Path(folder) / name


def _try(
    wheel: Path, modules: Sequence[str], copies: Sequence[str], claim: Claim, request: ProofRequest, folder: Path
) -> Row:
    row = Row(claim)
    opsmith = own_requirement()
    try:
        environment = make_environment(folder, claim, () if copies else opsmith, request.index)
    except MissingError as error:
        return replace(row, is_missing=True, failed_at="install", problem=str(error))
    asked = environment.run("-c", "import torch; print(torch.__version__)", seconds=_GRACE_S)
    row = replace(row, torch=asked.stdout.strip())
    # What a standalone wheel requires is all that it needs; opsmith has brought it to the others.
    if problem := environment.install(*(() if copies else ("--no-deps",)), wheel.resolve()):
        return _failed(row, "install", problem)
    imported = environment.run("-c", _loading(modules, copies), seconds=_GRACE_S)
    if imported.returncode:
        return _failed(row, "import", last_lines(imported))
    # A standalone wheel has run without opsmith by now, and its check needs opsmith.
    if copies and opsmith and (problem := environment.install(*opsmith)):
        raise BuildError(f"opsmith cannot be installed for {claim}: {problem}")
    for step, properties in (("check", _VALUES), ("gradient", (_GRADIENT,))):
        for module in modules:
            found = _check(environment, module, properties, request.seconds)
            if isinstance(found, str):
                return _failed(row, "check" if step == "check" else "gradient", found)
            holding, inputs = found
            if step == "check" and not inputs:
                return _failed(
                    row, "check", f"nothing of {module} was compared within {request.seconds:g} s (--seconds)"
                )
            row = replace(
                row,
                checks=row.checks + holding,
                inputs=row.inputs + inputs,
                gradients=row.gradients + (inputs if step == _GRADIENT else 0),
            )
    return row


def _loading(modules: Sequence[str], copies: Sequence[str]) -> str:
    """Return a program that imports modules; a standalone wheel's operators are loaded, too, by its copies."""
    lines = [f"import {', '.join(modules)}"]
    for copy in copies:
        lines.append(f"from {copy}.runtime.operator import load_module")
        package = copy.rpartition(".")[0]
        lines += [f"load_module({module!r})" for module in modules if f"{module}.".startswith(f"{package}.")]
    return "\n".join(lines)


def _check(environment: Environment, module: str, properties: Sequence[str], seconds: float) -> tuple[int, int] | str:
    """Return how many properties hold and how many calls were compared, or what is wrong."""
    chosen = [word for name in properties for word in ("--property", name)]
    done = environment.run(
        *("-m", "opsmith", "check", module, "--json", "--device", "cpu", "--seconds", f"{seconds:g}", *chosen),
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
    return sum(result["state"] == "passed" for result in results), sum(result["inputs"] for result in results)


def _failed(row: Row, step: Step, problem: str) -> Row:
    return replace(row, failed_at=step, problem=problem)
