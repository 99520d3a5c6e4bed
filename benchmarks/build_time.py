"""Measures build times: opsmith against torch.utils.cpp_extension and nvcc with an empty store, and opsmith's warm load.

    python benchmarks/build_time.py [--rounds 5] [--cuda] [--output benchmarks/results/build_time.json]

Every figure comes from a process of its own with an empty store (cold) or a filled one (warm); competitors take turns, and
ratios are formed within a round. Peak memory is the largest sum of resident memory over all processes of a build, sampled
every 5 ms. `--cuda` adds CUDA for one architecture (sm_90): opsmith's whole build of the kernel against nvcc alone on the
same kernel in a file with torch/extension.h.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import torch

from opsmith.toolchain.processor import processor_name

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "build_time"
ARCH = "9.0"


def environment(store: Path, bridge: str) -> dict[str, str]:
    path = os.pathsep.join([str(HERE.parent / "src"), str(FOLDER), os.environ.get("PYTHONPATH", "")])
    # Byte code must be cached: a benchmark of loading is not one of compiling Python.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    stores = {"OPSMITH_CACHE_DIR": str(store), "TORCH_EXTENSIONS_DIR": str(store / "torch")}
    # A cold build is timed in an empty store, and must not be disturbed by the bridges that those before it would build in
    # the background.
    return {**kept, **stores, "PYTHONPATH": path, "OPSMITH_BRIDGE": bridge}


class MemoryWatch(threading.Thread):
    """Samples the resident memory of a process's descendants; `peak_bytes` is the largest sum seen."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.peak_bytes, self.stop = pid, 0, threading.Event()

    def run(self) -> None:
        while not self.stop.wait(0.005):
            self.peak_bytes = max(self.peak_bytes, sum(map(resident_bytes, descendants(self.pid))))


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found


def resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def run(argv: list[str], store: Path, bridge: str = "off") -> tuple[str, int]:
    """Run a program to its end; return its last line and the peak memory of what it started."""
    with subprocess.Popen(
        argv, env=environment(store, bridge), cwd=FOLDER, stdout=subprocess.PIPE, text=True
    ) as process:
        watch = MemoryWatch(process.pid)
        watch.start()
        output, _ = process.communicate()
        watch.stop.set()
        watch.join()
    if process.returncode != 0:
        raise SystemExit(f"{argv} failed")
    return output.strip().splitlines()[-1] if output.strip() else "", watch.peak_bytes


def opsmith_cpp(store: Path, bridge: str = "off") -> dict[str, float]:
    line, peak = run([sys.executable, "opsmith_axpy.py"], store, bridge)
    return {**json.loads(line), "peak_bytes": peak}


def torch_cpp(store: Path) -> dict[str, float]:
    line, peak = run([sys.executable, "torch_axpy.py"], store)
    return {"load_s": float(line), "peak_bytes": peak}


def opsmith_cuda(store: Path) -> dict[str, float]:
    """The whole of `opsmith build`, minus what an interpreter with torch and opsmith needs to start."""
    code = (
        "import sys, time, torch, opsmith\n"
        "from opsmith.build.builders import Request, build_group\n"
        "from opsmith.build.discover import discover\n"
        "group = discover('axpy')[0]\n"
        "started = time.perf_counter()\n"
        f"build_group(group, 'jit', Request(('cuda',), archs='{ARCH}'))\n"
        "print(time.perf_counter() - started)\n"
    )
    line, peak = run([sys.executable, "-c", code], store)
    return {"load_s": float(line), "peak_bytes": peak}


def torch_nvcc(store: Path) -> dict[str, float]:
    from opsmith.toolchain import find_cuda_compiler, find_python_headers, find_torch

    cuda, found = find_cuda_compiler(), find_torch()
    includes = [f"-I{folder}" for folder in (*found.include_dirs, *find_python_headers().include_dirs)]
    store.mkdir(parents=True, exist_ok=True)
    argv = [str(cuda.nvcc), "-std=c++20", "-Xcompiler=-fPIC", "-ccbin", str(cuda.host.path)]
    argv += [f"-arch=sm_{ARCH.replace('.', '')}", "-DTORCH_EXTENSION_NAME=torch_axpy", *includes]
    started = time.perf_counter()
    _, peak = run([*argv, "-c", "torch_axpy.cu", "-o", str(store / "torch_axpy.o")], store)
    return {"load_s": time.perf_counter() - started, "peak_bytes": peak}


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "count": len(values)}


def compare(ours: Callable, theirs: Callable, rounds: int, root: Path) -> dict[str, object]:
    """Take turns, each time with an empty store, and form the ratio within each round."""
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    peaks: dict[str, list[float]] = {"ours": [], "theirs": []}
    for index in range(rounds):
        # The order alternates, so that a drift of the machine's speed favours neither.
        for name, function in [("ours", ours), ("theirs", theirs)][:: 1 if index % 2 == 0 else -1]:
            result = function(root / f"{name}{index}{function.__name__}")
            seconds[name].append(result["load_s"])
            peaks[name].append(result["peak_bytes"])
            print(
                f"  {function.__name__:13} {result['load_s']:7.2f} s  {result['peak_bytes'] / 1e6:6.0f} MB", flush=True
            )
    ratios = [b / a for a, b in zip(seconds["ours"], seconds["theirs"], strict=True)]
    return {
        "ours_s": spread(seconds["ours"]),
        "theirs_s": spread(seconds["theirs"]),
        "times_faster": spread(ratios),
        "ours_peak_bytes": spread(peaks["ours"]),
        "theirs_peak_bytes": spread(peaks["theirs"]),
    }


def warm(rounds: int, root: Path) -> dict[str, object]:
    store = root / "warm"
    opsmith_cpp(store, "wait")
    results = [opsmith_cpp(store, "auto") for _ in range(4 * rounds)]
    return {
        "import_opsmith_s": spread([result["import_s"] for result in results]),
        "declare_s": spread([result["declare_s"] for result in results]),
        "load_s": spread([result["load_s"] for result in results]),
        "started_programs": max(result["started_programs"] for result in results),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    report: dict[str, object] = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": {"cpu": processor_name(), "cores": len(os.sched_getaffinity(0)), "system": platform.platform()},
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        print("warm load in a new process")
        report["warm"] = warm(arguments.rounds, root)
        print("cold build of one C++ kernel, against torch.utils.cpp_extension.load_inline")
        report["cpp"] = compare(opsmith_cpp, torch_cpp, arguments.rounds, root)
        if arguments.cuda:
            print(f"cold build of one CUDA kernel for sm_{ARCH}, against nvcc with torch/extension.h")
            report["cuda"] = compare(opsmith_cuda, torch_nvcc, max(1, arguments.rounds // 2), root)
    print(json.dumps(report, indent=2))
    if arguments.output is not None:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
