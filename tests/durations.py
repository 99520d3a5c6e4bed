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
    processor: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for file in asked.files:
        for case in ET.parse(file).iter("testcase"):
            if "classname" not in case.attrib:  # the run was stopped in it
                continue
            group = group_of(case.attrib["classname"], case.attrib["name"], asked.by)
            seconds[group] += float(case.attrib["time"])
            processor[group] += sum(
                float(item.attrib["value"]) for item in case.iter("property") if item.attrib["name"] == "processor_s"
            )
            tests[group] += 1
    total, worked = sum(seconds.values()), sum(processor.values())
    print(f"{worked:.0f} s of processor time, {total:.0f} s of all workers' time, in {sum(tests.values()):,} tests\n")
    print("  processor        time  tests")
    for group, taken in processor.most_common(asked.most):
        part = 100 * taken / worked if worked else 0
        print(f"{taken:9.1f} s {part:5.1f} % {seconds[group]:9.1f} s {tests[group]:6,}  {group}")


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
