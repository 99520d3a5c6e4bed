"""Splits a call's time into parts: by clocks inside the binding, and by differences between the levels around it.

From the outside in, with the bridge (docs/guides/profile.md draws it):

    Python      the interpreter, parsing the arguments, the GIL, and making Python objects of the results: what a call from
                Python takes beside its binding, less the same of a call from C++
    autograd    a call from C++ with and without the keys of autograd
    dispatcher  what is left of the latter: finding the kernel, and turning arguments and results into the stable ABI's
    arguments, outputs, copies, kernel, results     by clocks inside the binding
    free        dropping the results, by clocks around it

The time inside the binding, measured in the same call, is subtracted from each sample before levels are compared: the noise
of a kernel that takes milliseconds would drown the microseconds around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from opsmith.benchmark.statistics import Interval, median_interval
from opsmith.profiler.result import Part
from opsmith.profiler.timed import PARTS

__all__ = ["Round", "agreement_of", "parts_of", "whole_of"]

# One round: the seconds of one call by level and name.
Round = Mapping[str, Mapping[str, float]]

_WHAT = {
    "Python": "interpreter, parsing, GIL, results to Python",
    "autograd": "checking whether a gradient is needed; recording it",
    "dispatcher": "finding the kernel, arguments to the stable ABI and back",
    "arguments": "unpacking and checking them",
    "outputs": "allocating them",
    "copies": "copying layouts that the kernel does not take",
    "kernel": "the kernel itself",
    "results": "handing over, freeing arguments",
    "free": "freeing the results",
}
_ON_GPU = {"kernel": "launching the kernel"}
_BACKWARD = {"Python": "torch.autograd.grad, autograd's engine and the rest"}
_WITHOUT_BRIDGE = {
    "Python": "opsmith's wrapper in Python",
    "dispatcher": "torch.ops, dispatcher, arguments to the stable ABI and back, freeing the results",
}
_WITHOUT_BINDING = {"dispatcher": "dispatcher and body, which cannot be told apart here"}
_NATIVE = {"kernel": "the kernel, which allocates the outputs", "results": "checking the outputs, freeing arguments"}


def whole_of(rounds: Sequence[Round]) -> Interval:
    """Return what a call of the operator takes, in seconds."""
    return median_interval([item["whole"]["call"] - item["empty"]["loop"] for item in rounds])


def parts_of(rounds: Sequence[Round], device: str, phase: str) -> tuple[Part, ...]:
    """Return the parts of a call, of rounds that all have the same levels; none where the whole was timed alone."""
    if "python" not in rounds[0]:
        return ()
    chosen: dict[str, Callable[[Round], float]] = {
        "Python": lambda item: _around(item, "python") - _around(item, "dispatch") - _freed(item),
        "autograd": lambda item: _around(item, "dispatch") - _around(item, "below"),
        "dispatcher": lambda item: _around(item, "below"),
        **{name: _reader(name) for name in PARTS if name in rounds[0]["python"]},
        **({"free": _freed} if "free" in rounds[0]["dispatch"] else {}),
    }
    words = _words(rounds[0], device, phase)
    times = {name: median_interval([seconds(item) for item in rounds]) for name, seconds in chosen.items()}
    whole = median_interval([_with_clocks(item) for item in rounds]).middle
    return tuple(Part(name, words[name], time, time.middle / whole) for name, time in times.items())


def agreement_of(rounds: Sequence[Round]) -> Interval | None:
    """Return what the call with clocks takes, less the clocks, as a part of what the operator's own takes."""
    if "python" not in rounds[0]:
        return None
    return median_interval([_with_clocks(item) / (item["whole"]["call"] - item["empty"]["loop"]) for item in rounds])


def _with_clocks(item: Round) -> float:
    """Return what the call with clocks takes, less what reading them takes: the parts of a round add up to it."""
    return item["python"]["call"] - item["empty"]["loop"] - item["python"].get("readings", 0.0)


def _around(item: Round, level: str) -> float:
    loop = item["empty"]["loop"] if level == "python" or "free" not in item[level] else 0.0
    return item[level]["call"] - item[level].get("inside", 0.0) - loop


def _freed(item: Round) -> float:
    return item["dispatch"].get("free", 0.0)


def _reader(name: str) -> Callable[[Round], float]:
    return lambda item: item["python"][name]


def _words(item: Round, device: str, phase: str) -> dict[str, str]:
    words = dict(_WHAT)
    words |= _ON_GPU if device == "cuda" else {}
    words |= {} if "free" in item["dispatch"] else _WITHOUT_BRIDGE
    words |= {} if "inside" in item["python"] else _WITHOUT_BINDING
    words |= _NATIVE if "inside" in item["python"] and "outputs" not in item["python"] else {}
    return words | (_BACKWARD if phase == "backward" else {})
