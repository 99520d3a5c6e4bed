"""Lists what `make test` leaves to `make test-all` and `make test-nightly`, by reason: python tests/slow_tests.py"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest


class _Reasons:
    """A plugin that collects the reasons of slow tests."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str, str], int] = defaultdict(int)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the tests of each file and reason."""
        for item in session.items:
            mark = item.get_closest_marker("nightly") or item.get_closest_marker("slow")
            if mark is not None:
                self.files[mark.name, mark.args[0], item.location[0]] += 1


def main() -> None:
    """Print the reasons with their files and numbers of tests."""
    reasons = _Reasons()
    pytest.main(["--collect-only", "-q", "-q", "-m", "slow or nightly", str(Path(__file__).parent)], plugins=[reasons])
    for (mark, reason, file), count in sorted(reasons.files.items()):
        print(f"{count:5}  {mark:7}  {file:48} {reason}")


if __name__ == "__main__":
    main()
