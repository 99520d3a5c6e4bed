"""What a candidate sees of its inputs tells it nothing of others."""

from __future__ import annotations

import torch

from opsmith.judging.candidate import Entry
from opsmith.judging.seeds import derived, secret_seed, with_scattered_seeds
from opsmith.judging.task import Task


def test_a_secret_is_more_than_can_be_tried() -> None:
    assert len({secret_seed() >> 40 for _ in range(64)}) > 32  # the generator of PyTorch has 32 bits
    assert all(0 <= secret_seed() < 1 << 53 for _ in range(64))


def test_the_same_seed_gives_the_same_and_purposes_differ() -> None:
    assert derived(7, "times 0") == derived(7, "times 0")
    assert len({derived(7, "times 0"), derived(7, "times 1"), derived(7, "as posed"), derived(8, "times 0")}) == 4
    assert all(0 <= derived(number, "inputs", 31) < 1 << 31 for number in range(100))


def test_neighbours_are_not_made_from_neighbouring_seeds() -> None:
    given: list[int] = []

    def make(seed: int) -> dict[str, torch.Tensor]:
        given.append(seed)
        return {}

    task = with_scattered_seeds(Task("f", "function", (), lambda: None, make, Entry(("f",)), {"one": make}))
    for number in range(50):
        task.inputs(number)
        task.posed["one"](number + 1)
    assert len(set(given)) == 51
    assert min(abs(one - other) for one, other in zip(given[::2], given[2::2], strict=False)) > 1000
