"""What those that run the tests of others share: where opsmith is, and what became of the tests."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path


def print_outcomes(file: str, report: Path, expected: Mapping[str, str]) -> int:
    """Print how many tests passed, were skipped and failed, and return how many failed that should not have.

    `expected` has the reasons of those that are to fail, by their names. One of these that passes is named too.
    """
    outcomes: dict[str, list[str]] = {"passed": [], "skipped": [], "failed": []}
    for case in ET.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        state = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        outcomes[state].append(case.get("name") or "")
    print(f"{file}: " + ", ".join(f"{len(names)} {state}" for state, names in outcomes.items()))
    surprises = 0
    for name in outcomes["failed"]:
        print(f"  {name}: {expected.get(name, 'NOT EXPECTED')}")
        surprises += name not in expected
    for name in expected.keys() & set(outcomes["passed"]):
        print(f"  {name} passed, though EXPECTED names it")
    return surprises


def find_opsmith() -> list[str]:
    """Return the folders that this process has opsmith from, for those that start elsewhere."""
    import opsmith

    return [str(Path(opsmith.__file__).parents[1]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
