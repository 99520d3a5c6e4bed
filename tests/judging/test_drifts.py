"""What becomes wrong after a while is told from what is wrong for some numbers."""

from __future__ import annotations

from pathlib import Path

from judging_kit.candidates import RIGHT, judged

from opsmith.judging.refusals import Refusal


def test_numbers_for_which_it_is_wrong_are_no_drift(tmp_path: Path) -> None:
    # Some seven of a hundred first rows have such a mean, those of the first calls have not.
    text = RIGHT.replace("    return", "    if x[0].mean() > 0.25:\n        x = x + 1\n    return", 1)
    charge = judged(tmp_path, text, seed=1, time=False).as_posed.charges[0]
    assert charge.refusal in (Refusal.WRONG_VALUES, Refusal.WRONG_FOR_OTHER_VALUES)
    text = RIGHT.replace("    return", "    calls.append(1)\n    if len(calls) > 9:\n        x = x + 1\n    return", 1)
    charge = judged(tmp_path, "calls = []\n" + text, seed=1, time=False).as_posed.charges[0]
    assert charge.refusal is Refusal.DRIFTS
