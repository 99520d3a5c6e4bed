"""The table of mutants fits the source, so that tests/mutants/run.py can run all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from mutants import MUTANTS, ROOT, Mutant, mutated


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_mutant_applies(mutant: Mutant) -> None:
    assert mutated(mutant) != (ROOT / "src" / "opsmith" / mutant.file).read_text()
    assert all((ROOT / path).exists() for path in mutant.tests)


def test_there_are_forty_of_different_names() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 40
