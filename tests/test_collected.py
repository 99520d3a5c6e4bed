"""pytest finds every test file: by default it passes over folders that are called `build`, as one here is."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def test_no_folder_is_passed_over(pytestconfig: pytest.Config) -> None:
    patterns = pytestconfig.getini("norecursedirs")
    folders = {parent for file in TESTS.rglob("test_*.py") for parent in file.relative_to(TESTS).parents}
    assert len(folders) > 20
    assert not [folder for folder in folders for pattern in patterns if fnmatch(folder.name, pattern)]
