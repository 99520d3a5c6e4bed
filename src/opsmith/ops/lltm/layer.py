"""Runs one layer of an LLTM in one direction, over a sequence or packed sequences of several lengths."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import torch
from torch import Tensor

from opsmith.errors import ArgumentTypeError, describe
from opsmith.ops._arguments import check_flags, check_storage, check_tensors
from opsmith.ops.lltm.sequence import lltm_sequence

__all__ = ["State", "lltm", "run_packed"]

State = tuple[Tensor, Tensor]


def lltm(
    input: Tensor,  # noqa: A002 -- the name that torch.nn's recurrent modules use
    state: State,
    weight: Tensor,
    bias: Tensor,
    *,
    reverse: bool = False,
) -> tuple[Tensor, State]:
    """Run an LLTM over a sequence: return the hidden states [T, B, S] and the last (hidden, cell), each [B, S].

    `input` is [T, B, I], `weight` [3*S, S+I] with the columns of the hidden state first, `bias` [3*S]. With `reverse`
    the steps go from the last to the first, and the hidden states stand where their inputs do. For T = 0 the state is
    returned unchanged.
    """
    check_tensors("lltm", input=input, weight=weight, bias=bias)
    if not isinstance(state, tuple | list) or len(state) != 2:
        raise ArgumentTypeError(f"lltm(): state is {describe(state)}, expected two tensors: (hidden, cell)")
    check_flags("lltm", reverse=reverse)
    if reverse:
        check_storage("lltm", input=input)  # torch's own words for a sparse one have three pages
    hidden, cell = state
    # The operator says what is wrong with other ranks, of which PyTorch flips some.
    is_flipped = reverse and input.dim() == 3
    hiddens, last_cell = lltm_sequence(input.flip(0) if is_flipped else input, hidden, cell, weight, bias)
    last_hidden = hiddens[-1] if input.shape[0] else hidden
    return hiddens.flip(0) if reverse else hiddens, (last_hidden, last_cell)


def run_packed(
    data: Tensor, batch_sizes: Tensor, state: State, weight: Tensor, bias: Tensor, *, reverse: bool = False
) -> tuple[Tensor, State]:
    """Run an LLTM over a packed sequence: return its hidden states [N, S] and the last (hidden, cell) of each sequence.

    `data` is [N, I] and `batch_sizes` says how many of its rows are one step's, as in a PackedSequence: longer
    sequences come first, so their number only shrinks. Between two ends of sequences it stays as it is, and that part
    is one call.
    """
    runs = list(_runs(batch_sizes))
    parts = data.split([steps * batch for steps, batch in runs])
    outputs, ended = [], []
    hidden, cell = (each[: runs[-1][1] if reverse else runs[0][1]] for each in state)
    for (steps, batch), part in (
        reversed(list(zip(runs, parts, strict=True))) if reverse else zip(runs, parts, strict=True)
    ):
        if reverse:  # the sequences that end here begin with their first state
            hidden, cell = (
                torch.cat([mine, first[mine.shape[0] : batch]])
                for mine, first in zip((hidden, cell), state, strict=True)
            )
        else:
            ended.append((hidden[batch:], cell[batch:]))
            hidden, cell = hidden[:batch], cell[:batch]
        found, (hidden, cell) = lltm(part.view(steps, batch, -1), (hidden, cell), weight, bias, reverse=reverse)
        outputs.append(found.flatten(0, 1))
    if reverse:
        return torch.cat(outputs[::-1]), (hidden, cell)
    hiddens, cells = zip(*[(hidden, cell), *ended[::-1]], strict=True)
    return torch.cat(outputs), (torch.cat(hiddens), torch.cat(cells))


def _runs(batch_sizes: Tensor) -> Iterator[tuple[int, int]]:
    """Yield, for every stretch of steps with one batch size, the number of steps and that size."""
    for batch, steps in groupby(batch_sizes.tolist()):
        yield len(list(steps)), batch
