"""Operators that are wrong for rows of special values, declared once with the defects and once without."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import opsmith

FLAGS = ("-DPLANTED",) if __name__.endswith("_planted") else ()
KERNELS = opsmith.view("special_rows.cpp", flags=FLAGS)
Matrix = Float[Tensor, "B N"]
Rows = Float[Tensor, "B"]
Columns = Float[Tensor, "N"]
declare = {"cpu": KERNELS, "namespace": __name__}


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype is torch.float64 else x.float()


@opsmith.op(**declare)
def masked_softmax(x: Matrix) -> Matrix:
    return torch.softmax(x, 1)


@opsmith.op(**declare)
def log_of_sum(x: Matrix) -> Rows:
    return torch.logsumexp(x, 1)


@opsmith.op(**declare)
def most(x: Matrix) -> Rows:
    return x.amax(1) if x.shape[1] else x.new_full(x.shape[:1], -torch.inf)


@opsmith.op(**declare)
def place_of_most(x: Matrix) -> Int64[Tensor, "B"]:
    return x.argmax(1) if x.shape[1] else x.new_zeros(x.shape[0], dtype=torch.int64)


@opsmith.op(**declare)
def entropy(x: Matrix) -> Rows:
    p = torch.softmax(_wide(x), 1)
    return -torch.special.xlogy(p, p).sum(1).to(x.dtype)


@opsmith.op(**declare)
def stretched(x: Matrix) -> Matrix:
    if x.shape[1] == 0:
        return x.clone()
    low, high = x.amin(1, keepdim=True), x.amax(1, keepdim=True)
    return torch.where(high == low, 0.0, (x - low) / (high - low))


@opsmith.op(**declare)
def mean_of_numbers(x: Matrix) -> Rows:
    return torch.nanmean(_wide(x), 1).to(x.dtype)


@opsmith.op(**declare)
def columns_most(x: Matrix) -> Columns:
    return x.amax(0) if x.shape[0] else x.new_full(x.shape[1:], -torch.inf)


@opsmith.op(**declare)
def one_most(x: Columns) -> Float[Tensor, "1"]:
    return torch.logsumexp(x, 0, keepdim=True)
