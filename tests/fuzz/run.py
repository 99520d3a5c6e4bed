"""Runs the fuzzers for a while, on all cores, on request with operators that a sanitizer watches: `make fuzz`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from opsmith.checker.sanitize.tools import environment_of


def main() -> int:
    """Run pytest on this folder; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600, help="how long to search, by the clock")
    parser.add_argument("--sanitizer", choices=("address", "undefined"), help="what watches the operators' kernels")
    given = parser.parse_args()
    environment = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="opsmith-fuzz-") as folder:
        if given.sanitizer is not None:
            environment |= environment_of(given.sanitizer, Path(folder))
        command = [sys.executable, "-m", "pytest", str(Path(__file__).parent), "-n", "auto", "--fuzz-seconds"]
        return subprocess.run([*command, str(given.seconds)], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
