"""Makes a failure of a property that must say something and had nothing to say: the reference refused every input.

An operator of which nothing was called is not right. The finding says what was refused, and what the user can give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opsmith.checker.outcome import Finding, Outcome, failed
from opsmith.checker.properties.context import Context
from opsmith.subject.case import Case

__all__ = ["Refusal", "unproven"]

_SHOWN = 3
_LONG = 160


@dataclass(frozen=True)
class Refusal:
    """A call that the reference does not take, and what it says."""

    case: Case
    error: BaseException

    def __str__(self) -> str:
        error = self.error.__cause__ or self.error
        lines = str(error).strip().splitlines() or [""]
        return f"{type(error).__name__}: {lines[0][:_LONG]}"


def unproven(context: Context, what: str, refusals: Sequence[Refusal], more: str = "") -> Outcome:
    """Return the failure for a property that compared nothing; `what` the reference does not do: "take", "differentiate"."""
    by_words: dict[str, list[Refusal]] = {}
    for refusal in refusals:
        by_words.setdefault(str(refusal), []).append(refusal)
    shown = [f"{words} (for {_shapes(those[0].case)})" for words, those in list(by_words.items())[:_SHOWN]]
    message = f"nothing was compared: the reference does not {what} any of {len(refusals)} inputs tried{more}"
    return failed(Finding("\n".join([message, *shown]), hint=_remedy(context)), inputs=0)


def _remedy(context: Context) -> str:
    operator = context.subject.operator
    declare = f"@{operator.definition.name}.examples" if operator is not None else "examples="
    return (
        f"Give calls that it takes, in several sizes: {declare}"
        f"{' (or examples=, --examples)' if operator is not None else ', or --examples'}. They are tried in every element "
        "type, and varied."
    )


def _shapes(case: Case) -> str:
    tensors = ", ".join(f"{name} {tuple(recipe.shape)}" for name, recipe in case.tensors().items())
    return f"{case.label or 'a call'}: {tensors}"
