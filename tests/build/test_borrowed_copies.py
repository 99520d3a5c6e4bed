"""Operators of a standalone wheel are found by this opsmith, in place of the copy in the wheel."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import opsmith
from opsmith.build.discover import discover

MODULE = """
import {name}._opsmith as opsmith
from {name}._opsmith.errors import ShapeError
from jaxtyping import Float
from torch import Tensor

@opsmith.op
def twice(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x + x
"""


def package(folder: Path, name: str, mark: str, copied: str) -> None:
    (folder / name / "_opsmith").mkdir(parents=True)
    (folder / name / "__init__.py").write_text(MODULE.format(name=name))
    (folder / name / "_opsmith" / "__init__.py").write_text(copied)
    (folder / name / "_opsmith" / mark).write_text("")


def test_the_copy_is_this_opsmith(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, "alone_1", "_standalone.py", "raise AssertionError('the copy was imported')")
    monkeypatch.syspath_prepend(tmp_path)
    (group,) = discover("alone_1")
    assert [item.qualified_name for item in group.definitions] == ["alone_1::twice"]
    module = sys.modules["alone_1"]
    assert module.opsmith is opsmith
    assert module.ShapeError is opsmith.errors.ShapeError
    assert opsmith.__spec__ is not None and opsmith.__spec__.name == "opsmith"


def test_another_package_of_that_name_is_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, "alone_2", "other.py", "from opsmith import *")
    (tmp_path / "alone_2" / "_opsmith" / "errors.py").write_text("from opsmith.errors import *")
    monkeypatch.syspath_prepend(tmp_path)
    discover("alone_2")
    assert Path(sys.modules["alone_2._opsmith"].__file__ or "").is_relative_to(tmp_path)
