"""Measures the way from `git clone` of the example project to an audited wheel that is proved.

    python benchmarks/ship_time.py [--torch 2.13] [--environments 6] [--output benchmarks/results/ship_time.json]

In a new virtual environment it does what a user does: it installs opsmith from this checkout and torch, runs `opsmith wheel`
with an empty store, and `opsmith prove`. torch comes from pip's own indexes and folders (PIP_FIND_LINKS); the first
environment's installation of it is shown, and counts as its download. Where only one release of torch can be had, the proof
makes as many environments with it as there are releases: `--environments` of them. Processor time depends less on what else
the machine does than time on the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

from opsmith.toolchain.processor import processor_name

CHECKOUT = Path(__file__).resolve().parent.parent
TARGET_S = 90.0
# What it takes to get torch is not ours.
APART = "install torch"


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


def measure(folder: Path, release: str, environments: int) -> dict[str, object]:
    """Return what each step takes, and what the proof says."""
    repository = make_repository(folder / "repository")
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    watch = Stopwatch(folder, {**kept, "OPSMITH_CACHE_DIR": str(folder / "store"), "CUDA_VISIBLE_DEVICES": ""})
    programs = folder / "venv" / "bin"
    pip = (programs / "python", "-m", "pip", "install", "--quiet")
    watch.run("git clone", "git", "clone", "--quiet", repository, "smooth")
    watch.run("new environment", sys.executable, "-m", "venv", folder / "venv")
    watch.run(APART, *pip, f"torch=={release}.*")
    watch.run("install opsmith", *pip, f"{CHECKOUT}[wheel]", "setuptools>=77")
    watch.run("opsmith wheel", programs / "opsmith", "wheel", "smooth", "--output", "dist")
    (wheel,) = (folder / "dist").iterdir()
    torches = [word for _ in range(environments) for word in ("--torch", release)]
    said = watch.run("opsmith prove", programs / "opsmith", "prove", wheel, *torches, "--index-url", "pip", "--json")
    rows = json.loads(said)["rows"]
    total = sum(taken["s"] for step, taken in watch.steps.items() if step != APART)
    return {
        "steps": watch.steps,
        "torches": [row["torch"] for row in rows],
        "inputs": sum(row["inputs"] for row in rows),
        "total_s": total,
        "target": {"most_s": TARGET_S, "met": total <= TARGET_S},
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", default="2.13")
    parser.add_argument("--environments", type=int, default=6)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="opsmith-ship-") as folder:
        found = measure(Path(folder), options.torch, options.environments)
    verdict = "met" if found["target"]["met"] else "NOT met"
    print(f"{'without torch':18} {found['total_s']:7.1f} s   target {TARGET_S:g} s: {verdict}")
    results = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg()[0],
        **found,
    }
    if options.output:
        options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
