"""Times `opsmith check` of the README's first operator and of each of the library's, one after the other.

    python benchmarks/check_times.py [NAME ...] [--output benchmarks/results/check_times.json]

Each is a command of its own on a machine that does nothing else. What is recorded is the report's time: of the check,
without the start of Python and without a build. `python benchmarks/tables.py` makes the table of docs/guides/check.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from check_screen import write_first_operator
from mutation import operators
from opsmith.benchmark.machine import this_machine

README = "smooth"
_SLOWEST = 3


def check(operator: str, folder: str) -> dict[str, Any]:
    """Check an operator on the CPU; return its time, inputs, and the properties that took longest."""
    argv = [sys.executable, "-m", "opsmith", "check", operator, "--device", "cpu", "--json"]
    done = subprocess.run(argv, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{operator}: exit code {done.returncode}\n{done.stderr or done.stdout}")
    (report,) = json.loads(done.stdout)["operators"]
    by_property: dict[str, float] = {}
    for result in report["results"]:
        by_property[result["property"]] = by_property.get(result["property"], 0.0) + result["seconds"]
    slowest = sorted(by_property, key=lambda name: -by_property[name])[:_SLOWEST]
    return {
        "name": report["name"],
        "seconds": report["seconds"],
        "inputs": sum(result["inputs"] for result in report["results"]),
        "left_out": sum(result["left_out"] for result in report["results"]),
        "slowest": {name: round(by_property[name], 1) for name in slowest},
    }


def checks(names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the result of each operator as it comes."""
    with tempfile.TemporaryDirectory() as scratch:
        write_first_operator(Path(scratch, README))
        listed = [*([README] if not names or README in names else []), *operators(names)]
        for number, operator in enumerate(listed):
            found = check(operator, scratch)
            print(
                f"{number + 1}/{len(listed)}  {found['name']:32} {found['seconds']:5.1f} s", file=sys.stderr, flush=True
            )
            yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="operators, or modules of opsmith.ops; default: all")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    results = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": this_machine("cpu").as_json(),
        "checks": list(checks(arguments.names)),
    }
    text = json.dumps(results, indent=2) + "\n"
    if arguments.output is not None:
        arguments.output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
