"""What does one call of a kernel do to memory? Its inputs lie between margins, and what it allocates is guarded."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from opsmith.checker.memory.guard import Damage, Guard, guarded
from opsmith.checker.memory.margins import Place, place_all
from opsmith.checker.process.threads import on_threads
from opsmith.subject.case import Case
from opsmith.subject.values import fill

if TYPE_CHECKING:
    from opsmith.checker.properties.context import Context
    from opsmith.subject.subject import Subject

__all__ = [
    "BODIES",
    "Trial",
    "accepted",
    "accepts",
    "attempt",
    "differentiated",
    "is_accepted",
    "is_gradient_of_body",
    "kernel_outputs",
    "quiet",
]

# What guarded memory holds. As numbers, the first two are large, of either sign and finite in every type; the third is NaN.
BODIES = (0x7B, 0xFB, 0xFF)


# Smaller calls run on one thread: on a busy machine threads wait for each other longer than they work.
_FOR_ALL_THREADS = 4096


@dataclass
class Trial:
    """What a call left behind. `results` are by name: outputs, arguments that were written to, and gradients.

    `error` is what it raised; `damage` is a write to memory of nobody's, and `damaged` the result beside it.
    """

    results: dict[str, Tensor] = field(default_factory=dict)
    places: list[Place] = field(default_factory=list)
    error: Exception | None = None
    damage: Damage | None = None
    damaged: str = ""


def attempt(
    context: Context,
    case: Case,
    *,
    body: int = BODIES[0],
    margin: int = BODIES[1],
    around: str = "high",
    with_guard: bool = True,
    with_gradient: bool = True,
) -> Trial:
    """Call the kernel once, and once more with its gradient where there is one.

    `body` fills what is allocated and `margin` what lies around that; `around` names what lies around inputs. A gradient
    that cannot be computed is none: another property says so. One that autograd takes through the body is computed by
    PyTorch's operators alone, and what they do to memory is not looked at.
    """
    subject = context.subject
    with_gradient = with_gradient and not is_gradient_of_body(subject)
    context.tell(case)
    trial = Trial()
    with on_threads(1):
        values, trial.places = place_all(case.build(context.device), around)
    guard = guarded(context.device, body, margin) if with_guard else contextlib.nullcontext()
    threads = torch.get_num_threads() if case.elements >= _FOR_ALL_THREADS else 1
    with quiet(), on_threads(threads), guard as watch:
        torch.manual_seed(subject.seed)
        try:
            trial.results = _named(subject, kernel_outputs(subject, values), values)
        except Exception as error:
            trial.error = error
        _look_for_damage(trial, watch, context.device)
        if with_gradient and trial.error is None:
            torch.manual_seed(subject.seed)
            with contextlib.suppress(Exception):
                _differentiate(subject, values, around, trial)
            _look_for_damage(trial, watch, context.device)
    return trial


def _look_for_damage(trial: Trial, watch: Guard | None, device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()
    if watch is None or trial.damage is not None or (found := watch.damage()) is None:
        return
    trial.damage = found
    owners = (name for name, result in trial.results.items() if _start(result) == found.address)
    trial.damaged = next(owners, "")


def _start(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def accepted(context: Context, *groups: str) -> Iterator[Case]:
    """Yield the cases of some groups that the reference takes: what it refuses, no kernel need survive."""
    return (case for case in context.subject.suite.cases(context.dtypes, *groups) if is_accepted(context, case))


def is_accepted(context: Context, case: Case) -> bool:
    """Whether the reference takes a case of the suite; a reference may be slow, and each is asked once."""
    key = (id(context.subject), context.device, tuple(context.dtypes.items()), case.group, case.label)
    if key not in _accepted:
        _accepted[key] = accepts(context, case)
    return _accepted[key]


# Several properties go through the same cases.
_accepted: dict[Any, bool] = {}


def accepts(context: Context, case: Case) -> bool:
    """Whether the reference takes a case's arguments."""
    try:
        with quiet(), on_threads(1):
            context.subject.results(context.subject.reference, case.build(context.device))
    except Exception:
        return False
    return True


def kernel_outputs(subject: Subject, values: Mapping[str, Any]) -> list[Tensor]:
    """Call the kernel without a gradient and return the tensors that it returns."""
    with torch.no_grad():
        found = subject.kernel(*subject.arguments(values), **subject.keyword_arguments(values))
    return _tensors(found)


def differentiated(subject: Subject, values: Mapping[str, Any]) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Call what users call on arguments that need gradients; return its differentiable results and those arguments.

    Both are empty where there is no gradient.
    """
    if subject.mutated:
        return [], {}
    leaves = {
        name: value.detach().requires_grad_()
        for name, value in values.items()
        if name in subject.differentiable and isinstance(value, Tensor) and value.dtype.is_floating_point
    }
    if not leaves:
        return [], {}
    given = {**values, **leaves}
    found = subject.call(*subject.arguments(given), **subject.keyword_arguments(given))
    return [result for result in _tensors(found) if result.requires_grad], leaves


def is_gradient_of_body(subject: Subject) -> bool:
    """Whether the gradient is PyTorch's own, of the body's operators: there is no kernel for it."""
    return subject.operator is not None and subject.operator.gradient is None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Say nothing of warnings: what an operator warns of in a thousand calls is no finding here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _differentiate(subject: Subject, values: Mapping[str, Any], around: str, trial: Trial) -> None:
    results, leaves = differentiated(subject, values)
    if not results:
        return
    given = {
        f"the gradient of output {index}": fill(tuple(result.shape), result.dtype, "normal", subject.seed + index).to(
            result.device
        )
        for index, result in enumerate(results)
    }
    placed, places = place_all(given, around)
    trial.places = [*trial.places, *places]
    found = torch.autograd.grad(results, list(leaves.values()), list(placed.values()), allow_unused=True)
    for name, gradient in zip(leaves, found, strict=True):
        if gradient is not None:
            trial.results[f"the gradient of {name}"] = gradient


def _named(subject: Subject, outputs: list[Tensor], values: Mapping[str, Any]) -> dict[str, Tensor]:
    named = {f"output {index}": output for index, output in enumerate(outputs)}
    return named | {name: values[name] for name in subject.mutated if isinstance(values[name], Tensor)}


def _tensors(found: Any) -> list[Tensor]:
    listed = list(found) if isinstance(found, tuple | list) else [found]
    flat = [item for entry in listed for item in (entry if isinstance(entry, tuple | list) else [entry])]
    return [item for item in flat if isinstance(item, Tensor)]
