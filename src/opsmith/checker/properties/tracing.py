"""Checks that the fake kernel agrees with the real one, for concrete and for symbolic sizes."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from opsmith.checker.calls import is_accepted
from opsmith.checker.main_types import for_types
from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.particulars import named
from opsmith.checker.process.timed_cases import TimedCases
from opsmith.checker.properties.agreement import RefusedError, disagreement
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.fakes import MissingFakeError, call_fake, difference
from opsmith.checker.shrink import sizes_of, smallest
from opsmith.subject.case import Case
from opsmith.subject.choices_of_sizes import is_tail
from opsmith.subject.derivatives import differentiable_inputs, first_line, has_autograd_kernel, with_leaves
from opsmith.subject.oracle import Disagreement

__all__ = ["NO_OPERATOR", "fake", "is_fake_wrong"]

_MOST_ELEMENTS = 5000
NO_OPERATOR = "it is not an operator of torch.ops: PyTorch traces through a Python function, which has no fake kernel"
_REGISTER = (
    "Register one: torch.library.register_fake({name!r}), a function of the same arguments that returns torch.empty of "
    "the results' shapes and types."
)


def fake(context: Context) -> Outcome:
    """Results of the fake kernel have the real ones' number, shape, type, strides, offset, device, requires_grad."""
    subject = context.subject
    if subject.overload is None:
        return not_run(NO_OPERATOR)
    compared = 0
    cases = TimedCases(context, _cases(context))
    for case in cases:
        if not is_accepted(context, case):
            continue
        for symbolic in (False, True) if case.group in ("plain", "scalars") else (False,):
            try:
                message = _wrong_fake(context, case, symbolic)
            except RefusedError:
                break
            except MissingFakeError:
                name = str(subject.overload).removesuffix(".default").replace(".", "::", 1)
                return failed(
                    Finding(
                        "there is no fake kernel: torch.compile and torch.export cannot trace the operator",
                        hint=_REGISTER.format(name=name),
                    )
                )
            compared += 1
            if message is not None:
                return _found(context, case, symbolic, message, compared)
    if compared == 0:
        return not_run("the reference or the kernel rejects every input tried")
    return passed(compared, left_out=cases.left_out)


def is_fake_wrong(context: Context) -> bool:
    """Whether the fake kernel is missing or wrong: then nothing that is traced can be judged."""
    return fake(context).state == "failed"


def _cases(context: Context) -> Iterator[Case]:
    # A fake kernel computes shapes, for which one type is as good as another; the results' types it must know for all.
    groups = ("plain", "scalars", "sizes", "empty", "layouts") if context.is_main_type else ("plain", "scalars")
    cases = (case for case in context.subject.suite.cases(context.dtypes, *groups) if not is_tail(case.label))
    for index, case in enumerate(for_types(context, cases)):
        if case.elements <= _MOST_ELEMENTS and (case.group != "sizes" or index % 3 == 0):
            yield case


def _wrong_fake(context: Context, case: Case, symbolic: bool) -> str | None:
    """Return what the fake kernel says wrongly; raises RefusedError if the real one says nothing to compare with."""
    subject = context.subject
    wants_gradients = case.group == "plain" and not subject.mutated and has_autograd_kernel(subject, context.device)
    names = differentiable_inputs(subject, case) if wants_gradients else ()
    values, _ = with_leaves(case.build(context.device), names)
    given, _ = with_leaves(case.build(context.device), names)
    context.tell(case)
    try:
        real = subject.kernel_results(values)
    except Exception as error:
        raise RefusedError(str(error)) from error
    how = "with symbols for sizes, " if symbolic else ""
    try:
        found = call_fake(subject, given, symbolic=symbolic)
    except MissingFakeError:
        raise
    except Exception as error:
        message = f"{how}the fake kernel raises {type(error).__name__}: {first_line(error)}"
    else:
        inputs = [item for value in values.values() for item in (value if isinstance(value, list) else [value])]
        wrong = difference(real, found, [item for item in inputs if isinstance(item, Tensor)])
        if wrong is None:
            return None
        message = f"{how}{wrong}"
    if _is_real_form_wrong(context, case):
        raise RefusedError("the kernel's results have the wrong shape or element type")
    return message


def _is_real_form_wrong(context: Context, case: Case) -> bool:
    try:
        wrong = disagreement(context, case)
    except RefusedError:
        return False
    return isinstance(wrong, Exception) or (
        isinstance(wrong, Disagreement) and wrong.kind in ("shape", "dtype", "count")
    )


def _found(context: Context, case: Case, symbolic: bool, message: str, compared: int) -> Outcome:
    def fails(other: Case) -> bool:
        try:
            found = _wrong_fake(context, other, symbolic)
            return found is not None and found.partition(" of output")[0] == message.partition(" of output")[0]
        except (RefusedError, MissingFakeError):
            return False

    small = smallest(context, case, fails)
    again = _wrong_fake(context, small, symbolic) or message
    hint = "torch.compile allocates and indexes by the fake kernel: a wrong one corrupts memory or results."
    return failed(Finding(named(small, again, sizes_of(small, context)), small, hint, first=case), inputs=compared)
