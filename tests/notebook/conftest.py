"""What the tests of notebooks share: a shell of IPython's in this process, which leaves the process as it was."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

# `from planted import small`: reports of benchmarks with figures that are made up.
sys.path.append(str(Path(__file__).parents[1] / "benchmark"))

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Runs a cell and returns what IPython says of it, and all that it printed or displayed.
Run = Callable[..., tuple[Any, str]]


@pytest.fixture(scope="module")
def shell() -> Iterator[Any]:
    """A shell that has opsmith's extension."""
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.warn_venv = False  # another one may be active where the tests are started
    # IPython puts names into `builtins`, and a module of the notebook's into sys.modules.
    names = {name: getattr(builtins, name, None) for name in ("__IPYTHON__", "get_ipython", "display")}
    hooks, display_hook = sys.excepthook, sys.displayhook
    shells = interactive.InteractiveShell
    made = shells.instance(config=config, user_module=ModuleType("notebook_of_tests"))
    made.run_line_magic("load_ext", "opsmith")
    yield made
    made.restore_sys_module_state()
    shells.clear_instance()
    sys.modules.pop("notebook_of_tests", None)
    sys.excepthook, sys.displayhook = hooks, display_hook
    for name, value in names.items():
        if value is not None:
            setattr(builtins, name, value)
        elif hasattr(builtins, name):
            delattr(builtins, name)


@pytest.fixture
def run(shell: Any, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a `%%opsmith` cell, or any cell with `magic=None`."""

    def do(text: str, options: str = "", *, magic: str | None = "%%opsmith") -> tuple[Any, str]:
        capsys.readouterr()
        cell = text if magic is None else f"{magic} {options}\n{text}"
        result = shell.run_cell(cell, store_history=True)
        return result, _COLOUR.sub("", capsys.readouterr().out)

    return do
