"""The proof program judges names, goes on where it was, and counts by class and seed."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).with_name("planted")))

import score
from score import DEFECTS, SOUND, TWINS, Checked, Unit


def checked(what: str, failed: tuple[str, ...], also: tuple[str, ...] = (), seed: int = 0, broken: str = "") -> Checked:
    unit = Unit(what, "kernels", "softmax", seed)
    words = (broken,) if broken else ()
    return Checked(unit, dict.fromkeys(failed, "it differs"), words, "magnitude", also, 1.0, 2.0)


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        (checked(DEFECTS, ("magnitude",)), score.RIGHT),
        (checked(DEFECTS, ("magnitude", "value"), ("value",)), score.RIGHT),
        (checked(DEFECTS, ("magnitude", "value")), score.EXTRA),
        (checked(DEFECTS, ("value",), ("value",)), score.MISNAMED),
        (checked(DEFECTS, ()), score.MISSED),
        (checked(TWINS, ()), score.RIGHT),
        (checked(TWINS, ("value",)), score.BLAMED),
        (checked(SOUND, (), broken="value: the check failed with KeyError"), score.BROKEN),
    ],
)
def test_verdicts(result: Checked, verdict: str) -> None:
    assert result.verdict == verdict


def test_the_table_counts_by_class_and_seed_and_lists_what_is_wrong() -> None:
    results = [checked(DEFECTS, ("magnitude",)), checked(DEFECTS, ("value",), seed=1), checked(TWINS, ("value",))]
    head, *lines = score.table_of(results, [0, 1]).splitlines()
    assert head.split() == ["seed", "0", "seed", "1"]
    assert [line.split()[-2:] for line in lines] == [["1/1", "0/1"], ["0/1", "0/0"]]
    assert [problem.split()[0] for problem in score.problems_of(results)] == [score.MISNAMED, score.BLAMED]


def test_a_log_is_taken_up_for_the_same_sources_without_its_torn_end(tmp_path: Path) -> None:
    log, result = tmp_path / "log", checked(DEFECTS, ("magnitude",))
    lines = [json.dumps({**asdict(result), "sources": sources}) for sources in ("these", "others")]
    log.write_text("\n".join([*lines, lines[0][:40]]))
    (found,) = score.logged(log, "these")
    assert found.unit == result.unit
    assert found.verdict == score.RIGHT
    assert list(score.logged(tmp_path / "none", "these")) == []
