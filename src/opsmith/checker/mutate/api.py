"""Mutates operators from Python: `opsmith.mutate(op)`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from opsmith.checker.mutate.options import MutateOptions
from opsmith.checker.mutate.report import MutationReport, MutationReports
from opsmith.checker.mutate.run import MutationWatcher, mutate_operator
from opsmith.errors import ArgumentError
from opsmith.runtime.operator import Operator, operators_of
from opsmith.subject.verb import verb

__all__ = ["mutate", "mutated"]


@verb(MutateOptions, MutationReport, MutationReports)
def mutate(operators: Sequence[Any], options: MutateOptions) -> Iterator[MutationReport]:
    """Plant faults into copies of an operator's kernels, and return how many of them a check finds.

    That is what a check without findings is worth for this operator. `op` is an operator of opsmith's; a module stands for
    the operators that it declares, and a list for its items. The user's files are not changed, and no mutant is loaded
    into this process: each is tried in a child, which may crash or hang.

    Raises ArgumentError for anything but an operator with a kernel for the device, and BuildError if that cannot be built.
    """
    for op in operators:
        yield mutated(op, options)


def mutated(op: Any, options: MutateOptions, watch: MutationWatcher | None = None) -> MutationReport:
    """Return the report of one operator: made here, or in a new process where this one has loaded the operator."""
    if not isinstance(op, Operator):
        raise ArgumentError(f"{op!r} was not made by opsmith, so it cannot be built again with a fault in it")
    if any(item.is_loaded for item in operators_of(op.definition.module)):
        from opsmith.checker.mutate.elsewhere import mutate_elsewhere

        return mutate_elsewhere(op, options)
    return mutate_operator(op, options, watch)
