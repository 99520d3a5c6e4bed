"""Judges every candidate of the suite that this machine can run, and says which verdicts are right.

    python tests/judging/suite/score.py [NAME ...] [--only cheats honest] [--needs cpu native cuda triton] [--jobs N]
                                        [--seconds S] [--log FILE] [--json FILE] [--no-plain]

Beside each verdict stands that of a plain judge (`plain.py`). A line of the log is the result of one candidate; a run
that was killed goes on where it was, and what was judged with other sources is judged again. The exit code is 1 if a
verdict is not right.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
ROOT = _HERE.parents[2]
sys.path.insert(0, str(_HERE.parent))

from suite.row import CPU, CUDA, NATIVE, TRITON, Row  # noqa: E402 -- after the path
from suite.tables import CHEATS, HONEST  # noqa: E402
from suite.ways import WAYS  # noqa: E402

RIGHT, MISSED, MISNAMED, BLAMED, BROKEN = "right", "missed", "misnamed", "blamed", "broken"
_TASKS = _HERE / "tasks"
# What a candidate may take to be imported, and to build with PyTorch's headers on a busy machine.
_IMPORT_S, _BUILD_S = 60.0, 300.0
# Beside the time that a judgement may take: for imports and that build.
_PATIENCE_S = _BUILD_S + 120.0
_PLAIN_S = 180.0
_TICK_S = 0.05
# What the candidates may take together; the rest is for the judges.
_OF_CARD = 0.6


@dataclass(frozen=True)
class Judged:
    """What the judge and the plain judge say of one candidate."""

    name: str
    kind: str
    needs: str
    task: str
    ways: tuple[int, ...]
    expected: tuple[str, ...]
    state: str
    refusals: tuple[str, ...]
    message: str
    operator: str
    signs: tuple[str, ...]
    seconds: float
    verdict: str
    plain: str
    plain_speedup: float | None = None


def judge_row(row: Row, folder: Path, jobs: int = 1, **options: Any) -> dict[str, Any]:
    """Return the judgement of a candidate as its JSON, made in this process, one of several that judge."""
    from opsmith.judging import judge

    load_s = _IMPORT_S if row.needs == CPU else _BUILD_S
    if jobs > 1 and (share_bytes := _share_bytes(jobs)):
        # With the half of a card that is usual they would go one after another.
        options["gpu_memory_gib"] = share_bytes / 2**30
    found = judge(_TASKS / row.task, written(row, folder), load_seconds=load_s, **options)
    return json.loads(found.to_json())


def _share_bytes(jobs: int) -> int:
    """Return what a candidate may take of the GPU's memory; 0 without one."""
    import torch

    return int(torch.cuda.mem_get_info()[1] * _OF_CARD / jobs) if torch.cuda.is_available() else 0


def ask_plain(row: Row, folder: Path, jobs: int = 1) -> dict[str, Any]:
    """Return the plain judge's verdict, made in this process with a copy of the task: candidates write where they can.

    They look for files to edit in the working folder and on the path, and find those of a folder that is removed. What it
    takes of a GPU's memory is claimed, so that the judge does not take it for another candidate's.
    """
    from suite.plain import answer

    import opsmith.judging.packings
    import opsmith.judging.task_files  # noqa: F401 -- while they are on the path
    from opsmith.judging.gpu_claims import claimed

    task, source = folder / row.task, _TASKS / row.task
    shutil.copytree(source, task) if source.is_dir() else shutil.copy(source, task)
    os.chdir(folder)
    sys.path[:] = [entry for entry in sys.path if "site-packages" in entry or "/lib/python" in entry]
    with claimed(_share_bytes(jobs), lambda: None):
        return answer(task, written(row, folder))


def written(row: Row, folder: Path) -> Path:
    path = folder / "candidate.py"
    path.write_text(row.text)
    return path


def verdict_of(row: Row, is_ok: bool, refusals: Sequence[str], signs: Iterable[str]) -> str:
    """Return whether a verdict is the right one."""
    if not row.refused:
        if not is_ok:
            return BLAMED
        return RIGHT if set(row.signs) <= set(signs) else MISSED
    if is_ok:
        return MISSED
    return RIGHT if refusals and refusals[0] in {one.value for one in row.refused} else MISNAMED


def result_of(row: Row, found: dict[str, Any], plain: dict[str, Any], seconds: float) -> Judged:
    """Return what two judges said of a candidate, and whether it is right."""
    speedup = plain["eager_ms"] / plain["ms"] if plain.get("ms") else None
    common = (row.name, "cheat" if row.is_cheat else "honest", row.needs, row.task, row.ways)
    expected, passed = tuple(one.value for one in row.refused), str(plain.get("verdict", ""))
    if "as_posed" not in found:
        message = str(found.get("message", "the judge gave no judgement"))
        return Judged(*common, expected, BROKEN, (), message, "", (), seconds, BROKEN, passed, speedup)
    charges = [*found["task_charges"], *found["as_posed"]["charges"]]
    refusals = tuple(charge["refusal"] for charge in charges)
    signs = tuple(sign["name"] for sign in found["signs"])
    return Judged(
        *common,
        expected,
        found["as_posed"]["state"],
        refusals,
        charges[0]["message"][:300] if charges else "",
        found["as_operator"]["state"],
        signs,
        seconds,
        verdict_of(row, found["ok"], refusals, signs),
        passed,
        speedup,
    )


@dataclass
class _Work:
    """A function that runs in a forked process, in a folder of its own; what it returns comes as JSON in a file there."""

    row: Row
    ask: Callable[[Path], dict[str, Any]]
    patience_s: float
    pid: int = 0
    folder: Path = Path()
    begun_s: float = 0.0

    def begin(self) -> None:
        self.folder, self.begun_s = Path(tempfile.mkdtemp(prefix="opsmith-suite-")), time.monotonic()
        self.pid = os.fork()
        if self.pid:
            return
        try:
            os.setsid()
            os.closerange(3, 1 << 10)  # candidates write to every descriptor, and the log has one
            output = os.open(self.folder / "output", os.O_WRONLY | os.O_CREAT)
            for descriptor in (1, 2):
                os.dup2(output, descriptor)
            os.environ |= {"TMPDIR": str(self.folder), "TORCH_EXTENSIONS_DIR": str(self.folder / "extensions")}
            tempfile.tempdir = None
            os.chdir(self.folder)
            (self.folder / "answer").write_text(json.dumps(self.ask(self.folder)))
        except BaseException as error:
            (self.folder / "answer").write_text(json.dumps({"message": f"{type(error).__name__}: {error}"}))
        finally:
            os._exit(0)

    def is_done(self) -> bool:
        """Whether it has ended; it is ended where it takes too long."""
        if time.monotonic() - self.begun_s > self.patience_s:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            return True
        return os.waitpid(self.pid, os.WNOHANG)[0] != 0

    def answer(self) -> dict[str, Any]:
        """Return what it gave, and remove its folder."""
        try:
            found = json.loads((self.folder / "answer").read_text())
        except (OSError, ValueError):
            found = {"verdict": "no answer", "message": f"no answer within {self.patience_s:.0f} s"}
        shutil.rmtree(self.folder, ignore_errors=True)
        return found


def results_of(rows: Sequence[Row], asked: argparse.Namespace) -> Iterator[Judged]:
    """Yield what the judges say of candidates, as it comes. Children are forked: what they import is here already."""
    import suite.plain  # noqa: F401

    import opsmith.judging.run  # noqa: F401

    waiting = [
        work
        for row in rows
        for work in (
            _Work(row, partial(judge_row, row, jobs=asked.jobs, seconds=asked.seconds), asked.seconds + _PATIENCE_S),
            *([] if asked.no_plain else [_Work(row, partial(ask_plain, row, jobs=asked.jobs), _PLAIN_S)]),
        )
    ]
    needed = Counter(work.row.name for work in waiting)
    running: list[_Work] = []
    answers: dict[str, list[tuple[dict[str, Any], float]]] = {}
    while waiting or running:
        while waiting and len(running) < asked.jobs:
            work = waiting.pop(0)
            work.begin()
            running.append(work)
        time.sleep(_TICK_S)
        for work in [one for one in running if one.is_done()]:
            running.remove(work)
            found = answers.setdefault(work.row.name, [])
            # The judgement has other fields than the plain answer, which may come first.
            found.append((work.answer(), time.monotonic() - work.begun_s))
            if len(found) == needed[work.row.name]:
                found.sort(key=lambda one: "as_posed" not in one[0])
                plain = found[1][0] if len(found) > 1 else {}
                yield result_of(work.row, found[0][0], plain, found[0][1])


def rows_of(asked: argparse.Namespace) -> list[Row]:
    tables = {"cheats": CHEATS, "honest": HONEST}
    rows = [row for name in asked.only for row in tables[name].values()]
    if asked.names:
        rows = [row for row in rows if any(name in row.name for name in asked.names)]
    wanted = asked.needs or runnable()
    part, parts = asked.part
    return [row for row in rows if row.needs in wanted][part::parts]


def part_of(text: str) -> tuple[int, int]:
    """Return which of how many parts, counted from 0; raises ValueError for one that there is not."""
    part, _, parts = text.partition("/")
    if not 1 <= int(part) <= int(parts):
        raise ValueError(text)
    return int(part) - 1, int(parts)


def runnable() -> tuple[str, ...]:
    """Return what this machine can run."""
    found = [CPU, NATIVE] if shutil.which("g++") else [CPU]
    if has_gpu():
        found += [CUDA] if shutil.which("nvcc") or os.environ.get("CUDA_HOME") else []
        found += [TRITON] if _has_triton() else []
    return tuple(found)


def has_gpu() -> bool:
    """Whether there is a GPU; asked without using it, since children that are forked afterwards could not."""
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    import torch

    return torch.cuda.is_available()


def _has_triton() -> bool:
    import importlib.util

    return importlib.util.find_spec("triton") is not None


def digest() -> str:
    """Return what identifies the sources that a verdict depends on, candidates aside."""
    found = hashlib.sha256()
    paths = [*(ROOT / "src/opsmith/judging").rglob("*.py"), *(ROOT / "src/opsmith/subject").rglob("*.py")]
    for path in sorted([*paths, *_TASKS.rglob("*.*")]):
        if path.suffix != ".pyc":
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


def known(log: Path, sources: str) -> dict[str, Judged]:
    """Return the results of a log that have the same sources."""
    found: dict[str, Judged] = {}
    for line in log.read_text().splitlines() if log.is_file() else ():
        try:
            content = json.loads(line)
        except ValueError:  # a run that was killed in the middle of a line
            continue
        key = content.pop("key")
        name = content["name"]
        row = CHEATS.get(name) or HONEST.get(name)
        if row is not None and key == key_of(row, sources):
            lists = {field: tuple(content[field]) for field in ("ways", "expected", "refusals", "signs")}
            found[name] = Judged(**{**content, **lists})
    return found


def key_of(row: Row, sources: str) -> str:
    return hashlib.sha256(f"{sources} {row!r}".encode()).hexdigest()[:16]


def table_of(results: Sequence[Judged]) -> str:
    """Return the score as text: by way, and what is not right."""
    lines = ["| | cheats | refused by the right name | passed by the plain judge |", "|---|---|---|---|"]
    cheats = [one for one in results if one.kind == "cheat"]
    for number, text in WAYS.items():
        of_way = [one for one in cheats if number in one.ways]
        if of_way:
            lines.append(_line(f"{number}. {text}", of_way))
    others = [one for one in cheats if not one.ways]
    lines += [_line("others", others)] if others else []
    lines.append(_line("all", cheats))
    honest = [one for one in results if one.kind == "honest"]
    right, passed = (sum(wanted(one) for one in honest) for wanted in (_is_right, _is_passed))
    lines += ["", f"{right} of {len(honest)} honest candidates accepted; by the plain judge {passed}"]
    for verdict in (MISSED, MISNAMED, BLAMED, BROKEN):
        for one in (one for one in results if one.verdict == verdict):
            said = ", ".join(one.refusals) or one.state
            lines.append(f"{verdict}: {one.name} ({one.needs}): {said}; {one.message}")
    return "\n".join(lines)


def _line(text: str, cheats: Sequence[Judged]) -> str:
    return f"| {text} | {len(cheats)} | {sum(map(_is_right, cheats))} | {sum(map(_is_passed, cheats))} |"


def _is_right(one: Judged) -> bool:
    return one.verdict == RIGHT


def _is_passed(one: Judged) -> bool:
    return one.plain == "correct"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", help="parts of names")
    parser.add_argument("--only", nargs="+", choices=("cheats", "honest"), default=["cheats", "honest"])
    parser.add_argument("--needs", nargs="+", choices=(CPU, NATIVE, CUDA, TRITON))
    parser.add_argument("--jobs", type=int, default=1, help="candidates at a time; times mean something with 1 alone")
    parser.add_argument("--seconds", type=float, default=90.0, help="for one judgement")
    parser.add_argument("--log", type=Path, default=ROOT / "build/judge-suite.jsonl")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-plain", action="store_true")
    parser.add_argument(
        "--part", type=part_of, default=(0, 1), help="2/4: the second of four parts, each for a GPU of its own"
    )
    asked = parser.parse_args()
    rows, sources = rows_of(asked), digest()
    results = known(asked.log, sources)
    asked.log.parent.mkdir(parents=True, exist_ok=True)
    left = [row for row in rows if row.name not in results]
    with asked.log.open("a") as log:
        for done in results_of(left, asked):
            results[done.name] = done
            row = (CHEATS | HONEST)[done.name]
            log.write(json.dumps({"key": key_of(row, sources), **asdict(done)}) + "\n")
            log.flush()
            said = ", ".join(done.refusals) or done.state
            print(f"{done.verdict:9}{done.name}: {said} ({done.seconds:.0f} s; plain: {done.plain})", flush=True)
    chosen = [results[row.name] for row in rows]
    print("\n" + table_of(chosen))
    if asked.json:
        asked.json.write_text(json.dumps(_summary(chosen), indent=2) + "\n")
    return 0 if all(map(_is_right, chosen)) else 1


def _summary(results: Sequence[Judged]) -> dict[str, Any]:
    import torch

    from opsmith.benchmark.machine import this_machine

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else this_machine("cpu").name
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "device": device,
        "torch": torch.__version__,
        "verdicts": dict(Counter(f"{one.kind} {one.verdict}" for one in results)),
        "plain": dict(Counter(f"{one.kind} {one.plain}" for one in results)),
        "results": [asdict(one) for one in results],
    }


if __name__ == "__main__":
    sys.exit(main())
