"""What `opsmith build` says where a machine cannot run what it is asked to build."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from opsmith.build.builders import Request
from opsmith.cli.build import command
from opsmith.errors import DefinitionError

DEFINITION = """
import opsmith
from jaxtyping import Float
from torch import Tensor

@opsmith.op(cuda="there.cu")
def there(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return 2 * x
"""


def test_nothing_is_built_for_no_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "only_on_gpus.py").write_text(DEFINITION)
    for options, reason in (
        ([], "torch sees no GPU here, and --arch says what to compile for without one: --arch 9.0"),
        (["--device", "cpu"], "--device has cpu"),
    ):
        done = CliRunner().invoke(command, [str(tmp_path / "only_on_gpus.py"), *options])
        assert isinstance(done.exception, DefinitionError)
        assert str(done.exception) == f"there: there are kernels for cuda alone; {reason}"


def test_each_library_of_a_package_gets_a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    package = tmp_path / "with_places"
    for folder in (package, package / "one", package / "other"):
        folder.mkdir()
        (folder / "__init__.py").write_text(DEFINITION.replace("there", f"there_{folder.name}") * (folder != package))
    asked: list[Path | None] = []

    def note(group: Any, builder: str, request: Request, watcher: Any) -> None:
        asked.append(request.output)
        if group.module == "with_places.other":
            raise DefinitionError("enough is known")

    monkeypatch.setattr("opsmith.build.builders.build_group", note)
    options = ["--device", "cuda", "--output", str(tmp_path / "out")]
    CliRunner().invoke(command, [str(package), *options])
    assert asked == [tmp_path / "out" / "one", tmp_path / "out" / "other"]
