"""`opsmith plan`, which find_package(opsmith) calls for a user's module."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from opsmith.cli.plan import command

DEFINITION = """
import opsmith
from jaxtyping import Float
from torch import Tensor

print("an advertisement")

@opsmith.op(cpu="talks.cpp")
def talks(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return 2 * x
"""


def test_what_a_module_prints_is_not_taken_for_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "talks.py").write_text(DEFINITION)
    (tmp_path / "talks.cpp").touch()
    folders = ["--source", str(tmp_path / "plan"), "--binary", str(tmp_path / "binary")]
    done = CliRunner().invoke(command, [str(tmp_path / "talks.py"), "--target", "ops", *folders, "--device", "cpu"])
    assert done.exception is None
    assert done.stdout == "an advertisement\n"
    answer = json.loads((tmp_path / "plan" / "answer.json").read_text())
    assert answer["library"] == "_talks_ops.so"
    assert str(tmp_path / "talks.py") in answer["depends"].split(";")
