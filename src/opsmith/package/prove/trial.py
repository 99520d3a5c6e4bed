"""Tries a wheel in one environment: installs it there, imports its modules, and checks its operators."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from opsmith.errors import BuildError
from opsmith.package.prove.environment import Environment, MissingError, last_lines
from opsmith.package.prove.result import Claim, Row, Step

__all__ = ["Found", "Subject", "check_module", "try_wheel"]

_GRADIENT = "gradient"
# Values with a gradient's are what differs between releases of torch; the rest was checked where the wheel was made.
_PROPERTIES = ("value", "sizes", "strides", _GRADIENT)
_GRACE_S = 300.0
# What the program that loads a wheel says of the environment before it does so.
_TORCH = "opsmith-prove: torch "


@dataclass(frozen=True)
class Subject:
    """A wheel: its modules with operators, and its copies of opsmith, which a standalone one has."""

    wheel: Path
    modules: tuple[str, ...]
    copies: tuple[str, ...] = ()
    has_gpu_code: bool = False


@dataclass(frozen=True)
class Found:
    """What the check of a module has found: how many properties hold, how many calls were compared, and on which devices.

    `gradients` are those of the calls that compared a gradient; `no_time` says that there was none left for some gradient.
    `wrong` has what is said of each step that failed.
    """

    holding: int = 0
    inputs: int = 0
    gradients: int = 0
    devices: frozenset[str] = frozenset()
    no_time: bool = False
    wrong: Mapping[Step, str] = field(default_factory=dict)


def try_wheel(subject: Subject, claim: Claim, environment: Environment, opsmith: Sequence[str], seconds: float) -> Row:
    """Return what happens in an environment that has torch, and opsmith too unless the wheel is standalone.

    `opsmith` are pip's words for what the check of a standalone wheel needs. Raises BuildError if it cannot be installed,
    and MissingError if torch does not start there.
    """
    row = Row(claim)
    # What a standalone wheel requires is all that it needs; opsmith has brought it to the others.
    options = () if subject.copies else ("--no-deps",)
    if problem := environment.install(*options, subject.wheel.resolve()):
        return _failed(row, "install", problem)
    imported = environment.run("-c", _loading(subject), seconds=_GRACE_S)
    told = next((line for line in imported.stdout.splitlines() if line.startswith(_TORCH)), "")
    if not told:
        raise MissingError(f"torch does not start: {last_lines(imported)}")
    version, _, sees_gpu = told.removeprefix(_TORCH).partition(" ")
    row = replace(row, torch=version)
    if subject.has_gpu_code and sees_gpu == "True":
        row = replace(row, devices=("cpu", "cuda"))
    if imported.returncode:
        return _failed(row, "import", last_lines(imported))
    if subject.copies and opsmith and (problem := environment.install(*opsmith)):
        raise BuildError(f"opsmith cannot be installed for {claim}: {problem}")
    return _checked(environment, subject.modules, seconds, row)


def _loading(subject: Subject) -> str:
    """Return a program that says which torch there is and imports the modules.

    A standalone wheel's operators are loaded, too, without opsmith.
    """
    lines = ["import torch", f"print('{_TORCH}' + torch.__version__, torch.cuda.is_available(), flush=True)"]
    lines += ["import sys", "sys.modules['opsmith'] = None"] if subject.copies else []
    lines.append(f"import {', '.join(subject.modules)}")
    for copy in subject.copies:
        lines.append(f"from {copy}.runtime.operator import load_module")
        package = copy.rpartition(".")[0]
        lines += [f"load_module({module!r})" for module in subject.modules if f"{module}.".startswith(f"{package}.")]
    return "\n".join(lines)


def _checked(environment: Environment, modules: Sequence[str], seconds: float, row: Row) -> Row:
    """Return the row with what the checks of all modules have found."""
    compared: set[str] = set()
    for module in modules:
        found = check_module(environment, module, row.devices, seconds)
        for step, problem in found.wrong.items():
            return _failed(row, step, problem)
        if found.inputs == found.gradients:
            return _failed(row, "check", f"nothing of {module} was compared within {seconds:g} s (--seconds)")
        if found.no_time and not found.gradients:
            return _failed(row, "gradient", f"no gradient of {module} was compared within {seconds:g} s (--seconds)")
        compared |= found.devices
        row = replace(
            row,
            checks=row.checks + found.holding,
            inputs=row.inputs + found.inputs,
            gradients=row.gradients + found.gradients,
        )
    if missed := set(row.devices) - compared - {"cpu"}:
        return _failed(row, "check", f"nothing on {missed.pop()} was compared within {seconds:g} s (--seconds)")
    return row


def check_module(environment: Environment, module: str, devices: Sequence[str], seconds: float) -> Found:
    """Return what the check of a module's operators finds in an environment."""
    chosen = [word for name in _PROPERTIES for word in ("--property", name)]
    chosen += [word for name in devices for word in ("--device", name)]
    done = environment.run(
        *("-m", "opsmith", "check", module, "--json", "--seconds", f"{seconds:g}", *chosen),
        seconds=20 * seconds + _GRACE_S,
    )
    try:
        content = json.loads(done.stdout)
    except ValueError:
        return Found(wrong={"check": last_lines(done)})
    results = [result for report in content["operators"] for result in report["results"]]
    wrong: dict[Step, str] = {}
    for result in results:
        if result["findings"]:
            step: Step = "gradient" if result["property"] == _GRADIENT else "check"
            said = f"{result['property']}: {result['findings'][0]['message']}"
            wrong[step] = "\n".join([*filter(None, [wrong.get(step)]), said])
    if not wrong and not content["ok"]:
        wrong["check"] = "the check itself failed"
    gradients = [result for result in results if result["property"] == _GRADIENT]
    return Found(
        holding=sum(result["state"] == "passed" for result in results),
        inputs=sum(result["inputs"] for result in results),
        gradients=sum(result["inputs"] for result in gradients),
        devices=frozenset(result["device"] for result in results if result["inputs"]),
        no_time=any(result["is_out_of_time"] for result in gradients),
        wrong=wrong,
    )


def _failed(row: Row, step: Step, problem: str) -> Row:
    return replace(row, failed_at=step, problem=problem)
