"""Measures build times of unchanged code for torch.utils.cpp_extension, with opsmith and with PyTorch's own tool.

    python benchmarks/existing_build.py [--rounds 5] [--racers 16] [--cuda] [--output benchmarks/results/existing_build.json]

One C++ file with torch/extension.h is loaded by `load` with only its name and source. Cold: the store is empty. Header
warm: the store has only torch's precompiled header. Warm: it has the library. Every figure comes from a process of its own
and includes the import of the tool; competitors take turns in one run, and ratios are formed within a round. No compiler
cache is used.

At the end many processes, each of which has imported torch, load one extension at the same moment: the time until the last
has it, against one process alone, both with empty stores. The memory of that many processes slows any compiler down on some
virtual machines, so a single load while the others sleep is timed as well.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from build_time import spread
from opsmith.toolchain.processor import processor_name

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "existing_build"


class Bench:
    """A folder for stores and copies of the source."""

    def __init__(self, root: Path) -> None:
        self.root, self.count = root, 0

    def source(self, name: str = "extension.cpp") -> Path:
        """Return a copy of the source with a comment that no other copy has: nothing built before can serve."""
        self.count += 1
        copy = self.root / f"source{self.count}" / name
        copy.parent.mkdir()
        copy.write_text(f"// copy {self.count}\n" + (FOLDER / name).read_text())
        return copy

    def store(self) -> Path:
        self.count += 1
        return self.root / f"store{self.count}"

    def start(
        self, who: str, source: Path, store: Path, pch: str = "off", flags: str = "", *gate: Path
    ) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env = {
            **kept,
            "PYTHONPATH": os.pathsep.join([str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")]),
            "OPSMITH_CACHE_DIR": str(store),
            "TORCH_EXTENSIONS_DIR": str(store / "torch"),
            "OPSMITH_PCH": pch,
            "TORCH_NO_COMPILER_WRAPPER": "1",
        }
        argv = [sys.executable, str(FOLDER / "load.py"), who, str(source), flags, *map(str, gate)]
        return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True)

    def run(self, who: str, source: Path, store: Path, pch: str = "off", flags: str = "") -> dict[str, Any]:
        with self.start(who, source, store, pch, flags) as process:
            output, _ = process.communicate()
        if process.returncode != 0:
            raise SystemExit(f"{who} failed")
        result: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
        return result


def cold_and_header_warm(bench: Bench, rounds: int) -> dict[str, Any]:
    """Take turns: PyTorch's tool, opsmith with an empty store, opsmith with a store that has the header.

    PyTorch's `load` compiles without any -O where nobody asks, opsmith's with -O3; so both are timed with either.
    """
    with_header = bench.store()
    began = bench.run("ours", bench.source(), with_header, "wait")
    bench.run("ours", bench.source(), with_header, "wait", "-O0")
    print(f"  the header and one build {began['load_s']:.2f} s", flush=True)
    seconds: dict[str, list[float]] = {
        name: [] for name in ("theirs", "theirs_O3", "cold", "header_warm", "header_warm_O0")
    }
    for index in range(rounds):
        turns = [
            ("theirs", lambda: bench.run("theirs", bench.source(), bench.store())),
            ("theirs_O3", lambda: bench.run("theirs", bench.source(), bench.store(), flags="-O3")),
            ("cold", lambda: bench.run("ours", bench.source(), bench.store())),
            ("header_warm", lambda: bench.run("ours", bench.source(), with_header, "auto")),
            ("header_warm_O0", lambda: bench.run("ours", bench.source(), with_header, "auto", "-O0")),
        ]
        # The order alternates, so that a drift of the machine's speed favours nobody.
        for name, run in turns[:: 1 if index % 2 == 0 else -1]:
            seconds[name].append(run()["load_s"])
            print(f"  {name:14} {seconds[name][-1]:6.2f} s", flush=True)
    report: dict[str, Any] = {"header_and_build_s": began["load_s"]}
    for name, values in seconds.items():
        report[f"{name}_s"] = spread(values)
    pairs = {"cold": "theirs", "header_warm": "theirs", "header_warm_O0": "theirs"}
    same = {"cold": "theirs_O3", "header_warm": "theirs_O3"}
    for suffix, against in (("", pairs), ("_both_O3", same)):
        for name, other in against.items():
            report[f"{name}{suffix}_times_faster"] = spread(
                [theirs / ours for theirs, ours in zip(seconds[other], seconds[name], strict=True)]
            )
    return report


def cuda_cold(bench: Bench, rounds: int) -> dict[str, Any]:
    """Take turns with a CUDA file, each time with an empty store; the architecture is that of the GPU."""
    seconds: dict[str, list[float]] = {"theirs": [], "ours": []}
    for index in range(rounds):
        for who in ("ours", "theirs")[:: 1 if index % 2 == 0 else -1]:
            seconds[who].append(bench.run(who, bench.source("extension_cuda.cu"), bench.store())["load_s"])
            print(f"  {who:12} {seconds[who][-1]:6.2f} s", flush=True)
    ratios = [theirs / ours for theirs, ours in zip(seconds["theirs"], seconds["ours"], strict=True)]
    return {**{f"{who}_s": spread(values) for who, values in seconds.items()}, "times_faster": spread(ratios)}


def warm(bench: Bench, rounds: int) -> dict[str, Any]:
    """Load again and again what is finished, each time in a new process, with either tool."""
    source, stores = bench.source(), {"ours": bench.store(), "theirs": bench.store()}
    for who, store in stores.items():
        bench.run(who, source, store)
        bench.run(who, source, store)  # byte code
    results: dict[str, list[dict[str, Any]]] = {"ours": [], "theirs": []}
    for index in range(4 * rounds):
        for who in ("ours", "theirs")[:: 1 if index % 2 == 0 else -1]:
            results[who].append(bench.run(who, source, stores[who]))
    report = {f"{who}_s": spread([item["load_s"] for item in items]) for who, items in results.items()}
    programs = {f"{who}_programs": max(item["programs"] for item in items) for who, items in results.items()}
    return {**report, **programs}


def race(bench: Bench, racers: int, rounds: int) -> dict[str, Any]:
    """Let many processes ask for one extension at once, and compare with one process alone."""
    together, beside_sleepers, alone = [], [], []
    for _ in range(rounds):
        alone.append(timed_race(bench, 1))
        beside_sleepers.append(timed_race(bench, 1, sleepers=racers - 1))
        together.append(timed_race(bench, racers))
        print(
            f"  1 process {alone[-1]:.2f} s, beside {racers - 1} that sleep {beside_sleepers[-1]:.2f} s, "
            f"{racers} processes {together[-1]:.2f} s",
            flush=True,
        )
    return {
        "racers": racers,
        "alone_s": spread(alone),
        "beside_sleepers_s": spread(beside_sleepers),
        "together_s": spread(together),
        "ratio_to_alone": spread([many / one for many, one in zip(together, alone, strict=True)]),
        "ratio": spread([many / one for many, one in zip(together, beside_sleepers, strict=True)]),
    }


def timed_race(bench: Bench, racers: int, sleepers: int = 0) -> float:
    """Return how long it takes until each of some processes has the extension, while others have torch and sleep."""
    source, store = bench.source(), bench.store()
    gate, bed = source.parent / "gate", source.parent / "bed"
    gate.mkdir()
    bed.mkdir()
    idle = [bench.start("ours", source, store, "off", "", bed) for _ in range(sleepers)]
    processes = [bench.start("ours", source, store, "off", "", gate) for _ in range(racers)]
    while len([*gate.glob("ready*"), *bed.glob("ready*")]) < racers + sleepers:
        time.sleep(0.05)
    started = time.time()
    (gate / "open").touch()
    outputs = [process.communicate()[0] for process in processes]
    for process in idle:
        process.kill()
        process.communicate()
    if any(process.returncode != 0 for process in processes) or not all(outputs):
        raise SystemExit("a racer failed")
    libraries = list(store.glob("v*/artifacts/*/*/*.so"))
    if len(libraries) != 1:
        raise SystemExit(f"{len(libraries)} libraries were built, not one")
    # The clock of all processes; when they have checked the module and ended does not count.
    return max(float(json.loads(output.strip().splitlines()[-1])["ended_at"]) for output in outputs) - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--racers", type=int, default=16)
    parser.add_argument("--cuda", action="store_true", help="a CUDA extension too, which needs a GPU")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    report: dict[str, Any] = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": {"cpu": processor_name(), "cores": len(os.sched_getaffinity(0)), "system": platform.platform()},
        "torch": torch.__version__,
        "python": platform.python_version(),
        "compiler": subprocess.run(
            ["c++", "--version"], capture_output=True, text=True, check=True
        ).stdout.splitlines()[0],
    }
    root = Path(tempfile.mkdtemp(prefix="existing-build-"))
    try:
        bench = Bench(root)
        print("cold, and with torch's header precompiled, against torch.utils.cpp_extension")
        report["build"] = cold_and_header_warm(bench, arguments.rounds)
        if arguments.cuda:
            print("a CUDA file, cold, against torch.utils.cpp_extension")
            report["gpu"] = torch.cuda.get_device_name()
            report["cuda"] = cuda_cold(bench, max(1, arguments.rounds // 2))
        print("warm")
        report["warm"] = warm(bench, arguments.rounds)
        print(f"{arguments.racers} processes race for one extension")
        report["race"] = race(bench, arguments.racers, max(1, arguments.rounds // 2))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(json.dumps(report, indent=2))
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
