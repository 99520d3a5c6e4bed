"""The guide has every name that a candidate is refused by."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsmith.judging.refusals import Refusal

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "judge.md"


@pytest.mark.parametrize("refusal", list(Refusal), ids=str)
def test_each_refusal_is_explained(refusal: Refusal) -> None:
    assert f"`{refusal}`" in GUIDE.read_text()
