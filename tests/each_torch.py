"""Runs the tests under each torch that opsmith supports, in turn, each in a virtual environment of its own.

    python tests/each_torch.py                                   # every version, everything that is not slow
    python tests/each_torch.py 2.11.0 2.15.0 --tests tests/runtime tests/compose

It prints a table, goes on after a version that fails, and exits with 1 if one did. Reports of pytest and what it printed
are in build/torch/. An environment, which with PyPI's CUDA builds takes 6 GB, is removed before the next is made, and
these builds need no GPU. pip's own variables choose other builds: PIP_INDEX_URL=https://download.pytorch.org/whl/cpu.
Only the standard library is needed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "build" / "torch"

# The newest patch of each minor release since the oldest that opsmith supports.
VERSIONS = ("2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")

_EXTRAS = "demo,cmake,setuptools,test"
_INSTALL_LIMIT_S = 1800.0


@dataclass(frozen=True)
class Result:
    """How the tests went with one torch; `problem` says why they did not come to an end."""

    torch: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    problem: str = ""

    @property
    def is_good(self) -> bool:
        """Whether tests ran, and none failed."""
        return self.passed > 0 and not self.failed and not self.problem


@dataclass(frozen=True)
class Plan:
    """What is run with each torch: paths of tests, pytest's marks, how many workers, and for how long."""

    tests: tuple[str, ...] = ()
    marks: str = "not slow and not nightly"
    workers: str = "auto"
    limit_s: float = 7200.0


class StepError(Exception):
    """A program that a version needs failed; the message names it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the versions asked for, print the table and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=f"of torch (default: {' '.join(VERSIONS)})")
    parser.add_argument("--tests", nargs="+", default=[], metavar="PATH", help="files and folders (default: all)")
    parser.add_argument("--marks", default=Plan.marks, help=f"pytest's -m (default: {Plan.marks!r})")
    parser.add_argument("--workers", default=Plan.workers, help=f"pytest-xdist's -n (default: {Plan.workers})")
    parser.add_argument("--limit-s", type=float, default=Plan.limit_s, help="for the tests of one version")
    asked = parser.parse_args(arguments)
    plan = Plan(tuple(asked.tests), asked.marks, asked.workers, asked.limit_s)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    results = []
    for version in asked.versions or VERSIONS:
        print(f"torch {version} ...", flush=True)
        results.append(run_with(version, plan))
        print(f"torch {version}: {describe(results[-1])}", flush=True)
    print(f"\n{table(results)}")
    return 0 if all(result.is_good for result in results) else 1


def run_with(version: str, plan: Plan) -> Result:
    """Return how the tests go with a torch, in an environment that is gone afterwards."""
    report = OUTPUT / f"{version}.xml"
    report.unlink(missing_ok=True)
    # Not among the system's temporary files, which may be in memory. A run that was killed has left its own.
    folder = OUTPUT / f"environment-{version}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    start = time.monotonic()
    with (OUTPUT / f"{version}.log").open("w", encoding="utf-8") as log:
        try:
            python = make_environment(folder / "venv", version, log.fileno())
            start = time.monotonic()
            status = call(test_command(python, report, plan), folder, log.fileno(), plan.limit_s)
            seconds = time.monotonic() - start
        except StepError as error:
            return Result(version, seconds=time.monotonic() - start, problem=f"{error}; see {log.name}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return judge(version, report, status, seconds)


def make_environment(venv: Path, version: str, log: int) -> Path:
    """Return the Python of a new environment with this torch, and with opsmith from this folder."""
    python = venv / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    # torch first and alone, so that no dependency chooses another build.
    for step in (
        [sys.executable, "-m", "venv", str(venv)],
        [*pip, f"torch=={version}"],
        [*pip, "--editable", f"{ROOT}[{_EXTRAS}]"],
    ):
        if call(step, venv.parent, log, _INSTALL_LIMIT_S):
            raise StepError(f"`{' '.join(step[-3:])}` failed")
    asked = [str(python), "-c", "from importlib.metadata import version; print(version('torch'))"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    if not f"{found}.".replace("+", ".").startswith(f"{version}.".replace("+", ".")):
        raise StepError(f"pip has replaced torch {version} by {found or 'nothing'}")
    return python


def test_command(python: Path, report: Path, plan: Plan) -> list[str]:
    """Return what runs the tests."""
    options = ["-q", "-n", plan.workers, "--dist", "worksteal", "-m", plan.marks, "--junitxml", str(report)]
    return [str(python), "-m", "pytest", *options, "-p", "no:cacheprovider", *plan.tests]


def call(command: Sequence[str], folder: Path, log: int, limit_s: float) -> int:
    """Return a program's exit code; it writes to the log, and is ended with all that it started at the limit."""
    env = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}}
    # A store of their own for the tests, as large as its torch's bridge and operators, and gone with the environment.
    env["OPSMITH_TEST_CACHE"] = str(folder / "cache")
    process = subprocess.Popen(
        command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        raise StepError(f"`{' '.join(command[1:4])} ...` did not end within {limit_s:.0f} s") from None
    finally:
        end_group(process)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a program that still runs, with the processes of its session."""
    if process.poll() is None:
        os.killpg(process.pid, 15)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()


def judge(version: str, report: Path, status: int, seconds: float) -> Result:
    """Return what pytest's report counts; without one, or where no test failed and pytest did, that is the problem."""
    try:
        suites = list(ET.parse(report).iter("testsuite"))
    except (OSError, ET.ParseError):
        return Result(version, seconds=seconds, problem=f"pytest ended with {status} and without a report")
    total, failed, skipped = (
        sum(int(suite.attrib.get(key, 0)) for suite in suites for key in keys)
        for keys in (("tests",), ("failures", "errors"), ("skipped",))
    )
    problem = f"pytest ended with {status}" if status and not failed else ""
    return Result(version, total - failed - skipped, failed, skipped, seconds, problem)


def describe(result: Result) -> str:
    """Return a result in a line."""
    counts = f"{result.passed:,} passed, {result.failed:,} failed, {result.skipped:,} skipped in {result.seconds:.0f} s"
    return f"{counts}; {result.problem}" if result.problem else counts


def table(results: Iterable[Result]) -> str:
    """Return the results as a Markdown table."""
    head = ["| torch | passed | failed | skipped | seconds | |", "|---|--:|--:|--:|--:|---|"]
    return "\n".join(
        [
            *head,
            *(
                f"| {one.torch} | {one.passed:,} | {one.failed:,} | {one.skipped:,} | {one.seconds:,.0f} | {one.problem} |"
                for one in results
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
