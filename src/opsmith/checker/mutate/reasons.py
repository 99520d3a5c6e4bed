"""Says why a mutant may have survived: no input reaches it, it changes no bit of any result, or too little of one.

Whether the check reaches it is found by another mutant, whose block ends the process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from opsmith.checker.mutate.build import Builder, Built
from opsmith.checker.mutate.fingerprint import fingerprint
from opsmith.checker.mutate.mutants import Mutant
from opsmith.checker.mutate.source import Source
from opsmith.checker.mutate.tokens import closing
from opsmith.checker.mutate.trial import Limits, Trial, try_library

__all__ = ["UNREACHED", "why_it_survived"]

UNREACHED = "no input of the check reaches it"
_SAME = (
    "its results and gradients are the original's to the last bit for {count} inputs: it decides how the work is done, or "
    "no input makes the difference"
)
_CLOSE = (
    "its results differ from the original's for {different} of {count} inputs: by no more than the tolerance, or in calls "
    "that the check does not compare"
)
_TRAP = " __builtin_trap();"
# A block that the check reaches is mostly reached at once.
_SECONDS_OF_REACH = 3.0


def why_it_survived(
    trial: Trial,
    builder: Builder,
    mutant: Mutant,
    built: Built,
    name: str,
    original: Callable[[], tuple[str, ...] | None],
) -> str:
    """Return what is known about a survivor; `original` gives the original's fingerprint."""
    if trial.device == "cpu" and not _is_reached(trial, builder, mutant, name):
        return UNREACHED
    assert built.library is not None
    ours, theirs = original(), fingerprint(trial, built.library)
    if ours is None or theirs is None:
        return ""
    if ours == theirs:
        return _SAME.format(count=len(ours))
    different = sum(one != other for one, other in zip(ours, theirs, strict=True))
    return _CLOSE.format(different=different, count=len(ours))


def _is_reached(trial: Trial, builder: Builder, mutant: Mutant, name: str) -> bool:
    """Whether some call of the check comes to the block that a mutant is in; also where that cannot be found out."""
    text = builder.texts[mutant.file]
    at = _block_of(text, mutant.start)
    if at is None:
        return True
    trapped = builder.build(f"{name}-trap", {mutant.file: f"{text[:at]}{_TRAP}{text[at:]}"}, quick=True)
    if trapped.library is None:
        return True  # it stands in a constant expression
    limits = Limits(_SECONDS_OF_REACH, trial.limits.silence_s, trial.limits.longest_s)
    return bool(try_library(replace(trial, limits=limits), trapped.library).named)


def _block_of(text: str, start: int) -> int | None:
    """Return the index behind the brace that opens the innermost block around a place, or None."""
    source = Source(text)
    found = None
    for body in source.bodies:
        first, last = source.tokens[body.begin - 1], source.tokens[min(body.end, len(source.tokens) - 1)]
        if not first.start < start < last.end:
            continue
        found = first.end if first.text == "{" else None
        for index in range(body.begin, body.end):
            token = source.tokens[index]
            if token.start >= start:
                break
            is_open = token.text == "{" and source.tokens[closing(source.tokens, index)].start > start
            # Braces behind a name or an `=` hold values.
            if is_open and source.text_at(index - 1) in (")", "else", "do", "{", ";", "}", "mutable", "const"):
                found = token.end
    return found
