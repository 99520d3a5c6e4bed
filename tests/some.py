"""Lets `make test` take some of a test's parameters, `make test-all` more of them, and `make test-nightly` the rest."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def some(values: Iterable[Any], count: int, what: str, *, at_most: float = inf) -> list[ParameterSet]:
    """Return parameters; a tuple is several parameters of one test.

    All but the first `count` are marked `slow`, and those beyond the first `at_most`, which are all that CI runs for
    each change, `nightly`.
    """
    slow = pytest.mark.slow(f"{what}; make test has {count}")
    nightly = pytest.mark.nightly(f"{what}; make test-all has {at_most}")
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=[] if number < count else [slow] if number < at_most else [nightly],
        )
        for number, value in enumerate(values)
    ]
