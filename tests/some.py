"""Lets `make test` take some of a test's parameters, and `make test-all` every one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def some(values: Iterable[Any], count: int, what: str) -> list[ParameterSet]:
    """Return parameters, all but the first few marked `slow`; a tuple is several parameters of one test."""
    mark = pytest.mark.slow(f"{what}; make test has {count}")
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=[] if number < count else [mark])
        for number, value in enumerate(values)
    ]
