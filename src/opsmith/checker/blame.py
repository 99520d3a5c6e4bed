"""Charges a failure that follows from another defect to that one, so that a defect has one name.

Elements that are not written hold whatever was there, and are wrong in value, in every layout and from call to call. A
write outside of a tensor spoils what the process keeps of its memory, and it dies later, anywhere. A wrong gradient is
wrong under every transform. All results are known when this is asked, and a failure is charged only to another failure
of the same report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from opsmith.checker.outcome import Finding, Outcome, not_run
from opsmith.checker.properties.answers import OTHER_RESULT
from opsmith.checker.properties.gpu import TOO_EARLY
from opsmith.checker.properties.memory import UNTOUCHED
from opsmith.checker.properties.recorded_results import RECORDED
from opsmith.checker.properties.repeats import ON_ONE_THREAD
from opsmith.checker.properties.table import PROPERTIES
from opsmith.checker.properties.values import IN_ANY_LAYOUT
from opsmith.subject.case import Case

__all__ = ["BEFORE_SIZES", "Failure", "Key", "cause_of", "charged_to", "key_of", "key_of_cause", "suspects_of"]

# What a row of the report is known by: the property, the device, and the element types where it has some of its own.
Key = tuple[str, str, frozenset[tuple[str, str]]]

# What depends on memory that is not the kernel's to read, or on which thread comes first, may be wrong anywhere.
_ANYWHERE = ("outputs written", "reads outside", "threads")
# What writes where it must not, hands out one memory twice or keeps something, spoils what comes after.
_SPOILED = ("inputs unchanged", "aliasing", "state")
# What is another result in each call, or for ordinary numbers, is wrong for other numbers as well.
_VALUES = ("magnitude", "special values", "sizes", "strides", "arguments", "empty")
_ANY_VALUE = ("value", *_VALUES)
_TRACING = ("compile", "export", "opcheck")
# A property that failed -> what may lie behind it, the likeliest first.
_CAUSES: Mapping[str, tuple[str, ...]] = {
    "determinism": ("outputs written", "reads outside", *_SPOILED, "threads"),
    "value": (*_ANYWHERE, *_SPOILED, "determinism"),
    **dict.fromkeys(_VALUES, (*_ANYWHERE, *_SPOILED, "determinism", "value")),
    "threads": ("outputs written", "reads outside", *_SPOILED, "determinism"),
    "large": ("reads outside", "strides"),
    "gradient": (*_SPOILED, "outputs written", "reads outside", "determinism", "value"),
    "second gradient": (*_SPOILED, "gradient", "determinism", "value"),
    "func.grad": (*_SPOILED, "gradient", "second gradient", "vmap", "determinism", "value", "compile"),
    "vmap": (*_SPOILED, "outputs written", "reads outside", "determinism", "value"),
    "jvp": (*_SPOILED, "gradient", "determinism", "value"),
    "fake": _SPOILED,
    "state": ("inputs unchanged", "aliasing", "outputs written", "reads outside"),
    "outputs written": ("state", "reads outside"),
    "aliasing": ("inputs unchanged",),
    # Beside an output may lie an input.
    "inputs unchanged": ("writes outside",),
    "memory growth": ("writes outside", "state"),
    "opcheck": (*_ANYWHERE, *_SPOILED, "fake", "compile", "gradient", "determinism", "value", "vmap"),
    "compile": (*_ANYWHERE, *_SPOILED, "fake", "gradient", "determinism", "value"),
    "export": (*_ANYWHERE, *_SPOILED, "fake", "compile", "determinism", "value"),
    **dict.fromkeys(("streams", "devices"), (*_ANYWHERE, "state", "determinism")),
    "graph": (*_ANYWHERE, "state", "determinism", "value"),
}
# The same where one of these says that a gradient differs.
_CAUSE_OF_GRADIENTS = "gradient"
_IN_GRADIENT = frozenset({"determinism", "threads", "reads outside", "opcheck"})
# What runs before its inputs are there finds in their memory what was there before.
_FROM_EARLY = frozenset({*_ANY_VALUE, *_ANYWHERE, "determinism", "state", "gradient", "second gradient"})
# The same where the process died; these find out about it themselves.
_CAUSE_OF_CRASHES = "writes outside"
_FIND_CRASHES = frozenset({"writes outside", "outputs written", "bad arguments", "large"})
# These come before the property of sizes, and have large ones too.
BEFORE_SIZES = frozenset({"magnitude", "special values"})
# Numbers whose sums leave the element type, tried on long rows too: where those alone fail, it is the rows.
_LONG_ROWS = ", "
_LEAST_LONG = 128
# What numbers alone explain, they explain in any element type.
_OF_NUMBERS = ("magnitude", "special values", "sizes")
_ACROSS_TYPES = frozenset({("special values", "magnitude"), *(("strides", cause) for cause in _OF_NUMBERS)})
# What is summed up in half precision overflows in one of its types, and has too few digits in the other.
_HALF = frozenset({"float16", "bfloat16"})
# Kinds of values with infinities among them.
_INFINITE = frozenset({"special", "rows", "columns"})


class Failure(NamedTuple):
    """A failed row: what was found, and whether its process died of it."""

    outcome: Outcome
    crashed: bool


def key_of(name: str, device: str, dtypes: Mapping[str, str]) -> Key:
    """Return what a row of the report is known by; some are there once for all element types."""
    is_for_all = any(item.name == name and item.per == "device" for item in PROPERTIES)
    return name, device, frozenset() if is_for_all else frozenset(dtypes.items())


def charged_to(cause: str, *, crashed: bool = False) -> Outcome:
    """Return what the report says of a failure that another one explains."""
    what = "the process died" if crashed else "it fails"
    return not_run(f"{what}, which follows from another defect: see `{cause}`")


def cause_of(
    name: str, device: str, dtypes: Mapping[str, str], failure: Failure, failed: Mapping[Key, Failure]
) -> str | None:
    """Return the property that a failure is charged to, or None; `failed` are all rows that failed."""
    near = {other: failed.get(key_of(other, device, dtypes)) for other in _NEAR}
    for cause, must_die in _suspects(name, failure, near):
        key = key_of_cause(name, cause, device, dtypes, failed)
        if key in failed and (failed[key].crashed or not must_die):
            return cause
    return None


def key_of_cause(name: str, cause: str, device: str, dtypes: Mapping[str, str], failed: Mapping[Key, Failure]) -> Key:
    """Return what the row of a cause is known by: that in the same types, or one in others that failed.

    Wrong values may show in one type for numbers that no other property tries, and in another for those that one does.
    """
    key = key_of(cause, device, dtypes)
    is_of_half = (name, cause) == ("sizes", "magnitude") and _is_half(key)
    if key in failed or not (is_of_half or (name, cause) in _ACROSS_TYPES):
        return key
    others = (other for other in failed if other[:2] == (cause, device))
    return next((other for other in others if not is_of_half or _is_half(other)), key)


def _is_half(key: Key) -> bool:
    return bool(_HALF & {dtype for _, dtype in key[2]})


def suspects_of(name: str) -> tuple[str, ...]:
    """Return what is worth another look where a failure of that name does not come back: what depends on chance."""
    return tuple(cause for cause in _CAUSES.get(name, ()) if cause in (*_ANYWHERE, "determinism"))


def _suspects(name: str, failure: Failure, near: Mapping[str, Failure | None]) -> Iterator[tuple[str, bool]]:
    """Yield the properties that may lie behind a failure, each with whether its process has to have died for that."""
    outcome, crashed = failure
    if name in _IN_GRADIENT and (crashed or _is_about_gradients(_text(failure))):
        yield _CAUSE_OF_GRADIENTS, False
    if crashed:
        yield from _suspects_of_crash(name, failure, near)
        if name not in _FIND_CRASHES:
            return
    reads_early = TOO_EARLY in _text(near["streams"])
    if name == "streams" and reads_early:
        return
    if name == "gradient" and RECORDED in _text(failure):
        # What is kept where a gradient is recorded can be asked for without one.
        yield from ((cause, False) for cause in _ANY_VALUE)
    if name in _FROM_EARLY and reads_early:
        yield "streams", False
    causes = _CAUSES.get(name, ())
    if name == "bad arguments" and all(OTHER_RESULT in line for line in _text(failure).splitlines()[1:]):
        causes = ("outputs written", "reads outside", "determinism", "value", "strides")
    yield from ((cause, False) for cause in causes if not _is_ruled_out(cause, name, failure, near))
    if name == "strides" and IN_ANY_LAYOUT in _text(failure):
        yield from ((cause, False) for cause in _OF_NUMBERS)
    magnitude = near["magnitude"]
    is_of_long_rows = magnitude is not None and _is_of_long_rows(magnitude.outcome.findings)
    if name == "magnitude" and is_of_long_rows:
        yield "sizes", False
        yield "special values", False  # in so many numbers there are equal ones, and zeros
    if name == "sizes" and not is_of_long_rows:
        yield "magnitude", False
    if name == "special values" and not is_of_long_rows and _has_infinities(outcome.findings):
        yield "magnitude", False  # an infinity is the limit of what is too large


def _suspects_of_crash(name: str, failure: Failure, near: Mapping[str, Failure | None]) -> Iterator[tuple[str, bool]]:
    """Yield what may lie behind the death of a process, in the same form."""
    if name != "strides" and _is_of_layouts(failure):
        yield "strides", False
    if name in _FIND_CRASHES:
        return
    if not (name == "strides" and _is_of_layouts(near[_CAUSE_OF_CRASHES])):
        yield _CAUSE_OF_CRASHES, False
    if name != "value" and _stops_gpu(failure) and _stops_gpu(near["value"]):
        yield "value", False
    if name in BEFORE_SIZES:
        yield "sizes", True


def _is_ruled_out(cause: str, name: str, failure: Failure, near: Mapping[str, Failure | None]) -> bool:
    """Whether a property that may lie behind another does not here, by what both say."""
    other, pair = near.get(cause), (name, cause)
    return any(
        (
            _says_nothing_of(name, _text(other), _text(failure)),
            # Of two that may stand for each other, results that vary on one thread are not a race.
            pair == ("determinism", "threads") and _is_of_one_thread(failure),
            pair == ("threads", "determinism") and not _is_of_one_thread(other),
            # Nor is memory that nobody wrote a state.
            pair == ("outputs written", "state") and UNTOUCHED in _text(failure),
            pair == ("state", "outputs written") and UNTOUCHED not in _text(other),
            name == "strides" and _is_of_layouts(other),
            name == "gradient" and cause not in _SPOILED and _is_about_gradients(_text(other)),
        )
    )


# What tells two properties apart that may stand for each other.
_NEAR = (
    "value",
    "magnitude",
    "determinism",
    "outputs written",
    "reads outside",
    "writes outside",
    *_SPOILED,
    "threads",
    "streams",
)
_HANGS, _AT_ONCE, _GPU_ERROR = "it hangs", "at once", "CUDA error"


def _is_about_gradients(text: str) -> bool:
    return "the gradient of" in text or "Gradients of" in text


def _says_nothing_of(name: str, cause: str, text: str) -> bool:
    """Whether a failure cannot lie behind another: a hang behind a result, calls at once behind those of one thread."""
    return (_HANGS in cause and _HANGS not in text) or (_AT_ONCE in cause and name != "determinism")


def _text(failure: Failure | None) -> str:
    return "" if failure is None else "\n".join(finding.message for finding in failure.outcome.findings)


def _is_of_one_thread(failure: Failure | None) -> bool:
    """Whether results vary on one thread already, or with the calls before."""
    return failure is not None and any(
        words in _text(failure) for words in (ON_ONE_THREAD, "changes after", "earlier calls")
    )


def _stops_gpu(failure: Failure | None) -> bool:
    """Whether the GPU reports an error, after which no call of the same process succeeds."""
    return failure is not None and _GPU_ERROR in _text(failure)


def _is_of_layouts(failure: Failure | None) -> bool:
    """Whether a process died of a call with strides that are not the usual ones."""
    if failure is None or not failure.crashed:
        return False
    return any(case.group == "layouts" for case in _cases_of(failure.outcome.findings))


def _has_infinities(findings: tuple[Finding, ...]) -> bool:
    return any(_INFINITE & {recipe.values for recipe in case.tensors().values()} for case in _cases_of(findings))


def _is_of_long_rows(findings: tuple[Finding, ...]) -> bool:
    """Whether numbers were too large for long rows alone, and not for the shorter ones that a smaller input has."""
    return any(
        " = " in case.label.rpartition(_LONG_ROWS)[2] and _longest(finding.case or case) >= _LEAST_LONG
        for finding in findings
        if (case := finding.first or finding.case) is not None
    )


def _longest(case: Case) -> int:
    return max((size for recipe in case.tensors().values() for size in recipe.shape), default=0)


def _cases_of(findings: tuple[Finding, ...]) -> Iterator[Case]:
    """Yield the calls that findings are about, as they were first seen."""
    return (case for finding in findings if (case := finding.first or finding.case) is not None)
