"""Sums up what `opsmith check` found of the planted defects, for docs/results/figures.md: results/planted.json.

    python tests/checker/planted/score.py --seeds 0 1 2 3 4 --json build/planted.json
    python tests/checker/planted/gpu_table.py --seeds 0 1 2 3 4 --json build/planted_gpu.json
    python benchmarks/planted_score.py build/planted.json ... [--gpu build/planted_gpu.json ...]

Of several files with the same check the last one counts, and how many of them were not right before is written down: what
was changed and checked again. The machine is the one that the first file names.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
_RIGHT = "right"

Check = Mapping[str, Any]


def summary(files: Iterable[Mapping[str, Any]], gpu: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return counts by class and seed, from the contents of the files."""
    checks: dict[tuple[Any, ...], Check] = {}
    mended = set()
    machine, date, seconds = {}, "", 0.0
    for file in files:
        machine, date = machine or file.get("machine", {}), max(date, file.get("date", ""))
        for check in file["results"]:
            key = tuple(check["unit"][field] for field in ("what", "kind", "name", "seed"))
            if key in checks and checks[key]["verdict"] != _RIGHT:
                mended.add(key)
            checks[key] = check
            seconds += check["processor_s"]
    classes: dict[str, dict[str, dict[str, list[int]]]] = {}
    for (what, kind, _, seed), check in sorted(checks.items()):
        counts = classes.setdefault(kind, {}).setdefault(what, {}).setdefault(str(seed), [0, 0])
        counts[0] += check["verdict"] == _RIGHT
        counts[1] += 1
    return {
        "machine": machine,
        "date": date,
        "classes": classes,
        "mended": len(mended),
        "processor_s": round(seconds),
        "gpu": _of_gpu(gpu),
    }


def _of_gpu(files: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many checks of CUDA kernels with a defect gave its name, of how many, twins that were blamed, and where."""
    files = list(files)
    if not files:
        return {}
    rows = [row for file in files for row in file["rows"]]
    seeds = sorted({check["seed"] for file in files for check in file["checks"]})
    counts = {count: sum(row[count] for row in rows) for count in ("right", "checked", "twins", "blamed")}
    return {"machine": files[0]["machine"], "seeds": seeds, **counts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="what score.py has written, the latest last")
    parser.add_argument("--gpu", nargs="+", type=Path, default=[], help="what gpu_table.py has written")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "planted.json")
    given = parser.parse_args()
    read = [json.loads(file.read_text(encoding="utf-8")) for file in given.files]
    found = summary(read, [json.loads(file.read_text(encoding="utf-8")) for file in given.gpu])
    given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
