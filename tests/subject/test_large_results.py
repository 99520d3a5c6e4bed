"""Results of a suite's cases fit into memory, where a result has all pairs of rows too."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from opsmith.subject.choices_of_sizes import EDGES
from opsmith.subject.subject import subject_of


def products(x: Float[Tensor, "N K"]) -> Float[Tensor, "N N"]:
    return x @ x.t()


def scaled(x: Float[Tensor, "N K"]) -> Float[Tensor, "N K"]:
    return 2 * x


def tiled(x: Float[Tensor, "N K"], rows: int = 3, other: int | None = None) -> Float[Tensor, "N rows"]:
    return x[:, :1].expand(-1, rows)


def _shapes(function: Callable[..., Tensor]) -> list[tuple[int, ...]]:
    suite = subject_of(function, reference=function, devices=("cpu",)).suite
    groups = ("plain", "sizes", "large", "layouts", "values", "equal", "special")
    dtypes = {"T": "float32"}
    return [case.tensors()["x"].shape for case in (*suite.cases(dtypes, *groups), *suite.longest(dtypes))]


def test_all_pairs_of_rows_are_not_too_many() -> None:
    shapes = _shapes(products)
    assert max(rows for rows, _ in shapes) == 2048
    assert (2039, 1) in shapes
    assert max(columns for _, columns in shapes) > 1_000_000


def test_sizes_of_results_alone_count_too() -> None:
    assert max(rows for rows, _ in _shapes(tiled)) > 1_000_000


def test_other_results_may_be_large() -> None:
    assert max(rows for rows, _ in _shapes(scaled)) > 1_000_000


def fixed(x: Float[Tensor, "3 512"], w: Float[Tensor, "512 512"]) -> Float[Tensor, "3 512"]:
    return x @ w


def very_large(x: Float[Tensor, "2048 2048"]) -> Float[Tensor, "2048 2048"]:
    return 2 * x


def test_sizes_that_are_numbers_are_what_they_are() -> None:
    assert set(_shapes(fixed)) == {(3, 512)}
    assert len(_shapes(fixed)) > 20
    assert _shapes(very_large) == [(2048, 2048)]


def beside_a_group(x: Float[Tensor, "*batch T 2*D"], cos: Float[Tensor, "T D"]) -> Float[Tensor, "*batch T 2*D"]:
    return x * cos.repeat(1, 2)


def scaled_beside_a_group(x: Float[Tensor, "*batch N"], weight: Float[Tensor, "N"]) -> Float[Tensor, "*batch N"]:
    return x * weight


def test_a_name_has_every_size_beside_a_group_too() -> None:
    shapes = _shapes(beside_a_group)
    assert {*EDGES} <= {shape[-2] for shape in shapes}
    assert {2 * size for size in EDGES} <= {shape[-1] for shape in shapes}
    assert 70_001 in {shape[-1] for shape in _shapes(scaled_beside_a_group)}
    # What was tried with a group of two dimensions still is.
    assert (3, 5, 257, 6) in shapes
