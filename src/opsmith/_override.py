"""Gives environment variables other values for a while, in threads too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from opsmith import _env
from opsmith._forks import Lock

__all__ = ["overridden"]


class _Override(NamedTuple):
    """A variable's value before the first open block of `overridden`, and the values of those, the latest last."""

    before: str | None
    values: dict[object, str]


_overrides: dict[str, _Override] = {}
_lock = Lock()


@contextmanager
def overridden(name: str, value: str, *, unless_set: bool = False) -> Iterator[None]:
    """Give a variable of the table another value for a while, in this process and those that it starts.

    Blocks of several threads may overlap: the latest value of those still in their block counts, and the last to leave
    restores what was there before all of them. `unless_set` leaves alone what had a value then.
    """
    if not _env.is_known(name):
        raise KeyError(f"{name} is not in opsmith's table of environment variables")
    with _lock:
        own = _overrides.get(name) or _Override(os.environ.get(name), {})
        block = None if unless_set and own.before else object()
        if block is not None:
            _overrides[name] = own
            own.values[block] = value
            os.environ[name] = value
    try:
        yield
    finally:
        if block is not None:
            with _lock:
                del own.values[block]
                _settle(name)


def _settle(name: str) -> None:
    """Give a variable the value of the latest block that is still open, or what it had before the first of them."""
    before, values = _overrides[name]
    now = next(reversed(values.values())) if values else before
    if not values:
        del _overrides[name]
    if now is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = now
