"""The picture of linear_assignment."""

from __future__ import annotations

import torch

from generators.pictures.drawing import Drawing
from opsmith.ops.linear_assignment import linear_assignment_ragged

__all__ = ["COSTS", "draw_linear_assignment"]

# Rows 0 and 1 are cheapest in one column, so that taking each row's cheapest is not an answer.
COSTS = (
    (1.0, 2.0, 6.0, 7.0),
    (2.0, 8.0, 7.0, 9.0),
    (7.0, 6.0, 3.0, 4.0),
    (5.0, 4.0, 8.0, 3.0),
    (6.0, 7.0, 5.0, 8.0),
)
_WIDE, _HIGH, _LEFT, _TOP = 62, 34, 96, 40


def draw_linear_assignment() -> Drawing:
    """A matrix of costs with the pairs of the cheapest assignment."""
    columns = _columns()
    total = sum(COSTS[row][column] for row, column in enumerate(columns) if column >= 0)
    width, height = len(COSTS[0]) * _WIDE, len(COSTS) * _HIGH
    drawing = Drawing(
        f"Costs of {len(COSTS)} rows and {len(COSTS[0])} columns: one cell is marked in each column, in rows of their own, "
        f"and their sum, {total:g}, is the lowest",
        _TOP + height + 44,
        (_LEFT, _TOP, width, height),
    )
    for column in range(len(COSTS[0])):
        drawing.label((_LEFT + (column + 0.5) * _WIDE, _TOP - 10), f"target {column}", "small muted middle")
    for row, costs in enumerate(COSTS):
        middle = _TOP + (row + 0.5) * _HIGH + 5
        drawing.label((_LEFT - 12, middle), f"query {row}", "small muted end")
        for column, cost in enumerate(costs):
            corner = (_LEFT + column * _WIDE, _TOP + row * _HIGH)
            drawing.box(corner, (_WIDE, _HIGH), "a-fill", opacity=0.04 + 0.035 * cost)
            drawing.box(corner, (_WIDE, _HIGH), "faint")
            drawing.label((corner[0] + _WIDE / 2, middle), f"{cost:g}")
        if columns[row] >= 0:
            corner = (_LEFT + columns[row] * _WIDE + 2, _TOP + row * _HIGH + 2)
            drawing.box(corner, (_WIDE - 4, _HIGH - 4), "b")
        drawing.label(
            (_LEFT + width + 24, middle), f"column {columns[row]}" if columns[row] >= 0 else "−1", "b-text start"
        )
    terms = " + ".join(f"{COSTS[row][column]:g}" for row, column in enumerate(columns) if column >= 0)
    drawing.label((_LEFT + width / 2, _TOP + height + 28), f"{terms} = {total:g}, the lowest sum", "strong middle")
    return drawing


def _columns() -> list[int]:
    cost = torch.tensor([COSTS], dtype=torch.float64)
    column_of_row, _ = linear_assignment_ragged.reference(cost)
    return [int(column) for column in column_of_row[0]]
