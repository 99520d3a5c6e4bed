"""Measures the way from `git clone` of the example project to an audited wheel that is proved.

    python benchmarks/ship_time.py [--torch 2.13.0 ...] [--rounds 3] [--output benchmarks/results/ship_time.json]

In a new virtual environment it does what a user does: it installs opsmith from this checkout and torch, runs `opsmith wheel`
with an empty store, and `opsmith prove`. To get the releases of torch is shown and not counted: it depends on the network
and the disk. A first proof gets those of the proof, and keeps them (`--keep`). They come from pip's own indexes and folders
(PIP_FIND_LINKS). Where only one release can be had, its name may be spelt in several ways, as 2.13, 2.13.0 and 2.13.0.0,
for as many environments. Processor time depends less on what else the machine does than time on the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from opsmith.toolchain.processor import processor_name

CHECKOUT = Path(__file__).resolve().parent.parent
TARGET_S = 90.0
# What it takes to get torch is not ours.
APART = ("install torch", "get torches")
# The same release six times: as many environments as there are releases from 2.10 to 2.15.
SPELLINGS = ["2.13" + ".0" * zeros for zeros in range(6)]


class Stopwatch:
    """Runs commands one after another, and notes what each step takes."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.steps: dict[str, dict[str, float]] = {}
        self._folder, self._environment = folder, environment

    def run(self, step: str, *command: str | Path) -> str:
        """Run a command and return what it prints; ends the program where it fails."""
        before = _processor_s()
        started = time.perf_counter()
        words = list(map(str, command))
        done = subprocess.run(
            words, cwd=self._folder, env=self._environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"{step} failed:\n{done.stdout}\n{done.stderr}")
        taken = {"s": time.perf_counter() - started, "processor_s": _processor_s() - before}
        self.steps[step] = taken
        print(f"{step:18} {taken['s']:7.1f} s   processor {taken['processor_s']:7.1f} s", flush=True)
        return done.stdout


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def make_repository(folder: Path) -> Path:
    """Return a git repository of the example project."""
    shutil.copytree(CHECKOUT / "examples" / "smooth", folder, ignore=shutil.ignore_patterns("*.so", "build", "dist"))
    author = ["-c", "user.name=opsmith", "-c", "user.email=opsmith@localhost"]
    for words in (["init", "--quiet"], ["add", "--all"], [*author, "commit", "--quiet", "--message", "smooth"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def measure(folder: Path, torches: list[str]) -> dict[str, Any]:
    """Return what each step takes, and what the proof says."""
    repository = make_repository(folder / "repository")
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    watch = Stopwatch(folder, {**kept, "OPSMITH_CACHE_DIR": str(folder / "store"), "CUDA_VISIBLE_DEVICES": ""})
    programs = folder / "venv" / "bin"
    pip = (programs / "python", "-m", "pip", "install", "--quiet")
    watch.run("git clone", "git", "clone", "--quiet", repository, "smooth")
    watch.run("new environment", sys.executable, "-m", "venv", folder / "venv")
    watch.run("install torch", *pip, f"torch=={torches[0]}.*")
    watch.run("install opsmith", *pip, "--editable", f"{CHECKOUT}[wheel]", "setuptools>=77")
    watch.run("opsmith wheel", programs / "opsmith", "wheel", "smooth", "--output", "dist")
    (wheel,) = (folder / "dist").iterdir()
    chosen = [word for torch in torches for word in ("--torch", torch)]
    prove = (programs / "opsmith", "prove", wheel, *chosen, "--index-url", "pip", "--keep", folder / "kept", "--json")
    watch.run("get torches", *prove)
    rows = json.loads(watch.run("opsmith prove", *prove))["rows"]
    total = sum(taken["s"] for step, taken in watch.steps.items() if step not in APART)
    return {
        "steps": watch.steps,
        "torches": [row["torch"] for row in rows],
        "inputs": sum(row["inputs"] for row in rows),
        "total_s": total,
        "processor_s": sum(taken["processor_s"] for step, taken in watch.steps.items() if step not in APART),
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--conditions", default="", help="what the reader should know of the machine's state")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rounds = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="opsmith-ship-") as folder:
            rounds.append(measure(Path(folder), options.torch or SPELLINGS))
        print(f"{'without torch':18} {rounds[-1]['total_s']:7.1f} s   processor {rounds[-1]['processor_s']:7.1f} s\n")
    median = statistics.median(item["total_s"] for item in rounds)
    results = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "conditions": options.conditions,
        "median_s": median,
        "target": {"most_s": TARGET_S, "met": median <= TARGET_S},
        "rounds": rounds,
    }
    print(
        f"median of {len(rounds)}: {median:.1f} s; target {TARGET_S:g} s: {'met' if median <= TARGET_S else 'NOT met'}"
    )
    if options.output:
        options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
