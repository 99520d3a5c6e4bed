"""Counts what `opsmith check` finds of the planted defects, under which names, and what it says of correct operators.

    python tests/checker/planted/score.py [NAME ...] [--seeds 0 1 2 3 4] [--only defects twins sound] [--kind KIND ...]
                                          [--jobs N] [--log FILE] [--json FILE]

Every defect, every twin without it and every operator of tests/checker/sound is checked as a user would check it, once
for each seed. A line of the log is the result of one check. A run that was killed goes on where it was: what the log
has from the same sources is not checked again. The exit code is 1 if anything was missed, misnamed or blamed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

_HERE = Path(__file__).resolve().parent
ROOT = _HERE.parents[2]
sys.path[:0] = [str(_HERE), str(_HERE.parent), str(ROOT / "tests")]

DEFECTS, TWINS, SOUND = "defects", "twins", "sound"
# How a defect fares: `right` is found under its name and no other.
RIGHT, MISSED, MISNAMED, EXTRA, BLAMED, BROKEN = "right", "missed", "misnamed", "two names", "blamed", "broken"
# A check that hangs does so for this long for each property that comes to it.
_SILENCE_S = 20.0
_TRIES = 2


@dataclass(frozen=True, order=True)
class Unit:
    """One check: of a defect, of its twin or of a sound operator, with a seed."""

    what: str
    kind: str
    name: str
    seed: int


@dataclass(frozen=True)
class Checked:
    """The result of one check: the names of what failed with their first lines, and what a defect's names may be."""

    unit: Unit
    failed: dict[str, str]
    broken: tuple[str, ...]
    named: str
    also: tuple[str, ...]
    seconds: float
    processor_s: float

    @property
    def verdict(self) -> str:
        """What became of it."""
        if self.broken:
            return BROKEN
        if self.unit.what != DEFECTS:
            return BLAMED if self.failed else RIGHT
        if not self.failed:
            return MISSED
        if self.named not in self.failed:
            return MISNAMED
        return RIGHT if self.failed.keys() <= {self.named, *self.also} else EXTRA


def units_of(asked: argparse.Namespace) -> list[Unit]:
    """Return the checks that the command line asks for, those of one operator after another."""
    from sound.listed import OPERATORS
    from table import TABLE

    named = [(what, row.kind, row.name) for row in TABLE for what in (DEFECTS, TWINS)]
    named += [(SOUND, SOUND, name) for name in OPERATORS]
    chosen = [
        (what, kind, name)
        for what, kind, name in named
        if what in asked.only and (not asked.names or name in asked.names) and (not asked.kind or kind in asked.kind)
    ]
    return [Unit(what, kind, name, seed) for what, kind, name in chosen for seed in asked.seeds]


def check(unit: Unit) -> Checked:
    """Make one check, in a worker."""
    from sound.listed import OPERATORS
    from table import TABLE

    from opsmith.checker.run import CheckPlan, run_check
    from opsmith.subject.subject import subject_of

    row = next((row for row in TABLE if unit.what != SOUND and (row.kind, row.name) == (unit.kind, unit.name)), None)
    if row is not None:
        subject = row.subject(planted=unit.what == DEFECTS, seed=unit.seed)
    else:
        op, reference = OPERATORS[unit.name]
        subject = subject_of(op, reference=reference, seed=unit.seed)
    started, before = time.perf_counter(), os.times()
    report = run_check(subject, CheckPlan(silence_s=_SILENCE_S))
    spent = [now - then for now, then in zip(os.times()[:4], before[:4], strict=True)]
    return Checked(
        unit,
        {result.name: result.outcome.findings[0].message.splitlines()[0] for result in reversed(report.failures)},
        tuple(f"{result.name}: {result.outcome.note}" for result in report.results if result.outcome.is_error),
        row.named if row is not None else "",
        row.also if row is not None else (),
        time.perf_counter() - started,
        sum(spent),
    )


def prepare() -> None:
    """Load in a worker what all checks need, once."""
    from warm import warm_up

    warm_up()


def fingerprint() -> str:
    """Return a digest of what a result depends on: the checker, and the operators it is tried on."""
    digest = hashlib.sha256()
    folders = (ROOT / "src" / "opsmith", _HERE, _HERE.parent / "sound")
    for file in sorted(file for folder in folders for file in folder.rglob("*")):
        if file.suffix in (".py", ".cpp", ".h") and file != Path(__file__).resolve():
            digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def logged(log: Path, sources: str) -> Iterator[Checked]:
    """Yield the results in a log that belong to these sources; a last line that was cut off is none."""
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        if entry.pop("sources") == sources:
            yield Checked(**{**entry, "unit": Unit(**entry["unit"])})


def run(units: Sequence[Unit], jobs: int) -> Iterator[Checked]:
    """Yield results as they come; a check that ends its worker is tried once more, and is broken then."""
    left = dict.fromkeys(units, 0)
    while left:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), prepare) as pool:
            futures: dict[Future[Checked], Unit] = {pool.submit(check, unit): unit for unit in left}
            for future in as_completed(futures):
                unit = futures[future]
                try:
                    result = future.result()
                except BrokenProcessPool:
                    left[unit] += 1
                    if left[unit] < _TRIES:
                        continue
                    result = Checked(unit, {}, ("the check's own process died",), "", (), 0.0, 0.0)
                except Exception as error:
                    result = Checked(unit, {}, (f"{type(error).__name__}: {error}",), "", (), 0.0, 0.0)
                del left[unit]
                yield result


def table_of(results: Iterable[Checked], seeds: Sequence[int]) -> str:
    """Return the table: for each class and seed, how many are right of how many."""
    count: Counter[tuple[str, str, int, bool]] = Counter()
    for result in results:
        count[result.unit.what, result.unit.kind, result.unit.seed, result.verdict == RIGHT] += 1
    lines = [f"{'':34}" + "".join(f"{f'seed {seed}':>10}" for seed in seeds)]
    for what, title in ((DEFECTS, "found, by name"), (TWINS, "twins not blamed"), (SOUND, "not blamed")):
        kinds = list(dict.fromkeys(kind for one, kind, *_ in count if one == what))
        for kind in [*kinds, *(["all"] if len(kinds) > 1 else [])]:
            cells = []
            for seed in seeds:
                right, wrong = (
                    sum(
                        times
                        for (one, other, at, is_right), times in count.items()
                        if (one, at, is_right) == (what, seed, wanted) and kind in (other, "all")
                    )
                    for wanted in (True, False)
                )
                cells.append(f"{right}/{right + wrong}")
            lines.append(f"{kind:16}{title:18}" + "".join(f"{cell:>10}" for cell in cells))
    return "\n".join(lines)


def problems_of(results: Iterable[Checked]) -> Iterator[str]:
    """Yield a line for everything that is not right."""
    for result in sorted(results, key=lambda result: result.unit):
        unit = result.unit
        if result.verdict == RIGHT:
            continue
        words = "; ".join([*(f"{name}: {line}" for name, line in result.failed.items()), *result.broken])
        wanted = f" (is {result.named})" if result.named else ""
        yield f"{result.verdict:10} {unit.what} {unit.kind}/{unit.name}, seed {unit.seed}{wanted}: {words[:300]}"


def main() -> int:
    """Check what the command line names, and print the table and what is not right."""
    asked = _parsed()
    sources = fingerprint()
    units = units_of(asked)
    known = {result.unit: result for result in logged(asked.log, sources)}
    results = [known[unit] for unit in units if unit in known]
    left = [unit for unit in units if unit not in known]
    print(f"{len(left)} checks, {len(results)} more are in {asked.log}", flush=True)
    asked.log.parent.mkdir(parents=True, exist_ok=True)
    with asked.log.open("a", encoding="utf-8") as log:
        log.write("\n" if log.tell() else "")  # the last line may have been cut off
        for result in run(left, asked.jobs):
            results.append(result)
            log.write(json.dumps({**asdict(result), "sources": sources}) + "\n")
            log.flush()
            unit = result.unit
            print(
                f"[{len(results)}/{len(units)}] {result.verdict:10} {unit.what:8} {unit.name}, seed {unit.seed}: "
                f"{', '.join(result.failed) or '-'} ({result.processor_s:.1f} s)",
                flush=True,
            )
    problems = list(problems_of(results))
    print("", table_of(results, asked.seeds), "", *problems, sep="\n")
    spent = sum(result.processor_s for result in results)
    print(f"\n{len(problems)} of {len(results)} checks are not right; {spent:,.0f} s of processor time")
    if asked.json is not None:
        from opsmith.benchmark.machine import this_machine

        entries = [{**asdict(result), "verdict": result.verdict} for result in sorted(results, key=lambda r: r.unit)]
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        date = datetime.now(timezone.utc).isoformat(timespec="seconds")
        found = {"sources": sources, "machine": this_machine("cpu").as_json(), "date": date, "results": entries}
        asked.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 1 if problems else 0


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="operators; default: all")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--only", nargs="+", choices=(DEFECTS, TWINS, SOUND), default=[DEFECTS, TWINS, SOUND])
    parser.add_argument("--kind", nargs="+", default=[], help="classes of defects; default: all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="checks at a time")
    parser.add_argument("--log", type=Path, default=ROOT / "build" / "planted.jsonl")
    parser.add_argument("--json", type=Path, help="file for all results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
