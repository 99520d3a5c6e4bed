"""Record what the failures of cases.py print: `python tests/catalogue/record.py [ID ...]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from cases import CASES, is_possible, produce

RECORDED = Path(__file__).resolve().parent / "recorded"
_MOST_LINES = 40


def main() -> None:
    wanted = set(sys.argv[1:])
    for case in CASES:
        if wanted and case.id not in wanted:
            continue
        if not is_possible(case):
            print(f"{case.id}: needs {', '.join(case.needs)}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            output = produce(case, Path(folder))
        lines = output.splitlines()[:_MOST_LINES]
        command = case.command.replace("\n", " ")
        (RECORDED / f"{case.id}.txt").write_text("\n".join([f"# made by: {command}", *lines]) + "\n", encoding="utf-8")
        print(f"{case.id}: {len(lines)} lines")


if __name__ == "__main__":
    main()
