"""Measures what a cold build of one Triton kernel takes beside Triton's own compilation of it. No GPU is needed.

    python benchmarks/triton_build.py [--rounds 7] [--output benchmarks/results/triton_build.json]

One kernel for float32 in one configuration, for compute capability 9.0 (triton_build/). Each figure is the time on the clock
of a process of its own, from its start to its end, with an empty store and an empty cache of Triton's. Contenders take
turns, and ratios are formed within a round:

opsmith      `opsmith build scaled.py --arch 9.0`: all specialisations, the binding, and a library that loads
step         its step that compiles the kernels, alone
triton       triton.compile(ASTSource, GPUTarget) of the kernel's first specialisation
triton, all  the same of all specialisations that opsmith compiles
with torch   `import torch` before "triton", as where a kernel is called by its own launch

`parts` are those of opsmith's build, from a program that makes them one by one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

import triton
from build_time import environment, spread
from opsmith.build.discover import discover
from opsmith.build.ninja import write_files
from opsmith.build.prepare import prepare
from opsmith.toolchain.processor import processor_name

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "triton_build"
ARCH = "9.0"
KERNELS = str(FOLDER / "scaled_kernels.py")


class Builds:
    """The contenders. Each call is a process with a folder of its own, and returns its seconds."""

    def __init__(self, root: Path) -> None:
        self._root, self._number = root, 0
        (group,) = discover(str(FOLDER / "scaled.py"))
        self._plan = prepare(group, ("cuda",), archs=ARCH, strict=True).plan
        self._step = next(step for step in self._plan.steps if "--image" in step.argv)
        self._request = self._plan.files[self._step.inputs[0]]
        self.kernels = len(json.loads(self._request)["kernels"])

    def opsmith(self) -> float:
        folder = self._folder()
        return self._time([sys.executable, "-m", "opsmith", "build", "scaled.py", "--arch", ARCH], folder, FOLDER)

    def step(self) -> float:
        folder = self._folder()
        write_files(self._plan, folder)
        return self._time(list(self._step.argv), folder, folder)

    def triton(self, count: int = 1, *, with_torch: bool = False) -> float:
        folder = self._folder()
        request = folder / "request.json"
        request.write_text(self._request)
        code = "import runpy, sys, torch; sys.argv[:] = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
        head = [sys.executable, *(["-c", code] if with_torch else [])]
        return self._time([*head, str(FOLDER / "by_triton.py"), str(request), KERNELS, str(count)], folder, folder)

    def parts(self) -> dict[str, float]:
        folder = self._folder()
        argv = [sys.executable, str(FOLDER / "parts.py"), str(folder), ARCH]
        env = self._environment(folder)
        done = subprocess.run(argv, env=env, cwd=FOLDER, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return found

    def _folder(self) -> Path:
        self._number += 1
        folder = self._root / str(self._number)
        folder.mkdir()
        return folder

    def _environment(self, folder: Path) -> dict[str, str]:
        return {**environment(folder / "store", "off"), "TRITON_CACHE_DIR": str(folder / "triton")}

    def _time(self, argv: list[str], folder: Path, cwd: Path) -> float:
        env, started = self._environment(folder), time.perf_counter()
        done = subprocess.run(argv, env=env, cwd=cwd, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - started
        if done.returncode != 0:
            raise SystemExit(f"{argv} failed:\n{done.stdout}{done.stderr}")
        shutil.rmtree(folder)
        return seconds


def measure(builds: Builds, rounds: int) -> dict[str, Any]:
    """Return the seconds of all contenders, ours over Triton's, and those of our parts."""
    contenders: dict[str, Callable[[], float]] = {
        "opsmith": builds.opsmith,
        "step": builds.step,
        "triton": builds.triton,
        "triton, all": lambda: builds.triton(builds.kernels),
        "with torch": lambda: builds.triton(with_torch=True),
    }
    for call in contenders.values():  # byte code, and files in memory
        call()
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    parts: list[dict[str, float]] = []
    for index in range(rounds):
        for name in list(contenders)[:: 1 if index % 2 == 0 else -1]:
            samples[name].append(contenders[name]())
        parts.append(builds.parts())
        print(", ".join(f"{name} {values[-1]:.2f} s" for name, values in samples.items()), flush=True)
    return {
        "seconds": {name: spread(values) for name, values in samples.items()},
        "of_triton": {
            f"{ours} / {theirs}": spread([a / b for a, b in zip(samples[ours], samples[theirs], strict=True)])
            for ours, theirs in (
                ("opsmith", "triton"),
                ("opsmith", "triton, all"),
                ("opsmith", "with torch"),
                ("step", "triton"),
                ("step", "triton, all"),
            )
        },
        "parts": {name: spread([each[name] for each in parts]) for name in parts[0]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        builds = Builds(Path(root))
        result = {
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "device": processor_name(),
            "cores": len(os.sched_getaffinity(0)),
            "torch": torch.__version__,
            "triton": triton.__version__,
            "arch": ARCH,
            "kernels": builds.kernels,
            **measure(builds, given.rounds),
        }
    print(json.dumps(result, indent=1))
    if given.output:
        given.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
