"""Python.h is found, or its package is named."""

from __future__ import annotations

import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES

import pytest

from opsmith.errors import ToolchainError
from opsmith.toolchain import find_python_headers


def test_the_headers_of_this_python(monkeypatch, tmp_path):
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    headers = find_python_headers()
    assert headers.include_dirs == (tmp_path,)
    assert headers.extension_suffix in EXTENSION_SUFFIXES
    assert headers.abi in headers.extension_suffix


def test_headers_that_are_not_installed(monkeypatch, tmp_path):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(ToolchainError, match=r"Python\.h of Python 3\.\d+ is not installed.*-dev`.*conda"):
        find_python_headers()
