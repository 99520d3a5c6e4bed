"""What the fuzzers share: how long they search, and the child process that each input is tried in."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

sys.path.append(str(Path(__file__).parent))

from outcomes import all_pass

Fuzz = Callable[..., None]

_SETTINGS = settings(
    deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink]
)
# How many inputs are generated between two looks at the clock.
_ROUND = 50


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fuzz-seconds", type=float, help="search for so long, with other inputs each time; without it, for seconds"
    )


@pytest.fixture
def fuzz(request: pytest.FixtureRequest) -> Fuzz:
    """Return a function that tries generated inputs, and raises for the smallest that fails.

    It tries `examples`, always the same ones, or others for this test's share of `--fuzz-seconds`; `together` tries
    many in one child, for a test that leaves nothing behind.
    """
    total_s = request.config.getoption("--fuzz-seconds", None)
    workers = int(getattr(request.config, "workerinput", {}).get("workercount", 1))

    def fuzz(
        inputs: SearchStrategy[Any], test: Callable[[Any], None], *, examples: int, together: bool = False
    ) -> None:
        def generate(test: Callable[[Any], None], *decorators: Callable[..., Any]) -> None:
            def one(value: Any) -> None:  # Hypothesis decorates a function once
                test(value)

            for decorate in (*decorators, given(inputs)):
                one = decorate(one)
            one()

        def search(*decorators: Callable[..., Any]) -> None:
            values: list[Any] = []
            if together:
                generate(values.append, *decorators)
                if all_pass(test, values):
                    return
            generate(test, *decorators)  # each in a child of its own: the smallest that fails
            assert not together, f"these fail one after another, but each of them passes alone: {values}"

        if total_s is None:
            search(settings(_SETTINGS, max_examples=examples, derandomize=True))
            return
        until_s = time.monotonic() + total_s * workers / len(request.session.items)
        start = time.time_ns()
        for number in range(sys.maxsize):
            if time.monotonic() >= until_s:
                break
            search(settings(_SETTINGS, max_examples=_ROUND), seed(start + number))

    return fuzz
