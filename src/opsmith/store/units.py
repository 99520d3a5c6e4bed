"""Reads and formats sizes and ages as people write them."""

from __future__ import annotations

import re

from opsmith.errors import ArgumentError

__all__ = ["parse_age_s", "parse_size", "show_age", "show_size"]

_SIZES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_SIZES = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_AGES_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_SHOWN_SIZES = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "KB"))
_SHOWN_AGES = ((86400, "day"), (3600, "hour"), (60, "minute"))


def parse_size(text: str, where: str) -> int:
    """Return the bytes of "5 GB", "500M" or "2GiB"; raises ArgumentError that names `where` it was read."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)", text.strip().lower())
    if found is None or (found[3] and not found[2]):
        raise ArgumentError(f"{where} is {text!r}; expected a size such as '5 GB', '500 MB' or '2 GiB'")
    table = _BINARY_SIZES if found[3] else _SIZES
    return int(float(found[1]) * table[found[2]])


def parse_age_s(text: str, where: str) -> float:
    """Return the seconds of "30d", "12 h" or "90min"; raises ArgumentError that names `where` it was read."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|w)", text.strip().lower())
    if found is None:
        raise ArgumentError(f"{where} is {text!r}; expected an age such as '30d', '12h' or '90min'")
    return float(found[1]) * _AGES_S[found[2]]


def show_size(size_bytes: int) -> str:
    """Return a size with its unit, such as "1.2 MB"."""
    for unit, name in _SHOWN_SIZES:
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return f"{size_bytes} bytes"


def show_age(age_s: float) -> str:
    """Return how long ago something was, such as "3 days ago"."""
    for unit_s, name in _SHOWN_AGES:
        if age_s >= unit_s:
            count = int(age_s // unit_s)
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"
