"""Judges the answer to a call with something wrong in it: a result, a refusal, or what may become a crash."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from opsmith.checker.process.memory_limit import limited_memory
from opsmith.checker.properties.agreement import roughly_equal
from opsmith.checker.properties.probes import Probe
from opsmith.subject.subject import Subject

__all__ = ["OTHER_RESULT", "SpoiledError", "is_accident", "judge"]

# The words of a reference that runs out of memory or of digits: a limit of PyTorch's, which says nothing of the call.
_LIMITS = ("allocate", "out of memory", "enough memory", "overflow", "too large", "invalid size", "symint")
# A call that is answered with other numbers than the reference's.
OTHER_RESULT = "it returned something else"
_MOST = 1 << 40
_ASSERTION = "INTERNAL ASSERT"


class SpoiledError(Exception):
    """The GPU takes no more calls in this process; `finding` says what the kernel did, or is empty for a refusal."""

    def __init__(self, finding: str) -> None:
        super().__init__(finding)
        self.finding = finding


def judge(
    subject: Subject, probe: Probe, plain: list[Tensor] | None, device: str, tell: Callable[[str], None]
) -> str | None:
    """Make a probe's call; return what was wrong about the answer, "" where all was well, None if nothing was tried.

    `plain` are the reference's results for the call that the probe comes from, or None if the kernel differs from
    them already. `tell` gets "reference" and "kernel" before either is called.
    """
    try:
        values = probe.make()
    except Exception:
        return None  # this build of PyTorch does not have such tensors
    tell("reference")
    forbidden, expected, is_made = _rule(subject, probe, values, plain)
    if forbidden is None and expected is None and not is_made:
        return None
    tell("kernel")
    for call in dict.fromkeys((subject.kernel, subject.call)):
        answer = _answer(subject, call, probe.make(), device)
        if isinstance(answer, BaseException):
            # PyTorch's own, for a view that it cannot resolve, is a refusal.
            if _ASSERTION in str(answer) and _ASSERTION not in (forbidden or "") and probe.about != "view":
                return f"an assertion inside failed: {_first_line(answer)}"
        elif forbidden is not None:
            if answer and all(result.numel() == 0 for result in answer):
                continue  # nothing was computed
            return f"it returned a result, though {forbidden}"
        elif expected is not None and call is subject.kernel and not roughly_equal(answer, expected):
            return f"{OTHER_RESULT} than the reference does for it"
    return ""


class _Rule(NamedTuple):
    """Why a call must be refused, or what it must give, or that it is made only because it may crash."""

    forbidden: str | None = None
    expected: list[Tensor] | None = None
    is_made: bool = False


def _rule(subject: Subject, probe: Probe, values: dict[str, Any], plain: list[Tensor] | None) -> _Rule:
    if subject.operator is not None and probe.about not in ("view", "number"):
        forbidden = _definition(subject, probe, values)
        if forbidden is None and probe.about == "empty":
            forbidden = _refused_by_hand(subject, values)
        return _Rule(forbidden)
    if probe.about == "leaf":
        return _Rule()  # whether autograd learns of a foreign operator's writes is not judged here
    if probe.about == "device":
        is_mixed = any(isinstance(value, Tensor) and value.is_cuda for value in values.values())
        refused = is_mixed and not probe.label.endswith("meta device")
        return _Rule("the other tensors are on a GPU" if refused else None, is_made=True)
    found = _reference(subject, values) if probe.about != "dtype" else _wide_reference(subject, probe.argument, values)
    # A number that the reference takes may still make the kernel crash.
    is_number = probe.about == "number"
    if isinstance(found, Exception):
        is_lost_in_it = is_number and _is_not_finite(values.get(probe.argument)) and _is_of_pytorch(found)
        if (
            probe.about == "view"
            or is_lost_in_it
            or (is_number and _is_limit(found))
            or is_accident(found, probe.about)
        ):
            return _Rule(is_made=is_number or probe.about != "view")
        return _Rule(_rejection(found))
    # One row for all, or a number: where the results are as large as before, or it is just another size.
    is_as_large = plain is not None and [t.shape for t in found] == [t.shape for t in plain]
    is_compared = probe.about in ("dtype", "view") or (
        is_as_large and (probe.about == "broadcast" or (is_number and _decides(values.get(probe.argument))))
    )
    return _Rule(None, found if is_compared and plain is not None else None, is_made=is_number)


def _definition(subject: Subject, probe: Probe, values: Mapping[str, Any]) -> str | None:
    from opsmith.runtime.arguments import check_call

    if probe.about == "leaf":
        return "PyTorch does not write to a leaf that requires a gradient"
    if probe.about == "missing":
        return "the definition does not allow None there"
    assert subject.operator is not None
    try:
        check_call(subject.operator.definition.signature, subject.operator.sizes, values)
    except Exception as error:
        return f"the definition forbids it ({_first_line(error)})"
    return None


def _refused_by_hand(subject: Subject, values: Mapping[str, Any]) -> str | None:
    """Return why the reference refuses what the definition allows, where it does so in words of its own."""
    found = _reference(subject, values)
    if isinstance(found, Exception) and _is_raised_by_hand(found):
        return _rejection(found)
    return None


def _rejection(error: Exception) -> str:
    return f"the reference rejects it ({type(error).__name__}: {_first_line(error)})"


def _reference(subject: Subject, values: Mapping[str, Any]) -> list[Tensor] | Exception:
    # On the CPU: an index outside of a tensor ends a process's use of a GPU.
    def copy(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.detach().cpu() if value.is_cuda else value.detach()
        return [copy(item) for item in value] if isinstance(value, list) else value

    try:
        on_cpu = {name: copy(value) for name, value in values.items()}
        with limited_memory():
            return subject.results(subject.reference, on_cpu)
    except Exception as error:
        return error


def _answer(
    subject: Subject, call: Callable[..., Any], values: dict[str, Any], device: str
) -> list[Tensor] | Exception:
    try:
        results = subject.results(call, values)
        if device != "cpu":
            torch.cuda.synchronize()
    except Exception as error:
        if "CUDA error" in str(error):
            _tell_spoiled(error)
        return error
    return results


def _tell_spoiled(error: Exception) -> None:
    """Raise SpoiledError for an error after which every call in the process fails."""
    line = _first_line(error)
    try:
        torch.cuda.synchronize()
        torch.zeros(1, device="cuda").item()
    except Exception:
        # An assertion of the kernel's own is how PyTorch's operators refuse what only the GPU can see.
        raise SpoiledError("" if "assert" in line else f"it crashes: {line}") from None


def _wide_reference(subject: Subject, argument: str, values: Mapping[str, Any]) -> list[Tensor] | Exception:
    """Return what the reference gives in types for which PyTorch has every function, and which can be mixed.

    An operator that takes a type which the reference has no function for is right where the numbers are.
    """
    is_complex = any(tensor.is_complex() for value in values.values() for tensor in _tensors_of(value))
    real = torch.complex128 if is_complex else torch.float64
    found: list[Tensor] | Exception = []
    for integer in (torch.int64, real):
        wide = {
            name: _cast(value, real, integer if name == argument else torch.int64) for name, value in values.items()
        }
        found = _reference(subject, wide)
        if not isinstance(found, Exception):
            break
    return found


def _tensors_of(value: Any) -> list[Tensor]:
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, Tensor)]


def _cast(value: Any, real: torch.dtype, integer: torch.dtype) -> Any:
    if isinstance(value, list):
        return [_cast(item, real, integer) for item in value]
    if not isinstance(value, Tensor) or value.dtype is torch.bool:
        return value
    return value.detach().to(real if value.is_floating_point() or value.is_complex() else integer)


def is_accident(error: Exception, about: str) -> bool:
    """Whether PyTorch fails inside of a reference for lack of a function, which says nothing of the call.

    An operator may well have such a function: for sparse tensors, say. What the reference raises in its own words is
    meant, and so are PyTorch's own checks of sizes and types.
    """
    if isinstance(error, _REFUSALS) or _is_raised_by_hand(error):
        return False
    text = str(error)
    if _ASSERTION in text or any(words in text for words in _LACKING):
        return True
    return about == "layout"


def _decides(value: Any) -> bool:
    """Whether a number means the same in all ways to write a formula: a whole one, but for the ends of 64 bits.

    One of more than 32 bits must not be taken for a smaller one. What NaN means as a bound, say, nobody has thought of.
    """
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MOST


def _is_not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _is_of_pytorch(error: Exception) -> bool:
    """Whether one of PyTorch's own functions fails, on what an infinity has become inside of a reference."""
    return isinstance(error, RuntimeError) and not _is_raised_by_hand(error)


def _is_raised_by_hand(error: BaseException) -> bool:
    """Whether a `raise` or an `assert` outside of PyTorch's own files is where an exception comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or Path(frames[-1].filename).is_relative_to(_PYTORCH):
        return False
    line = (frames[-1].line or "").lstrip()
    return line.startswith(("raise", "assert"))


# What Python raises for a call that makes no sense.
_REFUSALS = (TypeError, ValueError, IndexError, KeyError)
# The words of a function that PyTorch does not have for a type, a layout or a device.
_LACKING = (
    "not implemented for",
    "Could not run 'aten::",
    "is not supported",
    "are not supported",
    "not yet implemented",
    "NYI",
    "does not have storage",
    "sparse tensors do not have",
)
_PYTORCH = Path(torch.__file__).parent


def _is_limit(error: Exception) -> bool:
    return isinstance(error, OverflowError | MemoryError) or any(word in str(error).lower() for word in _LIMITS)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:160]
