"""Indices of equal elements may come in any order, unless the reference's have one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from opsmith.judging.api import judge
from opsmith.judging.orders import with_sorted
from opsmith.judging.ties import with_ties_settled

_X = torch.tensor([[2.0, 1.0, 2.0, 0.0], [1.0, 3.0, 0.0, 3.0]])
_UNSTABLE = torch.tensor([[3, 1, 2, 0], [2, 0, 3, 1]])


@pytest.mark.parametrize(
    ("found", "excused"),
    [
        ([[3, 1, 0, 2], [2, 0, 1, 3]], True),
        ([[3, 1, 2, 0], [2, 0, 1, 3]], True),
        ([[3, 1, 0, 0], [2, 0, 1, 3]], False),  # an index twice
        ([[1, 3, 0, 2], [2, 0, 1, 3]], False),  # in the wrong order
        ([[3, 1, 0, 4], [2, 0, 1, 3]], False),  # outside
    ],
    ids=str,
)
def test_an_index_of_an_equal_element_is_right(found: list[list[int]], excused: bool) -> None:
    result = torch.tensor(found)
    (settled,) = with_ties_settled([result], [_UNSTABLE], [torch.zeros(3), _X])
    assert torch.equal(settled, _UNSTABLE) is excused
    (settled,) = with_ties_settled([result.t()], [_UNSTABLE.t()], [_X])  # not along the last dimension
    assert torch.equal(settled, _UNSTABLE.t()) is False


@pytest.mark.parametrize("dim", [0, 1])
def test_one_of_equal_elements_of_a_row_is_right(dim: int) -> None:
    x = torch.tensor([[2.0, 1.0, 2.0, 0.0], [2.0, 3.0, 0.0, 3.0]])
    x = x if dim == 1 else x.t()
    usual, other = torch.tensor([0, 1]), torch.tensor([2, 2])
    _, inside = with_sorted(lambda: x.kthvalue(3, dim))
    (settled,) = with_ties_settled([other], [usual], [x], inside)
    assert settled.tolist() == [0, 2]  # the second is of another element


def test_a_part_of_a_dimension_is_known_by_its_size() -> None:
    found, usual = torch.tensor([[0, 1], [3, 1]]).t(), torch.tensor([[2, 1], [1, 3]]).t()
    (settled,) = with_ties_settled([found], [usual], [_X.t()])
    assert torch.equal(settled[:, 1], usual[:, 1])
    assert torch.equal(settled[:, 0], usual[:, 0])


def test_nan_is_equal_to_nan_and_other_results_stay_as_they_are() -> None:
    x = torch.tensor([torch.nan, 1.0, torch.nan])
    found, usual = torch.tensor([1, 2, 0]), torch.tensor([1, 0, 2])
    assert torch.equal(with_ties_settled([found], [usual], [x])[0], usual)
    assert with_ties_settled([x], [x], [x])[0] is x
    assert with_ties_settled([found, x], [usual], [x]) == [found, x]


def test_the_order_of_a_stable_reference_is_asked() -> None:
    x = torch.arange(40).div(10, rounding_mode="floor").float()
    usual = torch.arange(40)
    found = usual.view(4, 10).flip(1).reshape(-1)
    assert torch.equal(with_ties_settled([found], [usual], [x])[0], found)
    assert torch.equal(with_ties_settled([usual], [found], [x])[0], found)


def test_equal_rows_show_no_order() -> None:
    row = torch.tensor([0.0, 0.0, 1.0, 1.0])
    usual, found = torch.tensor([0, 1, 2, 3]), torch.tensor([1, 0, 2, 3])
    many = [one.expand(40, 4) for one in (row, usual, found)]
    assert torch.equal(with_ties_settled([many[2]], [many[1]], [many[0]])[0], many[1])


def order(x: Tensor) -> Tensor:
    return torch.argsort(x, stable=True)


def largest(x: Tensor) -> tuple[Tensor, Tensor]:
    values, places = torch.topk(x, 3)
    return values, places


_SORTED = """
import torch
def largest(x):
    values, places = torch.sort(x, descending=True, stable={})
    return values[..., :3].clone(), places[..., :3].clone()
"""
_LAST_FIRST = "import torch\ndef order(x):\n    return x.shape[-1] - 1 - torch.argsort(x.flip(-1), stable=True)\n"


@pytest.mark.parametrize(
    ("task", "text", "state"),
    [
        (largest, _SORTED.format(True), "accepted"),
        (order, _LAST_FIRST, "refused"),
        (order, "import torch\ndef order(x):\n    return torch.argsort(x, stable=True)\n", "accepted"),
    ],
    ids=["top 3", "last first", "stable"],
)
def test_ties_are_right_in_any_order_that_the_reference_leaves_open(
    task: object, text: str, state: str, tmp_path: Path
) -> None:
    path = tmp_path / "candidate.py"
    path.write_text(text)
    judgement = judge(task, path, examples=[(torch.randn(24, 48),)], threads=1, time=False, operator=False)
    assert judgement.as_posed.state == state, judgement


def largest(x: Tensor) -> tuple[Tensor, ...]:
    return tuple(x.topk(4, dim=-1))


def test_ties_are_settled_as_an_operator_too(tmp_path: Path) -> None:
    path = tmp_path / "candidate.py"
    path.write_text(
        "def largest(x):\n"
        "    found = x.sort(dim=-1, descending=True, stable=True)\n"
        "    return found.values[..., :4].contiguous(), found.indices[..., :4].contiguous()\n"
    )
    judgement = judge(largest, path, examples=[(torch.randint(0, 5, (16, 20)),)], threads=1, time=False)
    assert judgement.as_posed.state == judgement.as_operator.state == "accepted", str(judgement)


@pytest.mark.parametrize("key", ["a mask", "groups"])
def test_what_lies_beside_the_scores_excuses_no_index(key: str) -> None:
    random = torch.Generator().manual_seed(5)
    scores = torch.randn(6, 40, generator=random)
    beside = (torch.rand(6, 40, generator=random) < 0.7).float()
    if key == "a mask":
        usual = scores.masked_fill(beside == 0, -1e9).argsort(-1, descending=True)
        found = beside.argsort(dim=-1, descending=True, stable=True)
    else:
        usual = (10 * beside + scores.sigmoid()).argsort(-1)
        found = beside.argsort(dim=-1, stable=True)
    for given in ([beside, scores], [scores, beside]):
        (settled,) = with_ties_settled([found], [usual], given)
        counts = beside.gather(-1, usual) > 0 if key == "a mask" else torch.ones_like(usual, dtype=torch.bool)
        assert torch.equal(settled[counts], found[counts])  # what is masked out has no order


def test_an_input_that_is_carried_along_is_no_key() -> None:
    groups = torch.randint(0, 4, (6, 40), generator=torch.Generator().manual_seed(6))
    shuffle = torch.randperm(40, generator=torch.Generator().manual_seed(7))
    usual = shuffle[groups[:, shuffle].argsort(dim=-1, stable=True)]  # equal ones in no order
    found = groups.argsort(dim=-1, stable=True)
    assert not torch.equal(found, usual)
    assert torch.equal(with_ties_settled([found], [usual], [torch.rand(6, 40), groups])[0], usual)


def sorted_rows(x: Tensor) -> Tensor:
    return x.argsort(-1)


@pytest.mark.slow("asks all properties")
def test_a_sort_of_expanded_tensors_is_that_of_contiguous_ones(tmp_path: Path) -> None:
    path = tmp_path / "candidate.py"
    path.write_text("def sorted_rows(x):\n    return x.argsort(-1)\n")
    judgement = judge(sorted_rows, path, examples=[(torch.randn(8, 33),)], time=False, threads=1, seconds=12.0)
    assert judgement.as_operator.state == "accepted", str(judgement)
