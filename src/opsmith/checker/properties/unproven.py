"""Makes a failure of a property that must say something and had nothing to say: the reference refused every input.

An operator of which nothing was called is not right. The finding says what was refused, and what the user can give.
"""

from __future__ import annotations

import inspect
import linecache
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from opsmith.checker.outcome import Finding, Outcome, failed
from opsmith.checker.properties.context import Context
from opsmith.spec.signature import Kind
from opsmith.subject.case import Case

__all__ = ["Refusal", "unproven"]

_SHOWN = 3
_LONG = 160
# What a mistake in a body raises, rather than a reference that refuses values.
_MISTAKES = (AttributeError, NameError, TypeError, ImportError, SyntaxError)


@dataclass(frozen=True)
class Refusal:
    """A call that the reference does not take, and what it says."""

    case: Case
    error: BaseException

    def __str__(self) -> str:
        lines = str(self.raised).strip().splitlines() or [""]
        return f"{type(self.raised).__name__}: {lines[0][:_LONG]}"

    @property
    def raised(self) -> BaseException:
        """The exception of the reference itself."""
        return self.error.__cause__ or self.error


def unproven(context: Context, what: str, refusals: Sequence[Refusal], more: str = "") -> Outcome:
    """Return the failure for a property that compared nothing; `what` the reference does not do: "take", "differentiate"."""
    by_words: dict[str, list[Refusal]] = {}
    for refusal in refusals:
        by_words.setdefault(str(refusal), []).append(refusal)
    shown = [f"{words} (for {_shapes(those[0].case)})" for words, those in list(by_words.items())[:_SHOWN]]
    mistakes = [_line_of_mistake(context, refusal) for refusal in refusals]
    if all(mistakes):
        message = f"nothing was compared: the reference itself fails, for each of {len(refusals)} inputs tried{more}"
        shown += list(dict.fromkeys(mistakes))[:_SHOWN]
    else:
        message = f"nothing was compared: the reference does not {what} any of {len(refusals)} inputs tried{more}"
    remedy = "" if all(mistakes) and not _takes_any_text(context) else _remedy(context)
    return failed(Finding("\n".join([message, *shown]), hint=remedy), inputs=0)


def _line_of_mistake(context: Context, refusal: Refusal) -> str:
    """Return the reference's line that raised, with its place; empty where that is no mistake of its code."""
    code = getattr(inspect.unwrap(context.subject.reference), "__code__", None)
    if code is None or not isinstance(refusal.raised, _MISTAKES):
        return ""
    frames = [one for one in traceback.extract_tb(refusal.raised.__traceback__) if one.filename == code.co_filename]
    if not frames:  # it was never entered: the arguments do not fit its parameters
        return ""
    file, line = frames[-1].filename, frames[-1].lineno or code.co_firstlineno
    return f"{file}:{line}: {linecache.getline(file, line).strip()}"


def _takes_any_text(context: Context) -> bool:
    """Whether other values may be what is missing: a text may name an attribute, as in getattr(torch, name)."""
    signature = context.subject.signature
    return signature is None or any(item.kind is Kind.STR and not item.choices for item in signature.parameters)


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
