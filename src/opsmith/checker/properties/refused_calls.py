"""Lists calls that a kernel may refuse by an exception, small ones: what it does on the way out is looked at by others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from opsmith.checker.calls import accepted, is_accepted, kernel_outputs, quiet
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.probes import probes_of
from opsmith.subject.case import Case

__all__ = ["RefusedCall", "refused_calls"]

_MOST = 12
# Numbers that make no call long, and are as good a reason to refuse it as larger ones.
_SMALL = ("= -1", "= 0", "= nan", "= inf", "= -100000", "= 100000", "= ''", "= []", "= [-1]", "= [0, 0]")


@dataclass(frozen=True)
class RefusedCall:
    """A call that the reference or the definition refuses; `make` returns its arguments, made anew."""

    label: str
    case: Case
    make: Callable[[], dict[str, Any]]

    def raises(self, context: Context) -> bool:
        """Make the call; tell whether it raises."""
        try:
            with quiet():
                kernel_outputs(context.subject, self.make())
        except Exception:
            return True
        return False


def refused_calls(context: Context) -> Iterator[RefusedCall]:
    """Yield some calls: other numbers and texts; of an operator of others also what is wrong with a tensor."""
    yield from islice(_calls(context), _MOST)


def _calls(context: Context) -> Iterator[RefusedCall]:
    for case in context.subject.suite.cases(context.dtypes, "scalars"):
        if not is_accepted(context, case):
            yield RefusedCall(case.label, case, lambda case=case: case.build(context.device))  # type: ignore[misc]
    plain = next(accepted(context, "plain"), None)
    if plain is None:
        return
    # What is wrong with a tensor never reaches a kernel of opsmith's.
    about = ("size", "dtype", "missing") if context.subject.operator is None else ()
    for probe in probes_of(context.subject, plain, context.device):
        if probe.about in about or (probe.about == "number" and probe.label.endswith(_SMALL)):
            yield RefusedCall(probe.label, plain, probe.make)
