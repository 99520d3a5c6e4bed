"""Times the steps of examples/faster, the story of docs/guides/faster.md, each by `opsmith bench`.

    python benchmarks/faster_steps.py [--threads 1] [--seconds 60] [--output results.json]

A step is timed in a process of its own: against its definition in eager PyTorch, against torch.compile of that, and against
the step before it. The results are the steps' reports in one file, which `opsmith bench FILE` shows again; `how` says what
was asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STEPS = ROOT / "examples" / "faster" / "faster.py"
NAMES = ("naive", "one_exp", "vectors", "threads", "direct", "ahead")
# The heads and queries of a small attention. `opsmith bench` calls it with inputs in turn, more than the caches hold.
SIZE = "R=512,N=1024"


def bench(step: str, options: list[str]) -> dict[str, Any]:
    """Run `opsmith bench` for a step, on this terminal, and return what it reports."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        command = [sys.executable, "-m", "opsmith", "bench", f"{STEPS}::{step}", *options, "--json", str(file)]
        paths = os.pathsep.join(path for path in (str(ROOT / "src"), os.environ.get("PYTHONPATH", "")) if path)
        subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, check=True)
        report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, help="PyTorch's threads (default: PyTorch's setting)")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of a step")
    parser.add_argument("--note", default="", help="what else there is to say of the machine")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    options = ["--phase", "forward", "--size", SIZE, "--against", "eager", "--against", "compiled"]
    options += ["--seconds", str(arguments.seconds)]
    options += ["--threads", str(arguments.threads)] if arguments.threads else []
    reports = [bench(NAMES[0], options), *(bench(step, [*options, "--against", "before"]) for step in NAMES[1:])]
    whole = {
        **reports[0],
        "ok": all(report["ok"] for report in reports),
        "how": {"options": options, "note": arguments.note},
        "operators": [operator for report in reports for operator in report["operators"]],
    }
    if arguments.output:
        arguments.output.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
