"""Times are taken outside of a candidate's process, on inputs that it has not seen, and have their limits."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from judging_kit.candidates import EXAMPLES, RIGHT, judged
from torch import Tensor
from torch._dynamo.utils import counters

from opsmith.benchmark.ceilings import Ceilings
from opsmith.benchmark.statistics import median_interval
from opsmith.judging.api import judge
from opsmith.judging.refusals import Refusal
from opsmith.judging.scaled import Inputs, are_scalable, scaled
from opsmith.judging.timing import race, round_size
from opsmith.judging.timing.clock import CallTime, time_here
from opsmith.judging.timing.floor import Floor, floor_of
from opsmith.judging.timing.rivals import rivals_of

SLEEPS = """
import time, torch
sleep = time.sleep
time.perf_counter = time.monotonic = time.time = lambda: 0.0
def normalize(x, w):
    sleep(0.003)
    return torch.softmax(x * w, dim=-1)
"""
CEILINGS = Ceilings(1e9, 1e9, {"float32": 1e9}, 1e-6)


def test_a_call_takes_as_long_as_the_judge_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[torch.dtype] = []

    def floor(values: Any, results: Any, device: str) -> Any:
        written.extend(one.dtype for one in results)
        return floor_of(values, results, device)

    monkeypatch.setattr("opsmith.judging.run.floor_of", floor)
    (speed,) = judged(tmp_path, SLEEPS, time=True, seconds=10.0).speeds
    assert written == [torch.float32]  # what a call writes, and not what it is compared with
    # Other programs make it longer, and nothing makes it shorter.
    assert speed.median_s > 0.003
    assert speed.low_s <= speed.median_s <= speed.high_s
    assert speed.ratio is not None
    assert speed.ratio < 1


@pytest.mark.slow("a median of rounds")
def test_the_reference_itself_is_about_as_fast_as_it_is(tmp_path: Path) -> None:
    (speed,) = judged(tmp_path, RIGHT, time=True, seconds=30.0).speeds
    assert speed.ratio_low is not None
    assert speed.ratio_high is not None
    assert speed.ratio_low < 2
    assert speed.ratio_high > 0.3


@pytest.mark.slow("a median of rounds")
def test_who_reads_little_of_its_inputs_is_not_called_slower_than_an_equal_rival(tmp_path: Path) -> None:
    def gather(table: Tensor, index: Tensor) -> Tensor:
        return table[index]

    path = tmp_path / "candidate.py"
    path.write_text("def gather(table, index):\n    return table[index]\n")
    examples = [(torch.rand(50_000, 32), torch.randint(0, 50_000, (64,)))]
    judgement = judge(gather, path, examples=examples, threads=1, operator=False, seconds=15.0)
    (speed,) = judgement.speeds
    assert speed.ratio is None or speed.ratio > 0.4


@pytest.mark.parametrize(
    ("left_s", "ratio", "words"),
    [
        (0.0, 100.0, ""),
        (3e-5, 14.5, "for the speedup"),  # 1.03 ms against 70 us
        (2e-3, None, "no speedup is given"),
    ],
)
def test_what_is_left_of_the_judges_time_is_in_both_or_there_is_no_speedup(
    left_s: float, ratio: float | None, words: str
) -> None:
    samples = race._Samples([CallTime(1.0, 1e-5 + 2 * left_s, left_s)] * 5, {"eager": [1e-3] * 5})
    own = median_interval(samples.own_s)
    speed = race._speed("as posed", own, "eager", samples, Floor(0.0, 0.0), 5)
    assert speed.ratio == (None if ratio is None else pytest.approx(ratio, rel=0.02))
    assert speed.other_s == 1e-3
    note = race._note_of("as posed", samples, [speed])
    assert words in note
    assert bool(words) == bool(note)


# Right whenever few calls come in a row.
ONCE = """
import time, torch
calls, last, kept = 0, 0.0, None
def normalize(x, w):
    global calls, last, kept
    calls, last = calls + 1 if time.monotonic() - last < 0.0005 else 0, time.monotonic()
    if calls < 20 or kept is None:
        kept = torch.softmax(x * w, dim=-1)
    return kept.clone()
"""


@pytest.mark.parametrize("name", ["honest", "honest, large", "knows copies"])
def test_copies_of_inputs_are_calls_as_others_are(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    size_of_rounds = round_size.size_of_rounds

    def planned(*given: Any) -> round_size.RoundSize:
        size = size_of_rounds(*given)
        counts.append((size.made, size.lead, size.count))
        return size

    monkeypatch.setattr(round_size, "_COPIED_ON", ("cpu",))
    monkeypatch.setattr(round_size, "_MOST_ELEMENTS", 8192)
    monkeypatch.setattr(race, "size_of_rounds", planned)
    if name == "honest, large":
        monkeypatch.setattr(round_size, "_LARGE_BYTES", 0)
        monkeypatch.setattr(round_size, "_MOST_ELEMENTS", 0)
    judgement = judged(tmp_path, ONCE if name == "knows copies" else RIGHT, time=True, seconds=10.0)
    assert judgement.ok is (name != "knows copies"), str(judgement)
    ((made, lead, count),) = counts
    assert made < count
    assert (made, lead) == (1, 1) if name == "honest, large" else made > lead == 2


def test_a_copy_has_its_own_numbers_and_the_layout_of_what_it_is_made_of() -> None:
    x, places = torch.randn(5, 3).t(), torch.arange(4)
    made = {"x": x, "list": [x.bfloat16(), 2], "places": places, "n": 3}
    assert are_scalable(made)
    assert not are_scalable({"places": places})
    assert not are_scalable({"x": x[:, ::2]})
    inputs = Inputs([made, made], [(1, 0.75)])
    assert len(inputs) == 3
    copy = inputs[2]
    assert inputs[0] is made
    assert copy["x"].stride() == x.stride()
    torch.testing.assert_close(copy["x"], 0.75 * x, rtol=0, atol=0)
    torch.testing.assert_close(copy["list"][0], (0.75 * x.bfloat16().float()).bfloat16(), rtol=0, atol=0)
    assert copy["list"][1] == 2
    assert copy["n"] == 3
    assert torch.equal(copy["places"], places)
    assert copy["places"].data_ptr() != places.data_ptr()
    again = scaled(list(made.values()), 0.875, list(copy.values()))
    assert again[0].data_ptr() == copy["x"].data_ptr()
    torch.testing.assert_close(copy["x"], 0.875 * x, rtol=0, atol=0)


def test_a_floor_is_what_memory_needs() -> None:
    values = {"x": torch.zeros(1000, 1000), "n": 3}
    floor = floor_of(values, [torch.zeros(1000)], "cpu", lambda device: CEILINGS)
    assert floor.usual_s == pytest.approx(4.004e6 / 1e9)
    # It may lie in a cache, which is faster.
    assert 0 < floor.possible_s < floor.usual_s
    expanded = floor_of({"x": torch.zeros(1, 1000).expand(1000, 1000)}, [], "cpu", lambda device: CEILINGS)
    assert expanded.usual_s == pytest.approx(4e3 / 1e9)


@pytest.mark.slow("times a candidate")
def test_what_no_machine_can_do_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Ceilings(1.0, 1.0, {"float32": 1.0}, 1.0)
    monkeypatch.setattr("opsmith.judging.run.floor_of", lambda *given: floor_of(*given, lambda device: slow))
    judgement = judged(tmp_path, RIGHT, time=True, seconds=10.0)
    assert judgement.refusals == (Refusal.FASTER_THAN_THE_MACHINE,)
    assert not judgement.ok
    assert judgement.speeds == ()


def test_a_judgement_of_a_small_task_takes_seconds(tmp_path: Path) -> None:
    begun_s = time.process_time()
    assert judged(tmp_path, RIGHT).ok
    assert time.process_time() - begun_s < 5


@pytest.mark.slow("compiles a reference")
def test_a_rival_is_compiled_once_for_all_candidates() -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(2 * x, dim=-1)

    graphs: list[int] = []
    for _ in range(2):
        with rivals_of(reference, ("compiled",), [torch.ones(8, 64)], "cpu", 300.0) as (rivals, notes):
            assert list(rivals) == ["eager", "compiled"]
            assert notes == ()
            graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[0] == graphs[1] > 0


@pytest.mark.parametrize(
    "value", [torch.randn(3, 4, dtype=torch.complex64).t().conj(), torch.zeros(()), torch.zeros(0)]
)
def test_a_rival_has_read_its_inputs_whatever_their_type(value: torch.Tensor) -> None:
    called: list[Any] = []
    time_here(lambda *given: called.append(given), [[value, [value.real, 3], "a"]], [], "cpu")
    assert len(called) == 1


def test_who_takes_long_for_the_first_shape_is_asked_for_other_numbers_of_the_next(tmp_path: Path) -> None:
    """The candidate has all the time of the judgement for one shape, and overflows for large numbers of the other."""
    text = """
import time, torch
taken = [0.0]
def normalize(x, w):
    if x.shape[0] == 32 and taken[0] < 9:
        time.sleep(0.5)
        taken[0] += 0.5
    if x.shape[0] == 32:
        return torch.softmax(x * w, dim=-1)
    e = torch.exp(x * w)
    return e / e.sum(-1, keepdim=True)
"""
    examples = [(x.repeat(times, 1), w) for x, w in EXAMPLES for times in (1, 2)]
    found = judged(tmp_path, text, examples=examples, seconds=6.0)
    assert found.refusals == (Refusal.WRONG_FOR_OTHER_VALUES,)
    found = judged(
        tmp_path, RIGHT.replace("return", "import time; time.sleep(0.3); return"), examples=examples, seconds=2.0
    )
    assert found.as_posed.state == "accepted"
    assert found.as_posed.properties["calls in a row"] == "no time left"
