"""A kernel that is edited while the process runs is said to be, once, and calls do not pay for it."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from opsmith.errors import DefinitionError, OpsmithError
from opsmith.runtime import edits
from opsmith.runtime.edits import warn_of_edits
from opsmith.subject.subject import subject_of

pytestmark = pytest.mark.compile
Package = Callable[..., ModuleType]

DEFINITION = """
@opsmith.op(cpu="{name}.cpp", dtypes=[torch.float32])
def {name}(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x * 2
"""
KERNEL = """#include <opsmith/kernel.h>
template <class T>
void {name}(opsmith::View<const T, 1> x, opsmith::View<T, 1> out) {{
  for (int64_t n = 0; n < x.size[0]; ++n) out(n) = x(n) * 2;
}}
"""
EDITED = KERNEL.format(name="scale").replace("* 2", "* 3")
SAYS = r"scale\.cpp was edited after this process had loaded scale from it\. .*start a new process"


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what these tests edit from the loads of others."""
    monkeypatch.setattr(edits, "_watched", {})
    monkeypatch.setattr(edits, "_shells", [])


@pytest.fixture
def module(package: Package) -> ModuleType:
    """A module whose operator is loaded."""
    made = package(DEFINITION.format(name="scale"), scale__cpp=KERNEL.format(name="scale"))
    assert made.scale(torch.ones(1)).item() == 2
    return made


@pytest.fixture
def kernel(module: ModuleType) -> Path:
    return Path(module.__file__ or "").with_name("scale.cpp")


def failing_call(module: ModuleType) -> None:
    with pytest.raises(OpsmithError):
        module.scale(torch.ones(1, 1))


def checked(module: ModuleType) -> None:
    subject_of(module.scale)


def declared_again(module: ModuleType) -> None:
    with pytest.raises(DefinitionError, match="already in use"):
        importlib.reload(module)


@pytest.mark.parametrize("moment", [failing_call, checked, declared_again])
def test_an_edit_is_said_once_at_the_users_line(
    module: ModuleType, kernel: Path, moment: Callable[[ModuleType], None]
) -> None:
    with warnings.catch_warnings(record=True) as nothing:
        moment(module)
    kernel.write_text(EDITED)
    with pytest.warns(RuntimeWarning, match=SAYS) as found:
        moment(module)
    assert nothing == []
    assert {warning.filename for warning in found} <= {__file__, module.__file__}
    with warnings.catch_warnings(record=True) as more:
        moment(module)
        assert module.scale(torch.ones(1)).item() == 2
    assert more == []


def test_a_later_load_says_it(module: ModuleType, kernel: Path, package: Package) -> None:
    other = package(DEFINITION.format(name="other"), other__cpp=KERNEL.format(name="other"))
    kernel.write_text(EDITED)
    with pytest.warns(RuntimeWarning, match=SAYS):
        other.other(torch.ones(1))


def test_a_cell_of_a_notebook_says_it(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = []
    events = SimpleNamespace(register=lambda event, function: cells.append((event, function)))
    shell = SimpleNamespace(events=events)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    made = package(DEFINITION.format(name="scale"), scale__cpp=KERNEL.format(name="scale"))
    made.scale(torch.ones(1))
    ((event, before_cell),) = cells
    assert event == "pre_run_cell"
    before_cell(None)
    Path(made.__file__ or "").with_name("scale.cpp").write_text(EDITED)
    with pytest.warns(RuntimeWarning, match=SAYS):
        before_cell(None)


def test_a_file_that_is_touched_or_gone_is_not_edited(module: ModuleType, kernel: Path) -> None:
    os.utime(kernel, (1, 1))
    warn_of_edits(module.__name__)
    kernel.unlink()
    warn_of_edits(module.__name__)


def test_a_kernel_for_a_device_that_is_not_here_is_not_watched() -> None:
    from opsmith.ops.add2 import add2

    add2.load()
    warn_of_edits()


def test_an_edit_before_the_first_call_is_built(package: Package) -> None:
    made = package(DEFINITION.format(name="scale"), scale__cpp=KERNEL.format(name="scale"))
    Path(made.__file__ or "").with_name("scale.cpp").write_text(EDITED)
    assert made.scale(torch.ones(1)).item() == 3
    warn_of_edits(made.__name__)


def test_calls_look_at_no_file(module: ModuleType, kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise AssertionError("a call looked")

    kernel.write_text(EDITED)
    monkeypatch.setattr(edits._Watched, "is_edited", refuse)
    for _ in range(3):
        assert module.scale(torch.ones(1)).item() == 2
        assert module.scale.torch_op(torch.ones(1)).item() == 2
