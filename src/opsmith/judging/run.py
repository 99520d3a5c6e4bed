"""Judges one candidate: as the task poses it, then its time, then as an operator, within a budget of seconds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from opsmith._keywords import names_in
from opsmith.benchmark.conditions import torch_threads
from opsmith.benchmark.deadline import OutOfTime, time_limit
from opsmith.benchmark.machine import load_warning, this_machine
from opsmith.judging.answers import NotStartedError
from opsmith.judging.as_operator import judge_as_operator
from opsmith.judging.bounded_task import BoundedTask, OverLimit, TaskLimits, without_warnings
from opsmith.judging.candidate import Candidate
from opsmith.judging.candidate_process import CandidateProcess
from opsmith.judging.cell import Cell, CellError
from opsmith.judging.gpu_claims import Claim, claimed
from opsmith.judging.gpu_memory import SLACK_BYTES
from opsmith.judging.hooks import Hooks
from opsmith.judging.making import made_on
from opsmith.judging.options import JudgeOptions
from opsmith.judging.patience import OverTotal
from opsmith.judging.posed import judge_as_posed
from opsmith.judging.preparing import device_of, limits_of, with_its_files
from opsmith.judging.quality import quality_of, refused_for
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge, Judgement, Part, Sign, Speed, Walls
from opsmith.judging.seeds import derived, secret_seed, with_scattered_seeds
from opsmith.judging.signs import signs_of
from opsmith.judging.task import Task
from opsmith.judging.tasks.trees import flattened, tensors_of
from opsmith.judging.timing.clock import Overhead, measure_overhead
from opsmith.judging.timing.floor import floor_of
from opsmith.judging.timing.race import time_candidate
from opsmith.judging.timing.rivals import rivals_of
from opsmith.judging.timing.round_size import bytes_of_round
from opsmith.judging.trial import Trial
from opsmith.subject.blame import is_of_reference

__all__ = ["run_judge"]

# What is begun last: what is asked of values as posed, then rounds of timing; the rest is for the operator.
_POSED, _TIMED = 0.4, 0.65
# In so many times the budget, or in a minute, all ends: what a verdict needs may take longer than its share until then. A
# first call may build the candidate, and has time to.
_TOTAL, _LEAST_TOTAL_S = 3.0, 60.0
# Tensors of no more elements have one thread where nothing is timed. Several are hardly faster, and on a busy machine ten
# times slower, because each operation waits for all of them.
_FEW_ELEMENTS = 1 << 17
_NOT_CALLED = Part("not judged", note="nothing was compared")
_NOT_ASKED = Part("not judged", note="not asked for")
_ENDED = Part("not judged", note="its process had ended")
_NO_WALLS = Walls()


_NO_HOOKS = Hooks()


def run_judge(
    task: Task,
    candidate: Candidate,
    options: JudgeOptions,
    hooks: Hooks = _NO_HOOKS,
    process: CandidateProcess | None = None,
) -> Judgement:
    """Return the judgement; `process` is one that was started for the candidate before (see `start_ahead`).

    Raises ArgumentError for a GPU where there is none, and NotStartedError where no process starts for the candidate.
    """
    with torch_threads(options.threads), without_warnings():
        return _Judge(task, candidate, options, hooks).run(process)


@dataclass
class _Found:
    """What is known so far."""

    posed: Part = _NOT_CALLED
    operator: Part = _NOT_ASKED
    speeds: list[Speed] = field(default_factory=list)
    signs: tuple[Sign, ...] = ()
    notes: tuple[str, ...] = ()
    walls: Walls = _NO_WALLS
    task_charges: tuple[Charge, ...] = ()

    def refuse_task(self, charge: Charge) -> None:
        """Add a charge against the task; what was known of the candidate before stays."""
        self.task_charges += (charge,)


class _Judge:
    """One candidate and one task."""

    def __init__(self, task: Task, candidate: Candidate, options: JudgeOptions, hooks: Hooks) -> None:
        self.options, self.hooks = options, hooks
        self.candidate, self.device = with_its_files(task, candidate), device_of(options)
        call_s, load_s = options.call_seconds, options.load_seconds
        limits = TaskLimits(call_s, max(call_s, load_s), options.seconds, int(options.memory_gib * 2**30))
        made = made_on(with_scattered_seeds(task), self.device)
        self.bounded = BoundedTask(made, limits, None if hooks.give_up is None else self._give_up)
        self.task = replace(self.bounded.task, reference=flattened(self.bounded.task.reference))
        self.cell: Cell | None = None
        self.limits = limits_of(options, self.device)
        self.seed = options.seed if options.seed is not None else secret_seed()
        self.begun_s = time.perf_counter()
        self.found = _Found(operator=_NOT_CALLED if options.operator else _NOT_ASKED)

    def run(self, process: CandidateProcess | None = None) -> Judgement:
        """Return what was found; a process that was started before ends with this."""
        most_bytes = self.limits.gpu_bytes and self.limits.gpu_bytes + SLACK_BYTES
        try:
            with claimed(most_bytes, lambda: self.hooks.watch("waiting for other judgements on this GPU")) as claim:
                self.begun_s = time.perf_counter()
                self._run(process, claim)
        finally:
            self.bounded.close()
            if process is not None:
                process.close()
        return self._judgement()

    def _run(self, process: CandidateProcess | None, claim: Claim | None) -> None:
        """Find out what there is to know. No tensor is held when it returns, nor by what was raised."""
        try:
            if self._task_can_be_called():
                self._with_cell(process, claim)
        except CellError as error:
            self.found.posed = Part("refused", (error.charge,))
        except OverLimit as over:
            self.found.refuse_task(over.charge)
        except Exception as error:
            if not is_of_reference(error):
                raise
            self.found.refuse_task(refused_for(error))

    def _give_up(self, charge: Charge) -> None:
        """End the candidate and hand over what is known, while the call that does not come back goes on."""
        self.found.refuse_task(charge)
        if self.cell is not None:
            # The memory that it shares goes with this process: to give a GPU's back may take as long as that call.
            self.cell.process.close()
        assert self.hooks.give_up is not None
        self.hooks.give_up(self._judgement())

    def _judgement(self) -> Judgement:
        found = self.found
        return Judgement(
            self.task.name,
            self.candidate.name,
            self.device,
            found.posed,
            found.operator,
            tuple(found.speeds),
            (*signs_of(self.candidate), *found.signs),
            walls=found.walls,
            task_charges=found.task_charges,
            notes=(*self.task.told, *found.notes),
            seed=self.seed,
            seconds=time.perf_counter() - self.begun_s,
            machine=this_machine(self.device).name,
        )

    def _task_can_be_called(self) -> bool:
        self.hooks.watch("the task")
        quality = quality_of(self.task, self._seed_of("the task"), self.device)
        self.found.task_charges, self.found.notes = quality.charges, quality.notes
        return quality.can_be_called

    def _with_cell(self, process: CandidateProcess | None, claim: Claim | None) -> None:
        threads = torch_threads(1 if self.bounded.most_elements <= _FEW_ELEMENTS else None)
        with ExitStack() as open_:
            try:
                cell = open_.enter_context(Cell(self.candidate, self.device, self.limits, process, claim))
                open_.enter_context(threads)
                overhead = self._overhead(cell) if self.options.time else Overhead(0.0, 0.0)
            except CellError as error:  # nothing of the candidate has run
                raise NotStartedError(error.charge) from error
            self.cell, self.found.walls = cell, cell.walls
            try:
                self._in_cell(cell, overhead)
            finally:
                self.cell = None

    def _in_cell(self, cell: Cell, overhead: Overhead) -> None:
        options, found = self.options, self.found
        self.hooks.watch("opening the candidate")
        if not options.time:
            self.hooks.when_untimed()
        cell.open(self.task.entry)
        # The time for loading does not count.
        now_s = time.monotonic()
        cell.process.limit_total(max(_LEAST_TOTAL_S, _TOTAL * options.seconds, options.load_seconds + options.seconds))
        try:
            self._as_posed(cell, now_s, overhead)
        except OverTotal as over:
            found.speeds.clear()
            found.posed = replace(found.posed, state="not judged", note=str(over))
        if options.time:
            self.hooks.when_untimed()
        if options.operator:
            self.hooks.watch("as an operator")
            found.operator = self._as_operator(Trial(self.task, cell, now_s + options.seconds))
        if cell.is_alive and found.posed.state == "accepted":
            found.signs = self._caught(cell)
        if changed := cell.changed_files():
            names = ", ".join(changed[:5])  # a folder may have thousands
            self._refuse(Charge(Refusal.FILES_CHANGED, f"{names} is not as it was when it was imported"))

    def _as_posed(self, cell: Cell, begun_s: float, overhead: Overhead) -> None:
        """Reach the verdict as posed, and the times that may turn it."""
        seconds, found = self.options.seconds, self.found
        self.hooks.watch("as posed")
        found.posed = judge_as_posed(Trial(self.task, cell, begun_s + seconds * _POSED), self._seed_of("as posed"))
        # What is asked from here on follows the budget.
        self.bounded.forget_total()
        if found.posed.state == "accepted" and self.options.time:
            with torch_threads(self.limits.threads):
                self._time(Trial(self.task, cell, begun_s + seconds * _TIMED), overhead)

    def _seed_of(self, purpose: str) -> int:
        """Return the seed of what is not timed, as generators take it."""
        return derived(self.seed, purpose, 31)

    def _overhead(self, cell: Cell) -> Overhead:
        make = next(iter(self.task.makers.values()))
        return measure_overhead(cell, bytes_of_round(make(self._seed_of("the task"))))

    def _as_operator(self, trial: Trial) -> Part:
        if not trial.cell.is_alive:
            return _ENDED
        # What no call of the reference's is, such as its gradient, has a limit too.
        most_s = max(0.0, trial.until_s - time.monotonic()) + self.options.seconds
        try:
            with time_limit(most_s):
                return judge_as_operator(trial, self._seed_of("as an operator"))
        except OverLimit as over:  # for sizes and numbers of the judge's, which says nothing of the task
            return Part("not judged", note=over.charge.message)
        except OverTotal as over:
            return Part("not judged", note=str(over))
        except OutOfTime:
            trial.cell.kill()  # it may be in the middle of an answer
            return Part("not judged", note=f"it was stopped after {most_s:.0f} s")

    def _caught(self, cell: Cell) -> tuple[Sign, ...]:
        """Return what the candidate catches in a call, the last of several: what it does once does not matter."""
        values = next(iter(self.task.makers.values()))(self._seed_of("as posed"))
        try:
            cell.load([[values[name] for name in self.task.parameters]])
            return cell.caught()
        except (CellError, OverTotal):
            return ()  # what does not bear to be traced was right without

    def _time(self, trial: Trial, overhead: Overhead) -> None:
        """Add the speeds; what is wrong in a timed call is refused as posed."""
        begin_s, makers = time.monotonic(), self.task.makers
        if warning := load_warning(self.device):
            self.found.notes += (f"the times are those of a busy machine: {warning}",)
        for index, (label, make) in enumerate(makers.items()):
            self.hooks.watch(f"timing {label}")
            share_s = (trial.until_s - begin_s) * (index + 1) / len(makers)
            values = make(self._seed_of("the task"))
            arguments = trial.arguments(values)
            floor = floor_of(values, self._results(arguments), self.device)
            # Compiling is not what the budget is for; what comes after it has its share.
            reference, against = self.bounded.reference, names_in(self.options.against)
            with rivals_of(reference, against, arguments, self.device, self.options.load_seconds) as (rivals, notes):
                until_s = max(begin_s + share_s, time.monotonic() + share_s / (index + 1))
                timed = time_candidate(
                    replace(trial, until_s=until_s),
                    label,
                    make,
                    overhead,
                    floor,
                    derived(self.seed, f"times {index}"),
                    rivals,
                )
            self.found.notes += notes
            if timed.charge is not None:
                self._refuse(timed.charge)
                return
            self.found.speeds += timed.speeds
            self.found.notes += (timed.note,) if timed.note else ()

    def _results(self, arguments: Sequence[Any]) -> list[Tensor]:
        with torch.no_grad():
            return tensors_of(self.task.reference(*arguments))

    def _refuse(self, charge: Charge) -> None:
        posed = self.found.posed
        self.found.speeds.clear()
        self.found.posed = replace(posed, state="refused", charges=(*posed.charges, charge))
