"""Makes a function of a candidate in its cell, which the properties of `opsmith check` call like any other.

It is differentiable: a backward asks the cell for gradients, which runs the candidate's forward again, with a graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.answers import Batch
from opsmith.judging.cell import CellError
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge
from opsmith.judging.trial import Trial, charge_for_changes

__all__ = ["CandidateEnded", "CandidateRaisedError", "remote_function"]

_Path = tuple[int, ...]


class CandidateRaisedError(RuntimeError):
    """What a candidate has raised, in its words, which begin with the name of its own exception."""

    is_quoted = True


class CandidateEnded(BaseException):
    """A candidate's process is not there any more; `charge` says why."""

    def __init__(self, charge: Charge) -> None:
        super().__init__(charge.message)
        self.charge = charge


class remote_function:  # noqa: N801 -- it is called as a function
    """The candidate as a function of the task's arguments; `charges` has what calls did beside returning results.

    `seconds` is how long the candidate has worked on all calls together.
    """

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.charges: dict[Refusal, Charge] = {}
        self.seconds = 0.0
        self.__name__ = self.__qualname__ = trial.task.name

    def __call__(self, *arguments: Any) -> tuple[Tensor, ...]:
        """Return the results of one call, on the device of the arguments."""
        tensors, paths = _flattened(arguments)
        if torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
            found: tuple[Tensor, ...] = _Differentiable.apply(self, arguments, paths, *tensors)  # type: ignore[no-untyped-call]
            return found
        return self.forward(arguments)

    def forward(self, arguments: Sequence[Any]) -> tuple[Tensor, ...]:
        """Return the results without a graph; raises CandidateRaisedError, and CandidateEnded."""
        cell = self.trial.cell
        try:
            cell.load([list(arguments)])
            done = self._run([0])
            if done.error is not None:
                raise CellError(done.error)
            results = self.trial.plain(cell.give([0])[0])
            if changed := cell.changed_inputs():
                self._note(charge_for_changes(changed))
        except CellError as error:
            raise self._raised(error) from None
        return tuple(one.to(self.trial.cell.device) for one in results)

    def backward(
        self, arguments: Sequence[Any], leaves: Sequence[_Path], wanted: Sequence[int], arriving: Sequence[Tensor]
    ) -> list[Tensor | None]:
        """Return gradients of some arguments through some results; raises as `forward` does."""
        cell = self.trial.cell
        try:
            cell.load([list(arguments), list(arriving)])
            done = self._run([0], {"leaves": [list(one) for one in leaves], "wanted": list(wanted), "arriving": 1})
            if done.error is not None:
                raise CellError(done.error)
            if lost := set(done.not_differentiable):
                if wrong := sorted(lost - self._constant(arguments, leaves)):
                    raise CandidateRaisedError(f"output {wrong[0]} has no graph: it has lost its inputs")
                kept = [(index, one) for index, one in zip(wanted, arriving, strict=True) if index not in lost]
                if not kept:
                    return [None] * len(leaves)
                return self.backward(arguments, leaves, [index for index, _ in kept], [one for _, one in kept])
            given = cell.give([0])[0]
            found = [None if one is None else self.trial.plain([one])[0].to(cell.device) for one in given]
        except CellError as error:
            raise self._raised(error) from None
        return found

    def _run(self, order: Sequence[int], gradients: Mapping[str, Any] | None = None) -> Batch:
        done = self.trial.cell.run(order, gradients)
        self.seconds += done.wall_s
        return done

    def _constant(self, arguments: Sequence[Any], leaves: Sequence[_Path]) -> set[int]:
        """Return which results of the task's reference do not depend on some of its arguments."""
        values = [list(one) if isinstance(one, list | tuple) else one for one in arguments]
        for index, *inside in leaves:
            holder: Any = values[index] if inside else values
            place = inside[0] if inside else index
            holder[place] = holder[place].detach().requires_grad_()
        with torch.enable_grad():
            found = self.trial.task.reference(*values)
        results = found if isinstance(found, tuple | list) else (found,)
        return {index for index, one in enumerate(results) if not one.requires_grad}

    def _raised(self, error: CellError) -> CandidateRaisedError:
        """Return what the candidate raised; raises CandidateEnded if it is not there any more."""
        if not self.trial.cell.is_alive:
            raise CandidateEnded(error.charge) from None
        if error.charge.refusal is not Refusal.RAISED:
            self._note(error.charge)
        return CandidateRaisedError(error.charge.message)

    def _note(self, charge: Charge) -> None:
        self.charges.setdefault(charge.refusal, charge)


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: remote_function, arguments: Sequence[Any], paths: list[_Path], *tensors: Tensor) -> Any:
        ctx.call, ctx.arguments, ctx.paths = call, arguments, paths
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        results = call.forward(arguments)
        ctx.mark_non_differentiable(*(one for one in results if not (one.is_floating_point() or one.is_complex())))
        return results

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *arriving: Tensor | None) -> Any:
        wanted = [index for index, one in enumerate(arriving) if one is not None]
        # The candidate is called again for its gradient: autograd raises here if an argument has changed meanwhile.
        _ = ctx.saved_tensors
        is_needed = ctx.needs_input_grad[3:]
        leaves = [path for path, needed in zip(ctx.paths, is_needed, strict=True) if needed]
        grads = [one for one in arriving if one is not None]
        found = iter(ctx.call.backward(ctx.arguments, leaves, wanted, grads))
        return (None, None, None, *(next(found) if needed else None for needed in is_needed))


def _flattened(arguments: Sequence[Any]) -> tuple[list[Tensor], list[_Path]]:
    """Return the tensors among arguments, and where each stands: its position, and that in a list there."""
    tensors: list[Tensor] = []
    paths: list[_Path] = []
    for index, value in enumerate(arguments):
        if isinstance(value, Tensor):
            tensors.append(value)
            paths.append((index,))
        elif isinstance(value, list | tuple):
            inside = [(number, one) for number, one in enumerate(value) if isinstance(one, Tensor)]
            tensors += [one for _, one in inside]
            paths += [(index, number) for number, _ in inside]
    return tensors, paths
