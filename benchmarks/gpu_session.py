"""Runs tests and benchmarks side by side on the GPUs of a machine that is there for a short while, and keeps what they say.

    python benchmarks/gpu_session.py benchmarks/gpu_session.toml --output FOLDER [--seconds 560] [--only NAME ...]

A plan has steps, `[[step]]`: a `name`, what to `run` in the repository's folder, for how many `seconds` at most, and the
files that it writes, to `keep`. Each step goes to a GPU of its own, the next one as soon as a GPU is free; `gpus = 2` takes
two of them. What a step prints, and its files, are in FOLDER/session.tgz as soon as it has ended, and every ten seconds what
it has printed so far: a machine that is taken away costs no more than that.

The exit code is 1 if a step failed or did not get its turn.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
_TICK_S = 0.2
_CLOCK_S = 0.1  # by which the time of a file may be behind
_SAVED_EVERY_S = 10.0


@dataclass(frozen=True)
class Step:
    """Something to run on so many GPUs."""

    name: str
    run: str
    seconds: float
    keep: tuple[str, ...] = ()
    gpus: int = 1


@dataclass
class _Running:
    step: Step
    gpus: list[int]
    process: subprocess.Popen[bytes]
    ends_s: float
    begun: float  # by the clock of files


def read_plan(path: Path) -> list[Step]:
    """Read the steps of a plan; raises SystemExit for one that does not fit."""
    try:
        return [Step(**{**one, "keep": tuple(one.get("keep", ()))}) for one in tomllib.loads(path.read_text())["step"]]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise SystemExit(f"{path} is no plan of steps: {error}") from None


class Session:
    """Steps that wait, run, and have ended."""

    def __init__(self, steps: Sequence[Step], gpus: int, output: Path, seconds: float) -> None:
        self.waiting = list(steps)
        self.running: list[_Running] = []
        self.states: dict[str, str] = {}
        self.free = list(range(gpus))
        self.all = gpus
        self.output = output
        self.folder = Path(tempfile.mkdtemp(prefix="gpu-session-"))
        self.begun_s = time.monotonic()
        self.ends_s = self.begun_s + seconds
        self._saved_s = self.begun_s

    def go(self) -> bool:
        """Run all that there is time for, and return whether each step succeeded."""
        while (self.waiting or self.running) and time.monotonic() < self.ends_s:
            self._end_what_has_ended()
            self._begin_what_fits()
            if time.monotonic() - self._saved_s > _SAVED_EVERY_S:
                self.save()
            time.sleep(_TICK_S)
        for one in list(self.running):
            self._end(one, "cut off: the session's time was over")
        self.states |= {step.name: "not run: the session's time was over" for step in self.waiting}
        self.save()
        return all(state == "done" for state in self.states.values())

    def save(self) -> None:
        """Put what is known into the archive."""
        self._saved_s = time.monotonic()
        partial = self.output / ".session.tgz"
        with tarfile.open(partial, "w:gz") as archive:
            archive.add(self.folder, ".")
        partial.replace(self.output / "session.tgz")

    def _begin_what_fits(self) -> None:
        for step in list(self.waiting):
            needed = min(step.gpus, self.all)
            if len(self.free) < needed:
                continue
            gpus, self.free = self.free[:needed], self.free[needed:]
            self.waiting.remove(step)
            paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
            env = os.environ | {
                "CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus)),
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                "PYTHONUNBUFFERED": "1",
            }
            begun = time.time() - _CLOCK_S
            with (self.folder / f"{step.name}.txt").open("wb") as printed:
                process = subprocess.Popen(
                    step.run, shell=True, cwd=ROOT, env=env, stdout=printed, stderr=printed, start_new_session=True
                )
            self.running.append(_Running(step, gpus, process, time.monotonic() + step.seconds, begun))

    def _end_what_has_ended(self) -> None:
        for one in list(self.running):
            status = one.process.poll()
            if status is not None:
                self._end(one, "done" if status == 0 else f"failed: status {status}")
            elif time.monotonic() > one.ends_s:
                self._end(one, f"cut off after {one.step.seconds:.0f} s")

    def _end(self, one: _Running, state: str) -> None:
        if one.process.poll() is None:
            os.killpg(one.process.pid, 9)
            one.process.wait()
        if one in self.running:
            self.running.remove(one)
        self.free += one.gpus
        self.states[one.step.name] = state
        for path in (ROOT / name for name in one.step.keep):
            if path.is_file() and path.stat().st_mtime >= one.begun:  # not an older one, where it was not written
                (self.folder / path.name).write_bytes(path.read_bytes())
        print(f"{time.monotonic() - self.begun_s:5.0f} s  {one.step.name}: {state}", flush=True)
        self.save()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=560.0, help="for all of it")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these steps")
    parser.add_argument("--gpus", type=int, help="how many there are; by default as nvidia-smi says")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    gpus = given.gpus or len(subprocess.check_output(["nvidia-smi", "--list-gpus"], text=True).splitlines())
    steps = read_plan(given.plan)
    if unknown := set(given.only or ()) - {step.name for step in steps}:
        parser.error(f"{given.plan} has no step {min(unknown)!r}; there are {', '.join(step.name for step in steps)}")
    chosen = [step for step in steps if given.only is None or step.name in given.only]
    return 0 if Session(chosen, gpus, given.output, given.seconds).go() else 1


if __name__ == "__main__":
    sys.exit(main())
