"""Indices of equal elements may come in any order, unless the reference's have one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from opsmith.judging.api import judge
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
    (settled,) = with_ties_settled([result], [_UNSTABLE], lambda: [_X.argsort(-1)])
    assert torch.equal(settled, _UNSTABLE) is excused


@pytest.mark.parametrize("dim", [0, 1])
def test_one_of_equal_elements_of_a_row_is_right(dim: int) -> None:
    x = torch.tensor([[2.0, 1.0, 2.0, 0.0], [2.0, 3.0, 0.0, 3.0]])
    x = x if dim == 1 else x.t()
    usual, other = torch.tensor([0, 1]), torch.tensor([2, 2])
    (settled,) = with_ties_settled([other], [usual], lambda: [x.kthvalue(3, dim).indices])
    assert settled.tolist() == [0, 2]  # the second is of another element


def test_a_part_of_a_dimension_is_known_by_its_size() -> None:
    found, usual = torch.tensor([[0], [2]]).t(), torch.tensor([[2], [1]]).t()
    (settled,) = with_ties_settled([found], [usual], lambda: [_X.t().topk(1, dim=0).indices])
    assert settled.tolist() == [[2, 2]]  # the second is of another element


def test_nan_is_equal_to_nan_and_other_results_stay_as_they_are() -> None:
    x = torch.tensor([torch.nan, 1.0, torch.nan])
    found, usual = torch.tensor([1, 2, 0]), torch.tensor([1, 0, 2])
    assert torch.equal(with_ties_settled([found], [usual], lambda: [x.argsort()])[0], usual)
    assert with_ties_settled([x], [x], lambda: [x.argsort()])[0] is x
    assert with_ties_settled([found, x], [usual], lambda: [x.argsort()]) == [found, x]


def test_the_order_of_a_stable_reference_is_asked() -> None:
    x = torch.arange(8).div(4, rounding_mode="floor").float()
    usual = torch.arange(8)
    found = usual.view(2, 4).flip(1).reshape(-1)
    assert torch.equal(with_ties_settled([found], [usual], lambda: [x.argsort(stable=True)])[0], found)
    assert torch.equal(with_ties_settled([found], [usual], lambda: [x.argsort()])[0], usual)


def test_ranks_are_right_in_an_order_that_is_open() -> None:
    x = torch.tensor([1.0, 0.0, 1.0, 2.0, 1.0])
    usual = torch.tensor([1, 0, 2, 4, 3])
    for found, is_right in (([3, 0, 2, 4, 1], True), ([1, 0, 2, 3, 4], False), ([1, 0, 1, 4, 1], False)):
        (settled,) = with_ties_settled([torch.tensor(found)], [usual], lambda: [x.argsort().argsort()])
        assert torch.equal(settled, usual) is is_right, found


@pytest.mark.parametrize(
    "reference",
    [
        lambda x: x.argmax(-1, keepdim=True),
        lambda x: (x > 0).sum(-1, keepdim=True),
        lambda x: (
            torch.bincount(x.topk(4, dim=-1).indices.flatten() % 4, minlength=8)[None].expand(x.shape[0], 8).clone()
        ),
    ],
    ids=["an argmax", "a count", "a count beside a topk"],
)
def test_other_integers_are_no_indices_of_what_is_sorted(reference: Callable[[Tensor], Tensor]) -> None:
    """PyTorch says which of equal elements argmax names: the first."""
    x = torch.tensor([[0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0]]).expand(6, 8).contiguous()
    usual = reference(x)
    found = (usual + 1) % 8
    assert torch.equal(with_ties_settled([found], [usual], lambda: [reference(x)])[0], found)


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
    masked = scores.masked_fill(beside == 0, -1e9) if key == "a mask" else -(10 * beside + scores.sigmoid())
    usual = masked.argsort(-1, descending=True)
    found = beside.argsort(dim=-1, descending=key == "a mask", stable=True)
    (settled,) = with_ties_settled([found], [usual], lambda: [masked.argsort(-1, descending=True)])
    counts = beside.gather(-1, usual) > 0 if key == "a mask" else torch.ones_like(usual, dtype=torch.bool)
    assert torch.equal(settled[counts], found[counts])  # what is masked out has no order


def sorted_rows(x: Tensor) -> Tensor:
    return x.argsort(-1)


@pytest.mark.slow("asks all properties")
def test_a_sort_of_expanded_tensors_is_that_of_contiguous_ones(tmp_path: Path) -> None:
    path = tmp_path / "candidate.py"
    path.write_text("def sorted_rows(x):\n    return x.argsort(-1)\n")
    judgement = judge(sorted_rows, path, examples=[(torch.randn(8, 33),)], time=False, threads=1, seconds=12.0)
    assert judgement.as_operator.state == "accepted", str(judgement)
