"""A judgement ends, however many calls of a slow candidate each keep to their limit."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from judging_kit.candidates import RIGHT, judged
from judging_kit.cells import answer, cell_of

from opsmith.judging.patience import OverTotal
from opsmith.judging.refusals import Refusal

SLOW = "import time\n" + RIGHT.replace("    return", "    time.sleep({})\n    return")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opsmith.judging.run._LEAST_TOTAL_S", 2.0)


def test_a_call_within_its_limit_is_stopped_when_all_are_over() -> None:
    with cell_of("import time\ndef f(x):\n    time.sleep(4)\n    return x\n") as cell:
        cell.process.limit_total(0.5)
        begun_s = time.monotonic()
        with pytest.raises(OverTotal, match="stopped after 0 s"):
            answer(cell, torch.ones(1))
        assert time.monotonic() - begun_s < 3
        assert not cell.is_alive
        with pytest.raises(OverTotal):
            cell.load([[torch.ones(1)]])


@pytest.mark.parametrize("is_operator", [False, True], ids=["as posed", "both"])
def test_what_has_no_verdict_by_then_is_not_judged(is_operator: bool, tmp_path: Path) -> None:
    judgement = judged(tmp_path, SLOW.format(0.3), seconds=0.3, operator=is_operator)
    assert judgement.as_posed.state == judgement.as_operator.state == "not judged"
    assert "it was stopped after" in judgement.as_posed.note
    assert not judgement.ok
    assert "not judged as posed" in str(judgement)


def test_calls_that_were_not_timed_to_the_end_leave_no_verdict(tmp_path: Path) -> None:
    # Some 590 calls come before. What is wrong in those that are timed nobody would see.
    text = "import time\ncalls = []\n" + RIGHT.replace(
        "    return", "    calls.append(1)\n    time.sleep(0 if len(calls) < 700 else 1)\n    return"
    )
    judgement = judged(tmp_path, text, seconds=3.0, time=True)
    assert judgement.as_posed.state == "not judged"
    assert judgement.as_posed.calls > 0
    assert not judgement.speeds


def test_a_first_call_that_does_not_end_has_hung_whatever_the_budget(tmp_path: Path) -> None:
    judgement = judged(tmp_path, SLOW.format(60), seconds=0.3, load_seconds=4.0, call_seconds=1.0)
    assert judgement.as_posed.state == "refused"
    assert [charge.refusal for charge in judgement.as_posed.charges] == [Refusal.HUNG]
