"""Runs the tests over each mutant of the table and prints which of them the tests find.

    python tests/mutants/run.py [NAME ...] [--jobs 2] [--workers N] [--near] [--deselect FILE] [--json FILE]

A mutant is a copy of src/ with one fault in it. The tests of `make test` run first, those next to the fault before the
others, and end at the first that fails; what else `make test-all` runs follows where those have passed: the slow tests,
and the path in Python without the bridge. A test counts only if it passes without the fault. A run that exceeds its time
limit or crashes counts as found.

On a machine with many cores, `--near --jobs 16` over all mutants and then `--jobs 4 --workers 4` over those that survive
it take minutes. `--deselect FILE` names tests, one a line, that fail on this machine without a fault: they would only be
run again for each mutant.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from cache import CACHE
from mutants import MUTANTS, ROOT, Mutant, mutated

FAST, SLOW = "not slow and not nightly and not gpu", "(slow or nightly) and not gpu"
ORIGINAL = ROOT / "src"
LIMIT_S = 2400
_UNTIL_ONE_FAILS = ("-x", "-q", "-rfE", "--no-header", "-p", "no:cacheprovider")
_ENDLESS, _CRASHED = "no end within the time limit", "pytest itself crashed"


@dataclass(frozen=True)
class Result:
    """What became of a mutant: the first test that failed, in which set (`test`, `test-all` or ``), and after how long."""

    name: str
    kind: str
    file: str
    found_in: str
    found_by: str
    seconds: float


@dataclass(frozen=True)
class Tests:
    """Tests that run together: the set they belong to, pytest's marks, their files and folders, and OPSMITH_BRIDGE."""

    found_in: str
    marks: str
    paths: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    bridge: str = "auto"


_REST = (
    Tests("test", FAST, ("tests",)),
    Tests("test-all", SLOW, ("tests",)),
    Tests("test-all", FAST, ("@tests/without_bridge.txt",), bridge="off"),
)


@dataclass(frozen=True)
class Runner:
    """How the tests are run: `clean` is a copy of the tests' cache that no run writes to."""

    clean: Path
    workers: int = 0
    deselected: tuple[str, ...] = ()

    def first_failure(self, source: Path, cache: Path, tests: Tests) -> str:
        """Return the first test that fails over some source and passes without the fault, or "" where there is none."""
        flaky: list[str] = []
        while failed := self.run(source, cache, replace(tests, left_out=(*tests.left_out, *flaky))):
            if failed in (_ENDLESS, _CRASHED) or not self.run(ORIGINAL, CACHE, replace(tests, paths=(failed,))):
                return failed
            flaky.append(failed)
        return ""

    def run(self, source: Path, cache: Path, tests: Tests) -> str:
        """Run tests over some source and return the first that fails, or "" where all pass."""
        argv = [sys.executable, "-m", "pytest", *_UNTIL_ONE_FAILS, "-m", tests.marks]
        if self.workers and source != ORIGINAL:
            argv += ["-n", str(self.workers), "--dist", "worksteal"]
        # The table's own test says of a mutant's source that it is not the original's.
        argv += ["--ignore", "tests/mutants", *(f"--deselect={test}" for test in (*self.deselected, *tests.left_out))]
        environment = {"PYTHONPATH": str(source), "OPSMITH_TEST_CACHE": str(cache), "OPSMITH_BRIDGE": tests.bridge}
        try:
            done = subprocess.run(
                [*argv, *tests.paths],
                cwd=ROOT,
                env={**os.environ, **environment},
                capture_output=True,
                text=True,
                check=False,
                timeout=LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            return _ENDLESS
        if done.returncode in (0, 5):
            return ""
        if done.returncode < 0:
            return _CRASHED
        failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
        if not failed:
            raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return str(failed[0])


def main() -> int:
    """Run the mutants that the command line names, all by default; return 1 where one is not found at all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="mutants to run; default: all")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--workers", type=int, default=0, help="pytest's workers for each mutant (-n); default: none")
    parser.add_argument("--near", action="store_true", help="run the tests next to each fault alone")
    parser.add_argument("--deselect", type=Path, help="file of tests to leave out, one a line")
    parser.add_argument("--json", type=Path, help="file for the results; those of other mutants in it stay")
    asked = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if not asked.names or mutant.name in asked.names]
    if unknown := set(asked.names) - {mutant.name for mutant in MUTANTS}:
        parser.error(f"there is no mutant {', '.join(sorted(unknown))}")
    deselected = () if asked.deselect is None else tuple(filter(None, asked.deselect.read_text().splitlines()))
    results = []
    with tempfile.TemporaryDirectory(prefix="opsmith-mutants-") as folder, ThreadPoolExecutor(asked.jobs) as pool:
        runner = Runner(Path(folder) / "cache", asked.workers, deselected)
        copy_cache(CACHE, runner.clean)
        for future in as_completed([pool.submit(run_mutant, mutant, runner, near=asked.near) for mutant in chosen]):
            results.append(result := future.result())
            print(f"[{len(results)}/{len(chosen)}] {line_of(result)}", flush=True)
            if asked.json is not None:
                merge_into(asked.json, [result])
    print_summary(results)
    return 0 if all(result.found_in for result in results) else 1


def run_mutant(mutant: Mutant, runner: Runner, *, near: bool = False) -> Result:
    """Run the tests over one mutant until one fails; `near` leaves out those that are not next to it."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="opsmith-mutant-") as folder:
        source, cache = Path(folder) / "src", Path(folder) / "cache"
        shutil.copytree(ORIGINAL, source, ignore=shutil.ignore_patterns("__pycache__"))
        # A cache of its own: with a fault in its key, what it builds would be found by the next one.
        copy_cache(runner.clean, cache)
        file = source / "opsmith" / mutant.file
        file.write_text(mutated(mutant))
        for tests in (Tests("test", FAST, mutant.tests), *(() if near else _REST)):
            if failed := runner.first_failure(source, cache, tests):
                return Result(mutant.name, mutant.kind, mutant.file, tests.found_in, failed, time.monotonic() - started)
    return Result(mutant.name, mutant.kind, mutant.file, "", "", time.monotonic() - started)


def copy_cache(cache: Path, copy: Path) -> None:
    """Copy the tests' cache, where there is one, without the processes that are using it."""
    if cache.exists():
        shutil.copytree(cache, copy, ignore=shutil.ignore_patterns("users"))


def line_of(result: Result) -> str:
    """Return a mutant's row of the table."""
    return f"{result.found_in or 'SURVIVED':9} {result.name:32} {result.kind:20} {result.seconds:5.0f} s  {result.found_by}"


def print_summary(results: list[Result]) -> None:
    """Print how many of the mutants each set finds."""
    fast = sum(result.found_in == "test" for result in results)
    found = sum(bool(result.found_in) for result in results)
    print(f"\n{len(results)} mutants: make test finds {fast}, make test-all {found}")


def merge_into(file: Path, results: list[Result]) -> None:
    """Replace the rows of these mutants in a JSON file and keep the others."""
    rows = {row["name"]: row for row in json.loads(file.read_text())} if file.exists() else {}
    rows |= {result.name: asdict(result) for result in results}
    file.write_text(json.dumps(list(rows.values()), indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
