"""What `opsmith build` says where a machine cannot run what it is asked to build."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

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
