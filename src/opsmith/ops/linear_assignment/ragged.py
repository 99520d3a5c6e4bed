"""Defines the operator behind `linear_assignment`: a batch of problems, each with sizes of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import opsmith

__all__ = ["LARGEST_COST", "linear_assignment_ragged"]

# Costs beyond are forbidden pairs: sums of a few of them would overflow.
LARGEST_COST = 2.0**1000


@opsmith.op(
    cpu="linear_assignment.cpp", cuda="linear_assignment.cu", outputs=("column_of_row", "row_of_column"), batch="B"
)
def linear_assignment_ragged(
    cost: Float[Tensor, "B N M"],
    maximize: bool = False,
    row_lengths: Int64[Tensor, "B"] | None = None,
    column_lengths: Int64[Tensor, "B"] | None = None,
) -> tuple[Int64[Tensor, "B N"], Int64[Tensor, "B M"]]:
    """Match rows with columns at the lowest total cost. Call it through `linear_assignment`.

    Successive shortest augmenting paths (Crouse, "On implementing 2D rectangular assignment algorithms", IEEE Transactions
    on Aerospace and Electronic Systems 52(4), 2016), from the shorter side, after each line has taken its cheapest partner
    where that was free. Kernels make the same additions in the same order, so that ties fall alike everywhere.
    """
    batch, n, m = cost.shape
    columns = torch.full((batch, n), -1, dtype=torch.int64)
    rows = torch.full((batch, m), -1, dtype=torch.int64)
    for index in range(batch):
        own_n, own_m = _length(row_lengths, index, n), _length(column_lengths, index, m)
        own = cost[index, :own_n, :own_m].double().cpu()
        own = torch.where(own.abs() <= LARGEST_COST, -own if maximize else own, math.inf)
        partners = torch.tensor(_solve(own if own_n <= own_m else own.T), dtype=torch.int64)
        (found,) = (partners >= 0).nonzero(as_tuple=True)
        chosen = partners[found]
        pairs = (found, chosen) if own_n <= own_m else (chosen, found)
        columns[index, pairs[0]] = pairs[1]
        rows[index, pairs[1]] = pairs[0]
    return columns.to(cost.device), rows.to(cost.device)


@linear_assignment_ragged.examples
def _problems() -> Iterator[tuple[Any, ...]]:
    """Problems of both orientations, with forbidden pairs, ties, and sizes of their own."""
    random = torch.Generator().manual_seed(0)
    for n, m in ((9, 9), (5, 21), (30, 4), (1, 1), (17, 70)):
        cost = torch.randn(3, n, m, generator=random)
        row_lengths, column_lengths = torch.tensor([n, n // 2, 0]), torch.tensor([m // 2 + 1, m, m])
        yield cost, False, None, None
        yield cost.round(), True, None, None
        yield torch.where(cost > 0.5, math.inf, cost), False, row_lengths, column_lengths


def _length(lengths: Tensor | None, index: int, size: int) -> int:
    return size if lengths is None else min(max(int(lengths[index]), 0), size)


def _solve(cost: Tensor) -> list[int]:
    """Return the column of each row or -1, for a matrix in float64 with no more rows than columns; inf is forbidden."""
    n, m = cost.shape
    column_of, row_of = [-1] * n, [-1] * m
    row_dual, column_dual = [0.0] * n, cost.new_zeros(m)
    for row in range(n if m else 0):
        cheapest = float(cost[row].min())
        if cheapest < math.inf:
            row_dual[row] = cheapest
            column = int((cost[row] == cheapest).nonzero()[0])
            if row_of[column] < 0:
                column_of[row], row_of[column] = column, row
    penalty = math.inf
    for start in range(n if m else 0):
        if column_of[start] < 0:
            penalty = _augment(cost, start, (column_of, row_of), (row_dual, column_dual), penalty)
    return column_of


def _augment(
    cost: Tensor,
    start: int,
    partners: tuple[list[int], list[int]],
    duals: tuple[list[float], Tensor],
    penalty: float,
) -> float:
    """Match one more row, or leave one without a column. Returns what the latter costs, inf until it is needed.

    A row without a column is matched with one that only it has, at that cost: more than any other path.
    """
    (column_of, row_of), (row_dual, column_dual) = partners, duals
    distance = torch.full_like(column_dual, math.inf)
    previous = torch.full_like(column_dual, -1, dtype=torch.int64)
    is_done = torch.zeros_like(previous, dtype=torch.bool)
    row, reached, last, least = start, 0.0, start, math.inf
    while True:
        offset = reached - row_dual[row]
        if offset < least:
            last, least = row, offset
        reduced = (cost[row] - column_dual) + offset
        is_closer = (reduced < distance) & ~is_done
        distance = torch.where(is_closer, reduced, distance)
        previous = torch.where(is_closer, row, previous)
        left = torch.where(is_done, math.inf, distance)
        reached = float(left.min())
        if reached == math.inf and penalty == math.inf:
            penalty = _penalty(cost)
        if reached > least + penalty:
            reached, column = least + penalty, column_of[last]
            column_of[last] = -1
            break
        nearest = (left == reached).nonzero()[:, 0].tolist()
        column = next((one for one in nearest if row_of[one] < 0), nearest[0])
        if row_of[column] < 0:
            break
        is_done[column] = True
        row = row_of[column]
    row_dual[start] += reached
    for done in is_done.nonzero()[:, 0].tolist():
        change = reached - float(distance[done])
        column_dual[done] -= change
        row_dual[row_of[done]] += change
    while column >= 0:
        row = int(previous[column])
        row_of[column] = row
        column, column_of[row] = column_of[row], column
        if row == start:
            break
    return penalty


def _penalty(cost: Tensor) -> float:
    """Return more than all sums of costs along a path can differ by, as the largest cost times a power of two."""
    largest = float(torch.where(cost < math.inf, cost, 0.0).abs().max())
    return largest * 2.0 ** math.ceil(math.log2(4 * (len(cost) + 1))) if largest > 0 else 1.0
