"""What the runtime's tests share: the operators in `kit/`, and user packages made on the spot."""

from __future__ import annotations

import importlib
import itertools
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

# `from kit import shapes`: the operators of many tests, one library for each file of kit/.
sys.path.append(str(Path(__file__).parent))

_HEAD = """
import torch
from jaxtyping import Float, Float32, Int, Int64
from torch import Tensor
import opsmith
"""
_numbers = itertools.count()


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Callable[..., ModuleType]]:
    """Write a user's package (its `__init__.py` after the usual imports, and other files) and import it."""
    names: list[str] = []

    def do(text: str, /, **files: str) -> ModuleType:
        name = f"user{next(_numbers)}"
        folder = tmp_path / name
        folder.mkdir()
        for file, content in files.items():
            (folder / file.replace("__", ".")).write_text(textwrap.dedent(content))
        (folder / "__init__.py").write_text(_HEAD + textwrap.dedent(text))
        names.append(name)
        return importlib.import_module(name)

    sys.path.insert(0, str(tmp_path))
    yield do
    sys.path.remove(str(tmp_path))
    for name in names:
        sys.modules.pop(name, None)
