"""Builds the operator in a folder, by the steps of its plan, and prints the seconds of each part as JSON.

python parts.py FOLDER ARCH
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main() -> None:
    """Build, and print the parts."""
    folder, archs = Path(sys.argv[1]), sys.argv[2]
    marks = {"": time.perf_counter()}

    import torch  # noqa: F401

    marks["import torch"] = time.perf_counter()

    from opsmith.build.discover import discover

    (group,) = discover("scaled.py")
    marks["import the operator"] = time.perf_counter()

    from opsmith.build.jobs import choose_jobs
    from opsmith.build.ninja import run_steps
    from opsmith.build.prepare import prepare

    plan = prepare(group, ("cuda",), archs=archs, strict=True).plan
    marks["probes, code, plan"] = time.perf_counter()
    if (output := run_steps(plan, folder, jobs=choose_jobs(plan))) is not None:
        sys.exit(output)
    marks["all steps"] = time.perf_counter()
    times = list(marks.values())
    parts = {name: after - before for name, before, after in zip([*marks][1:], times, times[1:], strict=False)}
    # A line of ninja's log: begin and end in milliseconds, a time stamp, what was made, a digest of the command.
    for line in (folder / ".ninja_log").read_text().splitlines()[1:]:
        begin, end, _, name, _ = line.split("\t")
        parts[f"step {name}"] = (int(end) - int(begin)) / 1e3
    print(json.dumps(parts))


if __name__ == "__main__":
    main()
