"""Runs the benchmarks of suite.toml, all or those named, and goes on after a failure.

    python benchmarks/run.py                            # all for the CPU
    python benchmarks/run.py --device cuda mlp nms      # two for a GPU
    python benchmarks/run.py --list                     # their names
    python benchmarks/run.py --dry-run                  # the commands, without running them

It needs neither a network nor an installed opsmith: what it starts finds both in this source tree. Exits with 1 and names
the benchmarks that failed; `python benchmarks/tables.py` then makes the tables from the results.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Benchmark", "command", "read_suite"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SUITE = HERE / "suite.toml"
DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Benchmark:
    """One row of the suite: an operator for `opsmith bench`, or a program of this folder."""

    name: str
    device: str
    results: Path
    operator: str = ""
    program: str = ""
    arguments: tuple[str, ...] = ()


def read_suite(path: Path = SUITE) -> dict[str, tuple[Benchmark, ...]]:
    """Return the benchmarks of each device, in the file's order. Raises ValueError, which names the row that is wrong."""
    tables: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    shared: dict[str, str] = tables.pop("arguments", {})
    if unknown := set(tables) - set(DEVICES):
        raise ValueError(f"{path.name}: {', '.join(sorted(unknown))} is not one of {', '.join(DEVICES)}")
    return {
        device: tuple(_benchmark(device, name, row, shared) for name, row in tables.get(device, {}).items())
        for device in DEVICES
    }


def _benchmark(device: str, name: str, row: dict[str, str], shared: dict[str, str]) -> Benchmark:
    where = f"[{device}.{name}]"
    if unknown := set(row) - {"operator", "program", "arguments", "results"}:
        raise ValueError(f"{where} has unknown keys: {', '.join(sorted(unknown))}")
    if ("operator" in row) == ("program" in row) or "results" not in row:
        raise ValueError(f"{where} needs `results`, and either `operator` or `program`")
    try:
        arguments = shlex.split(row.get("arguments", "").format(**shared))
    except KeyError as error:
        raise ValueError(f"{where} uses {error}, which [arguments] does not have") from None
    results = HERE / "results" / row["results"]
    return Benchmark(name, device, results, row.get("operator", ""), row.get("program", ""), tuple(arguments))


def command(benchmark: Benchmark) -> list[str]:
    """Return what runs a benchmark, relative to the repository, without the interpreter."""
    results = str(benchmark.results.relative_to(ROOT))
    if benchmark.program:
        return [str(Path("benchmarks") / benchmark.program), *benchmark.arguments, "--output", results]
    fixed = ["-m", "opsmith", "bench", benchmark.operator, "--device", benchmark.device]
    return [*fixed, *benchmark.arguments, "--json", results]


def run(benchmark: Benchmark) -> bool:
    """Run one benchmark on this terminal and return whether it succeeded."""
    paths = [str(ROOT / "src"), *([str(HERE)] if benchmark.operator else []), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    return subprocess.run([sys.executable, *command(benchmark)], cwd=ROOT, env=env, check=False).returncode == 0


def _chosen(suite: tuple[Benchmark, ...], names: list[str], parser: argparse.ArgumentParser) -> list[Benchmark]:
    known = [benchmark.name for benchmark in suite]
    for name in names:
        if name not in known:
            parser.error(f"no benchmark {name!r} for this device; there are {', '.join(known)}")
    return [benchmark for benchmark in suite if not names or benchmark.name in names]


def main() -> int:
    """Run what the command line names; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run (default: all)")
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="the kind of machine (default: cpu)")
    parser.add_argument("--list", action="store_true", help="list the names and exit")
    parser.add_argument("--dry-run", action="store_true", help="print the commands and exit")
    options = parser.parse_args()
    chosen = _chosen(read_suite()[options.device], options.names, parser)
    if options.list or options.dry_run:
        for benchmark in chosen:
            print(benchmark.name if options.list else shlex.join(["python", *command(benchmark)]))
        return 0
    failed = []
    for number, benchmark in enumerate(chosen, start=1):
        print(f"[{number}/{len(chosen)}] {benchmark.name}: {shlex.join(command(benchmark))}", flush=True)
        began = time.monotonic()
        succeeded = run(benchmark)
        print(f"{'done' if succeeded else 'FAILED'} in {time.monotonic() - began:.0f} s\n", flush=True)
        if not succeeded:
            failed.append(benchmark.name)
    if failed:
        print(f"{len(failed)} of {len(chosen)} failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
