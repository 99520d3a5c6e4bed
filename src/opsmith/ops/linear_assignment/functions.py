"""Defines linear_assignment for batches that stay on their device, and linear_sum_assignment as SciPy has it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor

from opsmith.errors import ArgumentTypeError, ArgumentValueError, DeviceError, DtypeError, ShapeError, describe
from opsmith.ops._arguments import as_tensor, check_flags, check_storage, check_tensors
from opsmith.ops.linear_assignment.ragged import LARGEST_COST, linear_assignment_ragged

__all__ = ["linear_assignment", "linear_sum_assignment"]

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def linear_assignment(
    cost: Tensor,
    maximize: bool = False,
    row_lengths: Tensor | None = None,
    column_lengths: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Match rows with columns one to one at the lowest total cost: for each row its column, for each column its row.

    The results are int64 [B, N] and [B, M], with -1 for those without a partner; their sizes do not depend on the data, so
    on a GPU nothing waits. All rows or all columns are matched, whichever are fewer, unless pairs are forbidden.

    Parameters
    ----------
    cost
        [B, N, M], or [N, M] for one problem, whose results are [N] and [M]. float16, bfloat16, float32 or float64; integers
        are taken as float64. Sums are made in float64. A pair whose cost is inf, -inf or NaN (or above 2^1000 in float64)
        is forbidden.
    maximize
        Match at the highest total instead.
    row_lengths, column_lengths
        How many rows and columns of each problem there are, integers [B] on the cost's device; what lies behind them is
        not read. Numbers outside of [0, N] and [0, M] count as the nearest of these. None: all.

    Where forbidden pairs leave no partner for some, as many pairs are made as can be, and of those the cheapest. Ties fall
    in the same way on all devices; the documentation has the rule. There is no gradient.

    Raises a ShapeError for a cost of other than two or three dimensions, and ArgumentTypeError, DtypeError, ShapeError and
    DeviceError for tensors that do not fit together.
    """
    check_tensors(
        "linear_assignment",
        optional=("row_lengths", "column_lengths"),
        cost=cost,
        row_lengths=row_lengths,
        column_lengths=column_lengths,
    )
    check_storage("linear_assignment", cost=cost, row_lengths=row_lengths, column_lengths=column_lengths)
    check_flags("linear_assignment", maximize=maximize)
    if cost.dim() not in (2, 3):
        raise ShapeError(f"linear_assignment(): cost has {cost.dim()} dimensions, expected [N, M] or [B, N, M]")
    is_single = cost.dim() == 2
    costs = _floating("linear_assignment", cost)
    columns, rows = linear_assignment_ragged(
        costs[None] if is_single else costs,
        maximize,
        _lengths("row_lengths", row_lengths, is_single),
        _lengths("column_lengths", column_lengths, is_single),
    )
    return (columns[0], rows[0]) if is_single else (columns, rows)


@overload
def linear_sum_assignment(cost_matrix: Tensor, maximize: bool = False) -> tuple[Tensor, Tensor]: ...
@overload
def linear_sum_assignment(cost_matrix: Any, maximize: bool = False) -> tuple[Array, Array]: ...
def linear_sum_assignment(cost_matrix: Any, maximize: bool = False) -> tuple[Any, Any]:
    """Return (row_ind, col_ind), int64 [min(N, M)] each and rows ascending: `scipy.optimize.linear_sum_assignment`.

    `cost_matrix` is a tensor [N, M], and the indices are tensors on its device; or what numpy.asarray takes, and they are
    arrays. Where several assignments are optimal, SciPy may return another one. For a tensor on a GPU the call waits for
    the number of pairs; `linear_assignment` does not, and takes many problems.

    Raises a ValueError (an ArgumentValueError) where SciPy does: for another number of dimensions, for NaN, for -inf (for
    inf if `maximize`), and where infinite costs allow no complete assignment. ArgumentTypeError, DtypeError and DeviceError
    for what is not a matrix of numbers.
    """
    given = cost_matrix if isinstance(cost_matrix, Tensor) else _from_array(cost_matrix)
    check_flags("linear_sum_assignment", maximize=maximize)
    if given.dim() != 2:
        raise ShapeError(f"linear_sum_assignment(): expected a matrix (2-D array), got a {given.dim()} array")
    check_storage("linear_sum_assignment", cost_matrix=given)
    if given.is_meta:
        raise DeviceError("linear_sum_assignment(): cost_matrix is on meta, where no costs are")
    cost = _floating("linear_sum_assignment", given.detach())
    if min(cost.shape) == 0:
        row_ind = col_ind = torch.empty(0, dtype=torch.int64, device=cost.device)
    else:
        row_ind, col_ind = _complete_assignment(cost, bool(maximize))
    return (row_ind, col_ind) if isinstance(cost_matrix, Tensor) else (row_ind.numpy(), col_ind.numpy())


def _complete_assignment(cost: Tensor, maximize: bool) -> tuple[Tensor, Tensor]:
    lowest, highest = (float(one) for one in torch.aminmax(cost))
    best = highest if maximize else lowest
    if math.isnan(best) or best == (math.inf if maximize else -math.inf):
        raise ArgumentValueError(f"linear_sum_assignment(): matrix contains invalid numeric entries: {best}")
    if cost.dtype == torch.float64 and bool((cost.abs() > LARGEST_COST).any()):
        cost = cost * 2.0**-24  # exact: where there are such costs, those that lose digits here make no difference
    columns, _ = linear_assignment(cost, maximize)
    row_ind = (columns >= 0).nonzero()[:, 0]
    if len(row_ind) < min(cost.shape):
        raise ArgumentValueError(
            f"linear_sum_assignment(): cost matrix is infeasible: at most {len(row_ind)} of {min(cost.shape)} pairs have "
            "finite costs; linear_assignment returns those"
        )
    return row_ind, columns[row_ind]


def _from_array(given: Any) -> Tensor:
    import numpy as np  # PyTorch works without it

    try:
        array = np.asarray(given)
    except Exception as error:  # rows of several lengths, or what the object's own __array__ raises
        raise ArgumentValueError(
            f"linear_sum_assignment(): cost_matrix is {describe(given)}, expected a tensor or a matrix ({error})"
        ) from None
    if array.dtype.kind not in "fiub":
        raise ArgumentTypeError(
            f"linear_sum_assignment(): cost_matrix is {describe(given)}, expected a tensor or an array of numbers"
        )
    return as_tensor("linear_sum_assignment", "cost_matrix", array)


def _floating(function: str, cost: Tensor) -> Tensor:
    if cost.dtype.is_complex or (cost.is_floating_point() and cost.dtype.itemsize < 2):
        raise DtypeError(f"{function}(): cost is {cost.dtype}, expected real numbers of 16 bits or more, or integers")
    return cost if cost.is_floating_point() else cost.double()


def _lengths(name: str, lengths: Tensor | None, is_single: bool) -> Tensor | None:
    if lengths is None:
        return None
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise DtypeError(f"linear_assignment(): {name} is {lengths.dtype}, expected integers")
    wide = lengths.to(torch.int64)
    return wide.reshape(1) if is_single and wide.dim() == 0 else wide
