"""Calls a candidate with inputs that the judge has made, and compares what comes back with the reference's results."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from opsmith.judging.answers import Batch
from opsmith.judging.cell import Cell, CellError, Returned
from opsmith.judging.complex_pairs import in_pairs, joined, places_of_complex
from opsmith.judging.parts import InParts, Rows, compare_in_parts, form_of, rows_of
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge
from opsmith.judging.scaled import bytes_of
from opsmith.judging.structure import is_narrow
from opsmith.judging.task import Task
from opsmith.judging.tasks.places import on_device
from opsmith.judging.tasks.trees import as_real, tensors_of
from opsmith.judging.ties import with_ties_settled
from opsmith.subject.case import Case
from opsmith.subject.copies import copied, upcast
from opsmith.subject.examples import as_case
from opsmith.subject.indexing import Asserts, ask_the_cpu, asserts_of
from opsmith.subject.oracle import Disagreement, Expected, expect
from opsmith.subject.subject import Subject

__all__ = ["Trial", "Values", "charge_for_changes"]

Values = Mapping[str, Any]
# What lies around inputs, and what memory for results has in it before: NaN in every floating type, and a number.
_NOT_A_NUMBER, _OTHER_BYTE = 0xFF, 0x5B
# Inputs and results of a call that are compared at a time, where rows do not depend on each other.
_PART_BYTES = 64 << 20


@dataclass
class Trial:
    """A candidate in its cell, and what it has to compute there.

    `calls` counts those that were compared, and `slowest_s` is the longest that one took. By the word of its process the
    results `shared` lie in an input, and of the `overlapping` ones elements share memory.
    `until_s` is the moment, by time.monotonic, at which nothing new is begun.
    """

    task: Task
    cell: Cell
    until_s: float
    calls: int = 0
    shared: set[int] = field(default_factory=set)
    overlapping: set[int] = field(default_factory=set)
    slowest_s: float = 0.0
    complex_inputs: Mapping[str, Any] = field(default_factory=dict)
    complex_outputs: set[int] = field(default_factory=set)
    narrow_outputs: dict[int, torch.dtype] = field(
        default_factory=dict
    )  # float8, of which numbers in float32 are compared
    _asserts: Asserts | None = None
    _loaded: Sequence[Mapping[str, ref[Tensor]]] = ()  # weights, which are not held in memory for that
    _known_rows: dict[Any, Rows | None] = field(default_factory=dict)

    @property
    def has_time(self) -> bool:
        """Whether something new may begin."""
        return time.monotonic() < self.until_s

    @cached_property
    def subject(self) -> Subject:
        """The task as the oracle takes it, with pairs for complex numbers; what is called is the reference.

        What is learnt of it is kept with it.
        """
        task = self.task

        def call(*arguments: Any) -> tuple[Tensor, ...]:
            given = [
                joined(value, self.complex_inputs.get(name, False))
                for name, value in zip(task.parameters, arguments, strict=False)
            ]
            found = tensors_of(task.reference(*given))
            self.complex_outputs.clear()
            self.complex_outputs.update(number for number, one in enumerate(found) if one.is_complex())
            self.narrow_outputs.clear()
            self.narrow_outputs.update((number, one.dtype) for number, one in enumerate(found) if is_narrow(one))
            return tuple(map(as_real, found))

        subject = Subject(task.name, call, call, call, task.parameters, (self.cell.device,), (), task.signature)
        return replace(subject, paired=self.complex_outputs)

    def arguments(self, values: Values) -> list[Any]:
        """Return arguments in the task's order."""
        return [values[name] for name in self.task.parameters]

    def expected(self, values: Values, case: Case | None = None) -> Expected | InParts:
        """Return what the reference gives; raises what it raises.

        `case` says what kind of numbers these are, of complex ones in pairs. Of a large call whose rows do not depend on
        each other it is some rows at a time.
        """
        here = on_device(values, self._device_for(values, is_own=case is None))
        self.complex_inputs = {name: places_of_complex(value) for name, value in here.items()}
        here = in_pairs(here)
        case = case or as_case(here, self.task.parameters)
        with torch.no_grad():
            if (rows := self._rows(here)) is not None:
                return self._in_parts(rows, here, case)
            return self._expect(case, here)

    def _device_for(self, values: Values, *, is_own: bool) -> str:
        """Return where the reference runs: on the CPU, where it asserts something of numbers, which would stop a GPU.

        Of others that may stop one it raises what the reference raises on the CPU for indices that are not the task's own.
        """
        if self.cell.device != "cuda":
            return self.cell.device
        here, run = on_device(values, "cuda"), partial(self.subject.results, self.subject.reference)
        if is_own and self._asserts is None:
            self._asserts = asserts_of(run, here)
        if self._asserts is Asserts.NUMBERS:
            return "cpu"
        if not is_own and self._asserts is not Asserts.NOTHING:
            ask_the_cpu(run, here)
        return "cuda"

    def _expect(self, case: Case, values: Values) -> Expected:
        expected = expect(self.subject, case, values, is_lenient=True)
        return replace(expected, settled=partial(self._settled, values, expected.values))

    def _settled(self, values: Values, usual: Sequence[Tensor], found: Sequence[Tensor]) -> list[Tensor]:
        """Return results without other indices of equal elements: of what the reference sorts in its type, or in float64."""
        for form in (copied, upcast):

            def run(form: Callable[[Values], dict[str, Any]] = form) -> list[Tensor]:
                return self.subject.results(self.subject.reference, form(values))

            found = with_ties_settled(found, usual, run)
        return list(found)

    def _rows(self, values: Values) -> Rows | None:
        """Return the rows of a call that is large enough to be compared in parts; found out once for its shapes."""
        if bytes_of(list(values.values())) < _PART_BYTES // 2:
            return None
        shapes = tuple(tuple(one.shape) for one in values.values() if isinstance(one, Tensor))
        if shapes not in self._known_rows:
            names = [name for name in self.task.parameters if name not in self.task.lifted]
            found = rows_of(lambda given: self.subject.results(self.subject.reference, given), values, names)
            self._known_rows[shapes] = found if found is not None and found.count * found.nbytes > _PART_BYTES else None
        return self._known_rows[shapes]

    def _in_parts(self, rows: Rows, values: Values, case: Case) -> InParts:
        def part(some: slice) -> Expected:
            with torch.no_grad():
                return self._expect(rows.of_case(case, some), rows.of(values, some))

        # Of one row: the others are alike.
        forms = tuple(replace(one, shape=(rows.count, *one.shape[1:])) for one in form_of(part(slice(0, 1))))
        return InParts(rows.slices(_PART_BYTES), part, forms)

    def call(
        self, values: Values, *, keep: bool = False, margin: int = _NOT_A_NUMBER, soil: int | None = None
    ) -> list[Tensor]:
        """Return the results of one call; raises CellError for a call that has none, or changes its inputs.

        `margin` is the byte around its inputs, and `soil` the one in memory that its results may get.
        """
        return self.batch([values], keep=keep, margin=margin, soil=soil)[0]

    def batch(
        self,
        slots: Sequence[Values],
        order: Sequence[int] | None = None,
        which: Sequence[int] | None = None,
        *,
        keep: bool = False,
        margin: int = _NOT_A_NUMBER,
        soil: int | None = None,
        is_watched: bool = False,
        more: Callable[[], None] | None = None,
    ) -> list[list[Tensor]]:
        """Make a call for each slot in an order, and return the results of some of the calls, of all by default.

        Where they are watched, what comes last is the copy of the last call's results that was ordered right behind it.
        `more` makes calls before any result is read.
        """
        order = list(range(len(slots))) if order is None else order
        which = range(len(order)) if which is None else which
        self.load(slots, keep=keep, margin=margin)
        self.cell.soil(secrets.choice((_NOT_A_NUMBER, _OTHER_BYTE)) if soil is None else soil)
        done = self.run(order, is_watched=is_watched)
        self.slowest_s = max(self.slowest_s, done.wall_s / max(len(order), 1))
        if more is not None:
            more()
        # Before its process is asked again, which could put them back.
        if changed := self.cell.changed_inputs():
            raise CellError(charge_for_changes(changed))
        self.cell.release_inputs()
        given = self.cell.give(which)
        if is_watched:
            given += self.cell.give(which[-1:], is_snapshot=True)
        return [self.plain(results) for results in given]

    def load(
        self,
        slots: Sequence[Values],
        *,
        keep: bool = False,
        margin: int = _NOT_A_NUMBER,
        copies: Sequence[tuple[int, float]] = (),
        hidden_from: int | None = None,
    ) -> None:
        """Give the cell a call's arguments for each slot, and copies behind them (see `scaled.Inputs`).

        Those from `hidden_from` on have their numbers only when the next timed run begins, as in `Cell.load`, unless copies
        are made of them.

        With `keep` new contents come to the same tensors. Weights that are others have new versions then: what is made of
        them may be kept as long as they stay. Inputs have not, as where a kernel or a CUDA graph has written to them.
        """
        pairs = list(zip(self._loaded, slots, strict=False))
        weights = [
            place
            for place, name in enumerate(self.task.parameters)
            if name in self.task.lifted and not (pairs and all(one[name]() is other[name] for one, other in pairs))
        ]
        self._loaded = [{name: ref(one[name]) for name in self.task.lifted} for one in slots]
        arguments = [self.arguments(values) for values in slots]
        hidden_from = None if copies else hidden_from
        self.cell.load(arguments, keep=keep, margin=margin, versioned=weights, copies=copies, hidden_from=hidden_from)

    def run(
        self,
        order: Sequence[int],
        *,
        is_watched: bool = False,
        is_lead_in: bool = False,
        is_aside: bool = False,
        is_timed: bool = False,
    ) -> Batch:
        """Make calls with what is loaded, as `Cell.run` does; raises CellError if one of them raises."""
        done = self.cell.run(order, is_watched=is_watched, is_lead_in=is_lead_in, is_aside=is_aside, is_timed=is_timed)
        if done.error is not None:
            raise CellError(done.error)
        return done

    def plain(self, results: Sequence[Returned | None]) -> list[Tensor]:
        """Return results as tensors; raises CellError for those that are not plain ones."""
        found = []
        for number, result in enumerate(results):
            if result is None or result.tensor is None:
                odd = "None" if result is None else result.odd
                is_tensor = odd.startswith("a tensor")
                text = f"output {number} is {odd}, and not a plain tensor"
                raise CellError(Charge(Refusal.LAZY_RESULT if is_tensor else Refusal.WRONG_DTYPE, text))
            if result.shares:
                self.shared.add(number)
            if result.overlaps:
                self.overlapping.add(number)
            found.append(result.tensor)
        return found

    def wrong(self, found: list[Tensor], expected: Expected | InParts) -> Disagreement | Charge | None:
        """Return how results differ from what is expected: a charge where the type or the form does."""
        self.calls += 1
        wanted = form_of(expected)
        if len(found) != len(wanted):
            text = f"it returns {len(found)} results, the reference {len(wanted)}"
            return Charge(Refusal.WRONG_SHAPE, text)
        for number, one in enumerate(found):
            if one.is_complex() != (number in self.complex_outputs):
                usual = "complex" if number in self.complex_outputs else "real"
                return Charge(Refusal.WRONG_DTYPE, f"output {number} is {one.dtype}, the reference's is {usual}")
            narrow = self.narrow_outputs.get(number)
            if (narrow is not None or is_narrow(one)) and one.dtype is not narrow:
                usual = str(narrow or wanted[number].dtype)
                return Charge(Refusal.WRONG_DTYPE, f"output {number} is {one.dtype}, the reference's is {usual}")
        found = [as_real(one) for one in found]
        for number, (one, form) in enumerate(zip(found, wanted, strict=True)):
            if one.shape != form.shape:
                text = f"output {number} has the shape {list(one.shape)}, the reference's has {list(form.shape)}"
                return Charge(Refusal.WRONG_SHAPE, text)
        for number, (one, form) in enumerate(zip(found, wanted, strict=True)):
            if form.dtype not in (None, one.dtype):
                return Charge(Refusal.WRONG_DTYPE, f"output {number} is {one.dtype}, the reference's is {form.dtype}")
        return compare_in_parts(found, expected)


def charge_for_changes(changed: str, when: str = "the call") -> Charge:
    """Return the charge for what calls have changed, as `Cell.changed_inputs` says it."""
    if changed == "inputs":
        return Charge(Refusal.INPUT_MODIFIED, f"its inputs have other values after {when}")
    return Charge(Refusal.WRITES_OUTSIDE, f"memory around its inputs has other values after {when}")
