"""Derives seeds from one that is secret, so that who finds out one of them knows no other.

PyTorch's generator has 2^32 states, and numbers that came from it tell its seed to who tries them all. That takes seconds.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from opsmith.judging.task import Task

__all__ = ["derived", "secret_seed", "with_scattered_seeds"]

_Make = Callable[[int], Mapping[str, Any]]
# More than can be tried, and no more than a number of JSON holds everywhere.
_SECRET_BITS = 53
# What makers of inputs take.
_SEED_BITS = 31


def secret_seed() -> int:
    """Return a seed that nobody can guess or try."""
    return secrets.randbits(_SECRET_BITS)


def derived(seed: int, purpose: str, bits: int = _SECRET_BITS) -> int:
    """Return the seed for a purpose, which says nothing of the one that it comes from."""
    digest = hashlib.blake2b(f"{purpose} {seed}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> (64 - bits)


def with_scattered_seeds(task: Task) -> Task:
    """Return a task whose makers of inputs take any number for a seed, and no two neighbours for similar ones."""
    return replace(
        task, inputs=_scattered(task.inputs), posed={label: _scattered(make) for label, make in task.posed.items()}
    )


def _scattered(make: _Make) -> _Make:
    return lambda number: make(derived(number, "inputs", _SEED_BITS))
