"""Measures what an operator of an installed wheel costs a new process: the import of its project, and its first calls.

    python benchmarks/first_call.py [--rounds 21] [--output benchmarks/results/first_call.json]

The example's wheel is built and unpacked, and processes that do one after another what a user does take turns: with opsmith
and its bridge, with opsmith and no bridge, and with a standalone wheel. torch and jaxtyping are imported before the clock
starts, on one thread. `library` is what torch takes to load the same library, and the least that a first call can take.
Processor time depends less on what else the machine does than time on the clock.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from datetime import datetime, timezone
from pathlib import Path

import torch

from opsmith.package.wheel.build import WheelRequest, build_wheel
from opsmith.package.wheel.finish import finish_wheel
from opsmith.runtime.bridge_library import build_bridge
from opsmith.toolchain.processor import processor_name

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent / "src"
TARGETS_MS = {"first call": 30.0}

CHILD = """
import gc, json, sys, time
import torch
import jaxtyping
torch.set_num_threads(1)
x, decay = torch.randn(4, 64), torch.full((4,), 0.9)
leaf = torch.randn(4, 64, requires_grad=True)
found = {}
gc.collect()

def timed(name, work):
    begin = time.perf_counter(), time.process_time()
    result = work()
    found[name] = [time.perf_counter() - begin[0], time.process_time() - begin[1]]
    return result

smooth = timed("import", lambda: __import__("smooth"))
timed("first call", lambda: smooth.lowpass(x, decay))
timed("second call", lambda: smooth.lowpass(x, decay))
timed("first gradient", lambda: smooth.lowpass(leaf, decay).sum().backward())
own = [name for name in sys.modules if name.partition(".")[0] in ("opsmith", "smooth")]
print(json.dumps({"seconds": found, "modules": len(own)}))
"""
LIBRARY = """
import json, sys, time
import torch
begin = time.perf_counter(), time.process_time()
torch.ops.load_library(sys.argv[1])
print(json.dumps({"seconds": {"library": [time.perf_counter() - begin[0], time.process_time() - begin[1]]}}))
"""


def unpack(wheel: Path, folder: Path) -> Path:
    """Put a wheel where Python finds it, compiled as pip does."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    compileall.compile_dir(folder, quiet=1)
    return folder


def run(program: str, *arguments: str, path: list[Path], **environment: str) -> dict[str, object]:
    """Run a program in a new process and return what it says."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), **environment}
    argv = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    said: dict[str, object] = json.loads(done.stdout)
    return said


def measure(folder: Path, rounds: int) -> dict[str, list[dict[str, object]]]:
    """Return what each kind of process says, round by round."""
    project = shutil.copytree(HERE.parent / "examples" / "smooth", folder / "project")
    wheel = build_wheel(WheelRequest(project, folder / "dist"), lambda line: None).path
    site = unpack(wheel, folder / "site")
    alone = unpack(finish_wheel(Path(shutil.copy(wheel, folder)), standalone=True), folder / "alone")
    library = str(site / "smooth" / "_ops.so")
    kinds = {
        "opsmith": lambda: run(CHILD, path=[site, SOURCES], OPSMITH_BRIDGE="auto"),
        "without bridge": lambda: run(CHILD, path=[site, SOURCES], OPSMITH_BRIDGE="off"),
        "standalone": lambda: run(CHILD, path=[alone]),
        "library": lambda: run(LIBRARY, library, path=[]),
    }
    found: dict[str, list[dict[str, object]]] = {kind: [] for kind in kinds}
    for kind in kinds.values():
        kind()  # reads the files once
    for number in range(rounds):
        names = list(kinds)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            found[name].append(kinds[name]())
    return found


def summed(said: list[dict[str, object]]) -> dict[str, object]:
    """Return the medians of one kind of process, in milliseconds."""
    steps: dict[str, object] = {}
    for step in said[0]["seconds"]:
        wall, processor = zip(*(item["seconds"][step] for item in said), strict=True)
        steps[step] = {
            "ms": 1e3 * statistics.median(wall),
            "least_ms": 1e3 * min(wall),
            "processor_ms": 1e3 * statistics.median(processor),
        }
    return steps | ({"modules": said[0]["modules"]} if "modules" in said[0] else {})


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    build_bridge()
    with tempfile.TemporaryDirectory(prefix="opsmith-first-call-") as folder:
        found = {kind: summed(said) for kind, said in measure(Path(folder), arguments.rounds).items()}
    results = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": processor_name(),
        "torch": torch.__version__,
        "rounds": arguments.rounds,
        "targets_ms": TARGETS_MS,
        "processes": found,
    }
    for kind, steps in found.items():
        for step, value in steps.items():
            if isinstance(value, dict):
                print(
                    f"{kind:16} {step:16} {value['ms']:8.2f} ms  least {value['least_ms']:8.2f}  "
                    f"processor {value['processor_ms']:8.2f}"
                )
            else:
                print(f"{kind:16} {step:16} {value:8}")
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
