"""Writes times, sizes, rates and ratios: three digits, in the unit that suits them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opsmith.benchmark.statistics import Verdict

__all__ = ["count_of", "duration", "percent", "ratio_text", "short_dtype", "size", "verdict_text", "with_prefix"]

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_LETTERS = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


def duration(seconds: float) -> str:
    """Return a time in seconds as text, such as "12.3 us"."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        # What rounds up to 1000 of a unit belongs to the next.
        if seconds >= 0.9995 * scale:
            return f"{_digits(seconds / scale)} {unit}"
    return f"{_digits(seconds * 1e9)} ns"


def with_prefix(number: float, unit: str) -> str:
    """Return a number with a prefix of the SI before its unit: 3.4e10 and "B/s" are "34.0 GB/s"."""
    for scale, prefix in _PREFIXES:
        if number >= 0.9995 * scale:
            return f"{_digits(number / scale)} {prefix}{unit}"
    return f"{_digits(number)} {unit}"


def size(count: int) -> str:
    """Return a number of bytes as text, such as "2.10 MB"; whole below a kilobyte."""
    return f"{count} B" if count < 1000 else with_prefix(count, "B")


def percent(part: float) -> str:
    """Return a part as a percentage: little is not nothing."""
    return "<1 %" if 0 < part < 0.005 else f"{100 * part:.0f} %"


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 size" or "3 properties"."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def short_dtype(name: str) -> str:
    """Return the few letters that stand above a column: f32 for float32."""
    word = name.rstrip("0123456789")
    return f"{_LETTERS[word]}{name[len(word) :]}" if word in _LETTERS else name


def verdict_text(verdict: Verdict) -> str:
    """Return a verdict for a table's cell: the ratio with its interval, or "no difference"."""
    return "no difference" if verdict.kind == "equal" else ratio_text(verdict)


def ratio_text(verdict: Verdict) -> str:
    """Return the ratio of a verdict with its interval, whatever the verdict."""
    ratio = verdict.ratio
    return f"{ratio.middle:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}]"


def _digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 99.95 else f"{number:.1f}" if number >= 9.995 else f"{number:.2f}"
