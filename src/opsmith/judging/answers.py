"""Reads the answers of a candidate's process, which may say anything: only what has the right form counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from opsmith._printable import printable
from opsmith.errors import OpsmithError
from opsmith.judging.memory import Shared, read_tensor
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge, Sign
from opsmith.judging.scaled import bytes_of

__all__ = [
    "Batch",
    "CellError",
    "NotStartedError",
    "Returned",
    "charge_of",
    "charge_of_cache",
    "place_in",
    "returned",
    "signs_in",
]


class CellError(Exception):
    """A candidate did not answer as one does; `charge` says what happened."""

    def __init__(self, charge: Charge) -> None:
        super().__init__(f"{charge.refusal}: {charge.message}")
        self.charge = charge


class NotStartedError(OpsmithError, RuntimeError):
    """There is no process to judge a candidate in, or none for its calls: nothing of the candidate has run."""

    def __init__(self, charge: Charge) -> None:
        super().__init__(f"no process starts to judge a candidate in: {charge.message}")


# The reasons that its process may name itself, since what opens a candidate runs there (see `OpeningError`).
_TOLD = {str(one): one for one in (Refusal.NOT_LOADED, Refusal.MISSING_PARAMETERS)}
# How PyTorch begins what CUDA reports: the GPU does not work in that process any more.
_GPU_FAULT = "CUDA error: "
# A line of a traceback in one of the candidate's files. Its process chooses the text, of up to 16 MiB: what is searched, and
# what one match may take, are bounded here as well.
_PLACE = re.compile(r'/candidate/([^"\n]{1,300})", line (\d{1,9})\b')
_MOST_TRACE = 4000
# Signs of one answer, and lines of a file: numbers in JSON have up to thousands of digits.
_MOST_SIGNS, _MOST_LINES = 20, 1 << 31
# What PyTorch says of a build, and what is said of the first fault by compilers and linkers.
_BUILD_FAILS = "Error building extension"
_FAULTS = ("error:", "undefined reference")
# Element types that PyTorch compares and converts. It does neither for bits, integers of less than a byte, packed and
# quantized numbers.
_NUMBERS = re.compile(r"torch\.(?:bool|bfloat16|float(?:16|32|64|8_\w+)|complex(?:32|64|128)|u?int(?:8|16|32|64))")


@dataclass(frozen=True)
class Returned:
    """One result of a call: a copy of its content, and what the candidate's process says of the original.

    `odd` is a type that is not a plain tensor's, and then there is no content. `shares` is the argument in whose memory it
    lies, and `overlaps` says whether elements of it share memory.
    """

    tensor: Tensor | None
    odd: str = ""
    shares: tuple[int, ...] = ()
    overlaps: bool = False


@dataclass(frozen=True)
class Batch:
    """Calls that were made in one go: `wall_s` by the judge's clock from the order to the answer, `error` if one raised.

    In `wall_s` are `shared_s` that the work would have taken longer on as many processors as there are threads.
    `places` are where the results of each lie, as its process says, where it was asked for that.
    """

    wall_s: float
    error: Charge | None = None
    not_differentiable: tuple[int, ...] = ()
    places: Any = None
    shared_s: float = 0.0


def charge_of(found: Mapping[str, Any], otherwise: Refusal) -> Charge | None:
    """Return the charge for an answer that tells an error."""
    if "error" not in found:
        return None
    name, message = _words(found["error"], 100), _words(found.get("message", ""), 2000)
    if name == "MemoryError" or "can't allocate memory" in message or name == "OutOfMemoryError":
        return Charge(Refusal.OVER_MEMORY, f"{name}: {message}")
    refusal = found.get("refusal")
    if isinstance(refusal, str) and (named := _TOLD.get(refusal)) is not None:
        return Charge(named, message)
    trace = found["trace"][-_MOST_TRACE:] if isinstance(found.get("trace"), str) else ""
    at = _last_place(trace)
    if message.endswith(at):  # as that of a SyntaxError
        at = ""
    message = _without_commands(message, trace)
    if otherwise is Refusal.RAISED and message.startswith(_GPU_FAULT):
        return Charge(Refusal.CRASHED, f"{message.splitlines()[0]}{at}")
    return Charge(otherwise, f"{name}: {message}{at}")


def _last_place(trace: str) -> str:
    """Return where in the candidate's files a traceback ends, as " (name, line 3)", or ""."""
    places = _PLACE.findall(trace)
    return f" ({printable(places[-1][0])}, line {places[-1][1]})" if places else ""


def _without_commands(message: str, trace: str) -> str:
    """Return what a compiler says without its command lines, which come first and take more room than a report has.

    Where these have taken all of a message, the end of the traceback has more of it.
    """
    if not message.startswith(_BUILD_FAILS):
        return message
    for lines in (message.splitlines(), printable(trace, lines=True).splitlines()):
        first = next((number for number, line in enumerate(lines) if any(word in line for word in _FAULTS)), None)
        if first is not None:
            place = re.sub(r"^/\S*/", "", lines[first])
            return "\n".join([f"{message.partition(':')[0]}: {place}", *lines[first + 1 :]])
    return message


def _words(found: object, most: int) -> str:
    """Return a candidate's own words, fit for files and terminals; of nested lists there are none, however deep they are."""
    return printable(found[:most], lines=True) if isinstance(found, str) else "no text"


def _sign(name: object, message: object, line: object) -> Sign:
    what = f"{_words(name, 60)} ({_words(message, 200)})"
    text = f"{what} is raised in a call and caught there: what does the work is something else"
    return Sign("falls back", text, line if type(line) is int and 0 < line < _MOST_LINES else None)


def charge_of_cache(found: Mapping[str, Any]) -> Charge | None:
    """Return the charge for calls that set a part of the GPU's cache aside."""
    size = found.get("set_aside", 0)
    if type(size) is not int or size <= 0:
        return None
    return Charge(Refusal.CACHE_CONTROL, f"it sets {size >> 10} KiB of the second-level cache aside")


def place_in(found: Any) -> tuple[int, list[int] | None]:
    """Return where a result lies: its address, and its strides where it is not dense; raises ValueError for what is not."""
    address, *strides = found if isinstance(found, list) else [found]
    if type(address) is not int or not all(type(one) is int for one in strides):
        raise ValueError("a place that is not one")
    return address, strides if isinstance(found, list) else None


def returned(found: Any, area: Shared, count: int, device: str = "cpu") -> list[list[Returned | None]]:
    """Return the results of some calls on a device, from their descriptions; raises CellError for what is not one."""
    if not isinstance(found, list) or len(found) != count:
        raise CellError(Charge(Refusal.REACHES_OUTSIDE, "its process gave something else than its results"))
    left = area.size  # results do not overlap, so that together they are no larger than the memory for them
    every: list[list[Returned | None]] = []
    try:
        for call in found:
            every.append([])
            for item in call:
                every[-1].append(one := _one(item, area, left, device))
                left -= 0 if one is None or one.tensor is None else bytes_of(one.tensor)
    except (ValueError, TypeError) as error:
        raise CellError(Charge(Refusal.REACHES_OUTSIDE, f"its process gave {error}")) from None
    return every


def _one(described: Any, area: Shared, most_bytes: int, device: str) -> Returned | None:
    if described is None:
        return None
    if isinstance(described, dict) and "odd" in described:
        return Returned(None, _words(described["odd"], 100))
    shares = described.get("shares", []) if isinstance(described, dict) else []
    tensor = read_tensor(described, area, most_bytes, device)
    if _NUMBERS.fullmatch(str(tensor.dtype)) is None:
        raise CellError(
            Charge(Refusal.WRONG_DTYPE, f"a result is {tensor.dtype}, whose elements are not numbers to compare")
        )
    shared = tuple(one for one in shares if type(one) is int)
    return Returned(tensor, "", shared, described.get("overlaps") is True)


def signs_in(found: Mapping[str, Any]) -> tuple[Sign, ...]:
    """Return a sign for each exception that an answer tells of, up to as many as an honest process tells."""
    listed = found.get("caught")
    if not isinstance(listed, list):
        return ()
    return tuple(_sign(*one) for one in listed[:_MOST_SIGNS] if isinstance(one, list) and len(one) == 3)
