"""Records what `opsmith check` prints for the README's first operator, and on which machine.

python benchmarks/check_screen.py [--output benchmarks/results/check_screen.json]
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from opsmith.benchmark.machine import this_machine

README = Path(__file__).resolve().parent.parent / "README.md"
COMMAND = ("check", "smooth")


def write_first_operator(folder: Path) -> None:
    """Write the two files that a reader is asked to make."""
    text = README.read_text(encoding="utf-8")
    folder.mkdir()
    for language, name in (("python", "__init__.py"), ("cpp", "lowpass.cpp")):
        found = re.search(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)
        assert found is not None
        (folder / name).write_text(found[1], encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        write_first_operator(Path(scratch, "smooth"))
        argv = [sys.executable, "-m", "opsmith", *COMMAND]
        done = subprocess.run(argv, cwd=scratch, check=True, capture_output=True, text=True)
    print(done.stdout)
    result = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": this_machine("cpu").as_json(),
        "command": " ".join(("opsmith", *COMMAND)),
        "screen": done.stdout,
    }
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
