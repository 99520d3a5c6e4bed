"""Adds up where a test run's time went, from the JUnit files that `make test` leaves in build/.

python tests/durations.py build/test.xml [build/test-slow.xml ...] [--by folder|file|test] [--most 30]
"""

from __future__ import annotations

import argparse
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path


def main() -> None:
    """Print the tests, files or folders that took longest, with the part of the whole that is theirs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--by", choices=("folder", "file", "test"), default="file")
    parser.add_argument("--most", type=int, default=30)
    asked = parser.parse_args()
    seconds: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for file in asked.files:
        for case in ET.parse(file).iter("testcase"):
            group = group_of(case.attrib["classname"], case.attrib["name"], asked.by)
            seconds[group] += float(case.attrib["time"])
            tests[group] += 1
    total = sum(seconds.values())
    print(f"{total:.0f} s in {sum(tests.values()):,} tests, all workers together")
    for group, taken in seconds.most_common(asked.most):
        print(f"{taken:8.1f} s {100 * taken / total:5.1f} % {tests[group]:6,} {group}")


def group_of(module: str, test: str, by: str) -> str:
    """Return what a test is counted under: `tests.store.test_races` is a file in the folder `tests/store`."""
    *folders, name = module.split(".")
    return {
        "folder": "/".join(folders),
        "file": "/".join([*folders, f"{name}.py"]),
        "test": "/".join([*folders, f"{name}.py::{test}"]),
    }[by]


if __name__ == "__main__":
    main()
