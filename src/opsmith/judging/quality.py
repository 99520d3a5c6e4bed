"""Judges a task itself: whether its own inputs can tell a kernel that computes it from one that does not.

The limits are those that published judges have (a tolerance of 1e-2), and the filters are those of robust-kbench
(Lange et al., arXiv 2509.14279): range, spread, and the influence of inputs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from opsmith.checker.memory.available import available_memory_bytes, size_text
from opsmith.judging.orders import EqualInOrder
from opsmith.judging.pieces import mean_of, within
from opsmith.judging.posed_call import PosedCall, moved_copy
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge
from opsmith.judging.scaled import bytes_of
from opsmith.judging.task import Task
from opsmith.judging.tasks.trees import differs, same_tensor, tensors_of
from opsmith.subject.blame import is_out_of_memory

__all__ = ["TaskQuality", "quality_of", "refused_for"]

# What usual judges allow, of a number and absolutely.
_ALLOWED = 1e-2
# Two runs of one reference on the same inputs differ by less, even where it adds in any order.
_SELF = 1e-3
_MOST_CALLS = 3
# How many draws of the inputs have to give nearly the same results.
_SEEDS = 4
# What the judge's process takes of a CPU's memory at most, as measured: several calls' inputs and results, as they are, as
# they come from the candidate, and in higher precision.
_TIMES_INPUTS, _TIMES_RESULTS = 16, 28
# The same where it is compared in parts: then the higher precision is that of a part alone.
_TIMES_IN_PARTS, _BYTES_OF_PARTS = 12, 2 << 30
# A step in an input's place that changes by so large a part with the others' numbers is made of these.
_OF_STEP = 0.5
# How far inputs are moved, and made larger, to see what their own distribution hides.
_OFFSET, _SCALE = 1.0, 30.0


@dataclass(frozen=True)
class TaskQuality:
    """Reasons to refuse a task, and what does not refuse it but should be known.

    Where the reference raises on the task's own inputs it `can_be_called` no more: nothing can be compared with it.
    """

    charges: tuple[Charge, ...] = ()
    notes: tuple[str, ...] = ()
    can_be_called: bool = True


def quality_of(task: Task, seed: int, device: str = "cpu") -> TaskQuality:
    """Return what is wrong with a task, by a few runs of its reference on a device; the first reason for each call.

    Of many calls that a task poses, some are looked at. Nothing is raised: a reference that raises on its own inputs is
    such a reason.
    """
    charges: list[Charge] = []
    notes: list[str] = []
    can_be_called = True
    makers = list(task.makers.items())
    for label, make in makers[:: -(-len(makers) // _MOST_CALLS)]:
        call = PosedCall(task, make, seed, device)
        if len(makers) > 1 and not bytes_of(list(call.values.values())):
            continue  # no numbers show anything of a call without any
        try:
            if message := _does_not_fit(call):
                return TaskQuality((*charges, Charge(Refusal.LARGE_TASK, message, label)), tuple(notes), False)
            if message := next((message for look in _LOOKS if (message := look(call))), ""):
                charges.append(Charge(Refusal.DEGENERATE_TASK, message, label))
            else:
                notes += _without_influence(call)
        except Exception as error:
            charges.append(refused_for(error, label))
            can_be_called = False
    return TaskQuality(tuple(charges), tuple(dict.fromkeys(notes)), can_be_called)


def refused_for(error: Exception, where: str = "") -> Charge:
    """Return the charge against a task whose reference raises on its own inputs, or has no memory there."""
    if is_out_of_memory(error):
        text = f"there is not enough memory for its own inputs, with results in float64: {str(error)[:300]}"
        return Charge(Refusal.LARGE_TASK, f"{text}; pose smaller inputs", where)
    text = f"its reference raises {type(error).__name__} on its own inputs: {str(error)[:300]}"
    return Charge(Refusal.DEGENERATE_TASK, text, where)


def _does_not_fit(call: PosedCall) -> str:
    read, written = bytes_of(list(call.values.values())), bytes_of(call.results)
    needed, free = _TIMES_INPUTS * read + _TIMES_RESULTS * written, available_memory_bytes("cpu")
    if call.device != "cpu" or needed < free or free == 0:  # which is not known everywhere
        return ""
    if _TIMES_IN_PARTS * (read + written) + _BYTES_OF_PARTS < free and call.has_rows():
        return ""
    return (
        f"a call has {read / 1e9:.1f} GB of inputs and {written / 1e9:.1f} GB of results, judging it takes about "
        f"{size_text(needed)} of this machine's memory, and {size_text(free)} are free: pose smaller inputs"
    )


def _changes_inputs(call: PosedCall) -> str:
    given = [moved_copy(call.values[name], call.device) for name in call.task.parameters]
    before = moved_copy(given, call.device)
    call.run_on(given)
    for name, one, old in zip(call.task.parameters, given, before, strict=True):
        if not all(map(same_tensor, tensors_of(one), tensors_of(old))):
            return f"its reference changes {name}, so what a candidate is given depends on who is called first"
    return ""


def _returns_nothing(call: PosedCall) -> str:
    return "" if call.results else "its reference returns no tensor, so there is nothing to compare"


def _is_not_finite(call: PosedCall) -> str:
    for index, one in enumerate(call.results):
        if not one.is_floating_point() or not one.numel():
            continue
        if bool(one.isnan().any()):
            return f"output {index} of its reference has NaN, which hides what is beside it"
        # Some are meant: of masked scores, and of the logarithm of a sum without terms.
        if not bool(one.isfinite().any()):
            return f"output {index} of its reference has no finite number"
    return ""


def _disagrees_with_itself(call: PosedCall) -> str:
    again = _with_stable_order(call)
    if again is not None and _unlike(call.results, again) is None:
        return ""
    if (index := _unlike(call.results, call.run(call.values))) is not None:
        return f"its reference disagrees with itself: output {index} differs between two calls with the same inputs"
    # Indices of equal elements are excused, see `ties`; what is made of them is not.
    if again is not None and (index := _unlike(call.results, again, integers=False)) is not None:
        return (
            f"output {index} of its reference depends on the order of equal elements, which sort and topk leave open: "
            "sort with stable=True, or give inputs without equal ones"
        )
    return ""


def _with_stable_order(call: PosedCall) -> list[Tensor] | None:
    """Return what the reference gives where equal elements stay in order; None where it cannot be watched."""
    with contextlib.suppress(Exception), EqualInOrder():
        return call.run(call.values)
    return None


def _has_zero_weights(call: PosedCall) -> str:
    for name, word in call.task.lifted.items():
        weight = call.values[name]
        if weight.dim() > 1 and weight.numel() and not bool(weight.any()):
            return f"the weight {word} is zero, so a kernel that leaves it out is right"
    return ""


def _ignores_inputs(call: PosedCall) -> str:
    is_drawn = False
    for number in range(1, _SEEDS):  # two draws may be near by chance
        others = call.others if number == 1 else call.make(call.seed + number)
        if not any(differs(value, others[name]) for name, value in call.values.items()):
            continue
        is_drawn = True
        moved = {name: others[name] if name in call.inputs else old for name, old in call.values.items()}
        results = call.run_other(moved) if call.inputs else None
        if results is None or not _are_near(call.results, results):
            return ""
    if not is_drawn:
        return "its inputs are the same for every seed, so a result that was kept is right; draw them"
    return "its results hardly depend on its inputs: with other numbers they are the same but for 1 %"


def _is_nearly_constant(call: PosedCall) -> str:
    for index, one in enumerate(call.results):
        if one.is_floating_point() and one.numel() > 1:
            mean = mean_of(one)
            if within(one, mean, _ALLOWED):
                return (
                    f"output {index} is {mean:.3g} but for 1 %, so a constant passes a tolerance of 1e-2; give "
                    "inputs whose rows differ, such as numbers with another scale in each"
                )
    return ""


def _cancels(call: PosedCall) -> str:
    moved = call.run_other(call.changed(call.inputs[:1], lambda x: x + _OFFSET))
    for index, (one, other) in enumerate(zip(call.results, moved or call.results, strict=True)):
        if not one.is_floating_point() or not one.numel():
            continue
        largest = float(one.abs().max())
        if largest <= _ALLOWED and largest <= 0.05 * float(other.abs().max()):
            text = "since numbers around zero cancel; give inputs with another mean"
            return f"output {index} is zero but for {_ALLOWED}, {text}"
    return ""


def _is_nearly_a_copy(call: PosedCall) -> str:
    for index, one in enumerate(call.results):
        for name in call.inputs:
            value = call.values[name].to(one.device)
            is_same = value.shape == one.shape and value.dtype == one.dtype and one.is_floating_point()
            if not is_same or name in call.task.entry.written or not _is_near(one, value, _ALLOWED):
                continue
            if _is_step(call, index, name):
                continue
            # A task that is to copy is one whatever its numbers are.
            moved = call.changed([name], lambda x: _SCALE * x + _OFFSET)
            results = call.run_other(moved)
            if results is not None and not same_tensor(results[index], moved[name].to(one.device)):
                return f"output {index} is {name} but for 1 %, so a copy passes a tolerance of 1e-2"
    return ""


def _is_step(call: PosedCall, index: int, name: str) -> bool:
    """Whether a result is an input with a small step that other inputs decide about, as an optimizer's is.

    Who leaves the step out is told: the judge allows roundings, and no part of a result.
    """
    value, others = call.values[name], [one for one in call.inputs if one != name]
    results = call.run_other({**call.values, **{other: call.others[other] for other in others}}) if others else None
    if results is None:
        return False
    here, float64 = value.to(results[index].device, torch.float64), torch.float64
    step, other = (one[index].to(float64) - here for one in (call.results, results))
    return bool((other - step).norm() > _OF_STEP * step.norm())


# In this order: what is said first explains what would be said later.
_LOOKS = (
    _changes_inputs,
    _returns_nothing,
    _is_not_finite,
    _disagrees_with_itself,
    _has_zero_weights,
    _is_nearly_constant,
    _ignores_inputs,
    _cancels,
    _is_nearly_a_copy,
)


def _without_influence(call: PosedCall) -> Iterator[str]:
    """Yield a note for each input that may be left out, where there are several."""
    names = [name for name in call.inputs if name not in call.task.entry.written]
    integers = [name for name in names if not call.values[name].dtype.is_floating_point]
    for name in names if len(names) > 1 else ():
        one, other = call.values[name], call.others[name]
        if not differs(one, other):
            yield f"{name} is the same for every seed: what a candidate does for other numbers of it is not asked"
        # Indices that belong together, as rows and columns, mean nothing beside those of another draw.
        belongs = one.shape != other.shape or (name in integers and len(integers) > 1)
        if belongs or not differs(one, other):
            continue
        results = call.run_other({**call.values, name: other})
        if results is not None and _are_near(call.results, results):
            yield f"results hardly depend on {name}: a candidate may leave it out"


def _unlike(ones: Sequence[Tensor], others: Sequence[Tensor], *, integers: bool = True) -> int | None:
    """Return which result two runs of one reference do not agree about, the first one."""
    counted = (number for number, one in enumerate(ones) if integers or one.is_floating_point())
    return next((number for number in counted if not _is_near(ones[number], others[number], _SELF)), None)


def _are_near(ones: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return all(_is_near(one, other, _ALLOWED) for one, other in zip(ones, others, strict=True))


def _is_near(one: Tensor, other: Tensor, part: float) -> bool:
    """Whether tensors are the same but for a part of each number, and of what is usual among them."""
    if one.shape != other.shape:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    return within(one, other, part)
