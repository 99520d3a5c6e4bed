"""Inputs and results that go through memory of a GPU a piece at a time arrive as those that lie in shared memory do.

A stand-in of a candidate's process has that memory on the CPU (see `judging_kit.here`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from judging_kit.here import Here, staged_cell
from torch import Tensor

from opsmith.judging.areas import Areas
from opsmith.judging.cell import Cell, CellError
from opsmith.judging.memory import Area
from opsmith.judging.refusals import Refusal

# What goes through at a time, and a length of tensors that take several of it: more than the host's memory has at first.
PIECE, LENGTH = 1 << 14, 70_001


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opsmith.judging.areas._STAGED_FROM_BYTES", PIECE)
    monkeypatch.setattr("opsmith.judging.cell._LEAST_BYTES", 1)


@pytest.fixture
def staged() -> Iterator[Callable[[Callable[[Sequence[Any]], Any]], tuple[Cell, Here]]]:
    """Make cells whose tensors go through so much at a time."""
    made: list[Cell] = []

    def make(function: Callable[[Sequence[Any]], Any]) -> tuple[Cell, Here]:
        cell, process = staged_cell(function, lambda: Area(PIECE))
        made.append(cell)
        return cell, process

    yield make
    for cell in made:
        cell.close()


def given(cell: Cell, which: Sequence[int] = (0,), **more: bool) -> list[list[Tensor]]:
    every = cell.give(which, **more)
    return [[one.tensor for one in call if one is not None and one.tensor is not None] for call in every]


def large(seed: int = 0, count: int = LENGTH) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed))


Make = Callable[[Callable[[Sequence[Any]], Any]], tuple[Cell, Here]]


@pytest.mark.parametrize(
    "x",
    [
        large(),
        large()[1:].reshape(700, 100).t(),
        large()[1:].reshape(700, 100)[1:, ::2],
        large()[1:],
        large()[:30_000].reshape(1, 30_000).expand(4, 30_000),
        large().bfloat16(),
        torch.complex(large(1), large(2)).conj(),
        large() > 0,
    ],
    ids=lambda x: f"{x.dtype}, {tuple(x.shape)}, {x.stride()}",
)
def test_inputs_and_results_arrive_with_their_layout(x: Tensor, staged: Make) -> None:
    cell, process = staged(lambda values: [values[0].clone(), torch.tensor(values[0].stride()), values[0].t()])
    cell.load([[x, 2.0, torch.ones(3)]])
    cell.run([0])
    (found,) = given(cell)
    assert torch.equal(found[0], x)
    assert found[1].tolist() == list(x.resolve_conj().stride())
    assert torch.equal(found[2], x.t())
    assert cell.changed_inputs() == ""
    assert {"share", "place", "put", "back", "carry"} <= set(process.asked)


def test_results_of_several_calls_are_told_apart(staged: Make) -> None:
    cell, process = staged(lambda values: [values[0] + 1, values[0][:3] * 2, None, values[0].sum()])
    inputs = [large(seed) for seed in range(3)]
    cell.load([[one] for one in inputs])
    cell.run([2, 0, 1])
    for found, x in zip(given(cell, [0, 2]), (inputs[2], inputs[1]), strict=True):
        for one, right in zip(found, (x + 1, x[:3] * 2, x.sum()), strict=True):
            assert torch.equal(one, right)
    assert process.asked.count("share") == 1


def test_copies_that_were_ordered_at_once_are_given_too(staged: Make) -> None:
    kept: list[Tensor] = []

    def late(values: Sequence[Any]) -> Tensor:
        kept.append(torch.zeros_like(values[0]))
        return kept[-1]

    cell, _ = staged(late)
    cell.load([[large()]])
    cell.run([0], is_watched=True)
    kept[-1].fill_(3.0)  # some time after the call
    assert given(cell, is_snapshot=True)[0][0].count_nonzero() == 0
    assert bool((given(cell)[0][0] == 3.0).all())


def test_contents_change_behind_the_same_objects_or_lie_elsewhere(staged: Make) -> None:
    seen: list[tuple[int, int, int]] = []

    def look(values: Sequence[Any]) -> Tensor:
        seen.append((id(values[0]), values[0].data_ptr(), values[0]._version))
        return values[0].clone()

    cell, _ = staged(look)
    for number, keep in enumerate([False, True, True, False]):
        cell.load([[large(number)]], keep=keep, versioned=[0] if number == 2 else [])
        cell.run([0])
        assert torch.equal(given(cell)[0][0], large(number))
    assert seen[0] == seen[1]
    assert seen[2][:2] == seen[1][:2]
    assert seen[2][2] > seen[1][2]
    assert seen[3][1] != seen[2][1]


def test_who_has_kept_a_pointer_reads_what_comes_there(staged: Make) -> None:
    kept: list[Tensor] = []

    def stale(values: Sequence[Any]) -> Tensor:
        kept.append(values[0])
        return kept[0].clone()

    cell, _ = staged(stale)
    cell.load([[large(0)]])
    cell.run([0])
    # Two slots lie elsewhere; the first one's contents come to the old place as well.
    cell.load([[large(1)], [large(2)]])
    cell.run([1])
    assert torch.equal(given(cell)[0][0], large(1))


@pytest.mark.parametrize("place", [0, LENGTH // 2, LENGTH - 1])
def test_a_changed_input_is_seen_in_any_piece(place: int, staged: Make) -> None:
    def change(values: Sequence[Any]) -> Tensor:
        values[0][place] += 1
        return values[0].clone()

    cell, _ = staged(change)
    cell.load([[large(), torch.ones(3)]])
    cell.run([0])
    assert cell.changed_inputs() == "inputs"


@pytest.mark.parametrize("place", [-1, LENGTH])
@pytest.mark.parametrize("margin", [0xFF, 0])
def test_margins_are_there_and_held(place: int, margin: int, staged: Make) -> None:
    def around(values: Sequence[Any]) -> Tensor:
        x = values[0]
        before = torch.as_strided(x, (1,), (1,), x.storage_offset() + place)
        found = before.view(torch.uint8).clone()
        before.fill_(7.0)
        return found

    cell, _ = staged(around)
    cell.load([[large(), large(1)]], margin=margin)
    cell.run([0])
    assert given(cell)[0][0].tolist() == [margin] * 4
    assert cell.changed_inputs() == "margins"


def test_what_is_written_there_later_changes_nothing(staged: Make) -> None:
    """A kernel that goes on scribbles over the shared memory whenever the candidate's process does nothing."""
    cell, process = staged(lambda values: values[0] * 2)
    cell.load([[large()]])

    def scribble(do: str) -> None:
        if do != "carry" and do != "back":  # between an answer and the copy of what it gives there is no time here
            process.opened[0].bytes.fill_(0x5B)

    process.after = scribble
    cell.load([[large()]])
    cell.run([0])
    ((found,),) = given(cell)
    process.opened[0].bytes.fill_(0x5B)
    assert torch.equal(found, large() * 2)
    assert cell.changed_inputs() == ""


@pytest.mark.parametrize("do", ["carry", "back"])
def test_what_is_written_there_at_the_wrong_time_counts_against_the_candidate(do: str, staged: Make) -> None:
    cell, process = staged(lambda values: values[0] * 2)
    cell.load([[large()]])
    cell.run([0])

    def scribble(done: str) -> None:
        if done == do:
            process.opened[0].bytes.fill_(0x5B)

    process.after = scribble
    assert torch.equal(given(cell)[0][0], large() * 2) == (do != "carry")
    assert cell.changed_inputs() == ("inputs" if do == "back" else "")


def test_few_bytes_go_by_the_memory_of_the_host(staged: Make) -> None:
    cell, process = staged(lambda values: values[0] * 2)
    cell.load([[torch.ones(64)]])
    cell.run([0])
    assert given(cell)[0][0].tolist() == [2.0] * 64
    assert cell.changed_inputs() == ""
    assert "share" not in process.asked


@pytest.mark.parametrize("is_refused_there", [True, False])
def test_where_memory_cannot_be_shared_the_host_has_it(is_refused_there: bool) -> None:
    made: list[Area] = []

    def new_passage() -> Area | None:
        asked.append(1)
        return Area(PIECE) if is_refused_there else None

    asked: list[int] = []
    cell, process = staged_cell(lambda values: values[0] * 2, new_passage)

    def refuse(size: int, descriptor: int) -> Area:
        made.append(Area(size, descriptor))
        made[-1].close()
        raise RuntimeError("the driver cannot")

    process.staged._open_passage = refuse
    for seed in range(2):
        cell.load([[large(seed)]])
        cell.run([0])
        assert torch.equal(given(cell)[0][0], large(seed) * 2)
        assert cell.changed_inputs() == ""
    assert asked == [1]
    assert len(made) == is_refused_there
    assert process.passage_bytes == 0
    assert "put" not in process.asked
    cell.close()


def test_memory_is_closed_where_the_process_ends_meanwhile() -> None:
    passage = Area(PIECE)
    cell, process = staged_cell(lambda values: values[0], lambda: passage)
    process.is_alive = False
    process.staged._open_passage = lambda size, descriptor: 1 // 0  # type: ignore[return-value]
    with pytest.raises(CellError):
        cell.load([[large()]])
    assert passage.descriptor == -1
    cell.close()


def test_results_without_room_here_are_over_the_limit(staged: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opsmith.judging.staging.available_memory_bytes", lambda device: 100_000)
    cell, _ = staged(lambda values: values[0])
    cell.load([[large()]])
    cell.run([0])
    with pytest.raises(CellError, match=r"its results take 0\.3 MiB, and may take 0\.1") as refused:
        cell.give([0])
    assert refused.value.charge.refusal is Refusal.OVER_MEMORY


def test_a_process_without_memory_for_its_inputs_says_so(staged: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    cell, process = staged(lambda values: values[0])

    def place(size: int, keep: bool, leave: bool) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    process.calls.device.place = place  # type: ignore[method-assign]
    with pytest.raises(CellError) as refused:
        cell.load([[large()]])
    assert refused.value.charge.refusal is Refusal.OVER_MEMORY


def test_what_goes_through_counts_once_for_inputs_and_once_for_results(staged: Make) -> None:
    cell, process = staged(lambda values: torch.cat([values[0], values[0]]))
    for count in (LENGTH, 20_000):
        cell.load([[large(count=count)]])
        cell.run([0])
        given(cell)
    assert process.passage_bytes == PIECE
    assert 3 * 4 * LENGTH <= process.staged_bytes < 3 * 4 * LENGTH + 2000


def test_inputs_that_are_released_are_not_asked_about(staged: Make) -> None:
    cell, _ = staged(lambda values: values[0])
    cell.load([[large()]])
    cell.run([0])
    assert cell.changed_inputs() == ""
    cell.release_inputs()
    with pytest.raises(AssertionError):  # nothing is left to hold them against
        cell.changed_inputs()
    assert torch.equal(given(cell)[0][0], large())


def test_a_cpu_has_no_such_memory() -> None:
    process = Here(lambda values: values[0])
    assert Areas.on("cpu", process, 1.0).staging(1 << 40) is None  # type: ignore[arg-type]
