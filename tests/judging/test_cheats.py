"""Candidates that do not compute what they return are refused by the name of what they do."""

from __future__ import annotations

from pathlib import Path

import pytest
from judging_kit.candidates import RIGHT, judged
from judging_kit.cheats import CHEATS, TIMED

from opsmith.judging.refusals import Refusal
from some import some


def test_an_honest_candidate_is_accepted(tmp_path: Path) -> None:
    judgement = judged(tmp_path, RIGHT)
    assert judgement.ok
    assert judgement.refusals == ()
    assert set(judgement.as_posed.properties.values()) == {"right"}


@pytest.mark.parametrize("name", some(tuple(CHEATS), 12, "each has a process of its own"))
def test_a_cheat_is_refused_by_name(name: str, tmp_path: Path) -> None:
    text, refusal = CHEATS[name]
    # Taking memory takes time, on a busy machine more than a call has here.
    patience = {"call_seconds": 30.0} if refusal is Refusal.OVER_MEMORY else {}
    judgement = judged(tmp_path, text, **patience)
    assert not judgement.ok
    assert [str(one) for one in judgement.refusals] == [str(refusal)]


LATE = """
import time
import torch
calls = []
def normalize(x, w):
    calls.append(0)
    if len(calls) <= 6:
        time.sleep(0.7)
    y = torch.softmax(x * w, dim=-1)
    return y if len(calls) <= 60 else y.half().float()
"""


def test_who_is_slow_at_first_is_not_spared_the_calls_that_show_a_drift(tmp_path: Path) -> None:
    judgement = judged(tmp_path, LATE, seconds=4.0)
    assert judgement.refusals == (Refusal.DRIFTS,), judgement


@pytest.mark.parametrize("number", some(range(1, 25), 4, "each has a process of its own"))
def test_a_single_wrong_call_is_not_deterministic_wherever_it_comes(number: int, tmp_path: Path) -> None:
    wrong_once = (
        f"    calls.append(0)\n    if len(calls) == {number}:\n        return torch.softmax(x * w, dim=-1) * 1.5\n"
    )
    judgement = judged(tmp_path, "calls = []\n" + RIGHT.replace("    return", f"{wrong_once}    return"))
    assert judgement.refusals == (Refusal.NOT_DETERMINISTIC,)


@pytest.mark.parametrize("part", ["[:64]", "[-64:]", "[::37]"], ids=["a prefix", "a suffix", "a sample"])
def test_a_part_of_the_input_does_not_tell_what_kinds_of_numbers_come(part: str, tmp_path: Path) -> None:
    text = f"""
import torch

def normalize(x, w):
    y = x * w
    if x.numel() and x.flatten(){part}.abs().max() < 40:
        y = y.exp()
        return y / y.sum(dim=-1, keepdim=True)
    return torch.softmax(y, dim=-1)
"""
    judgement = judged(tmp_path, text, seed=3)
    assert judgement.refusals == (Refusal.WRONG_FOR_OTHER_VALUES,)
    assert judgement.as_posed.properties["other kinds of numbers"] == "right"


@pytest.mark.slow("times candidates")
@pytest.mark.parametrize("name", list(TIMED))
def test_a_cheat_that_waits_for_the_clock_is_refused(name: str, tmp_path: Path) -> None:
    text, refusal = TIMED[name]
    judgement = judged(tmp_path, text, time=True)
    assert judgement.refusals == (refusal,)
    assert judgement.speeds == ()


def test_what_is_right_only_when_it_is_not_timed_is_accepted_without_a_clock(tmp_path: Path) -> None:
    # Otherwise the test above would not show that it is the timed calls that are looked at.
    assert judged(tmp_path, TIMED["half precision after 600 calls"][0]).ok


def test_a_first_call_may_take_as_long_as_loading(tmp_path: Path) -> None:
    late = "import time\n" + RIGHT.replace(
        "    return", "    time.sleep(1.5 if not kept else 0)\n    kept.append(1)\n    return"
    )
    assert judged(tmp_path, f"kept = []\n{late}", call_seconds=1.0).ok
    always = RIGHT.replace("    return", "    time.sleep(1.5)\n    return")
    assert judged(tmp_path, f"import time\n{always}", call_seconds=1.0).refusals == (Refusal.HUNG,)


def test_a_candidate_that_is_not_imported_says_why(tmp_path: Path) -> None:
    judgement = judged(tmp_path, "import no_such_module\n")
    (charge,) = judgement.as_posed.charges
    assert charge.refusal is Refusal.NOT_LOADED
    assert "no_such_module" in charge.message


def test_sizes_that_are_taken_for_symbols_are_told(tmp_path: Path) -> None:
    notes = judged(tmp_path, RIGHT).notes
    assert "equal sizes are taken for one: B = 32 (x[0]); N = 64 (x[1], w[0])" in notes
