"""Paths in environment variables may begin with a home, and an error names the variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsmith import _env
from opsmith.errors import ArgumentError, MissingToolkitError, StoreError
from opsmith.store import keyring
from opsmith.store.transport import open_transport
from opsmith.toolchain.nvcc_search import chosen_nvcc
from opsmith.toolchain.search import resolve_program


def test_a_path_is_absolute_and_has_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for value, path in (("~/x", tmp_path / "x"), ("x", tmp_path / "x"), ("/x", Path("/x")), ("", None)):
        monkeypatch.setenv("OPSMITH_CONFIG_DIR", value)
        assert _env.read_path("OPSMITH_CONFIG_DIR") == path


def test_a_home_that_is_not_known_is_an_error_of_opsmith(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPSMITH_CONFIG_DIR", "CUDA_HOME"):
        monkeypatch.setenv(name, "~nosuchuser/x")
    words = "is '~nosuchuser/x', but ~nosuchuser has no home folder on this machine"
    with pytest.raises(ArgumentError, match=f"^OPSMITH_CONFIG_DIR {words}"):
        keyring.config_folder()
    with pytest.raises(MissingToolkitError, match=f"^CUDA_HOME {words}"):
        chosen_nvcc()
    with pytest.raises(StoreError, match=f"^OPSMITH_STORE {words}"):
        open_transport("~nosuchuser/x")
    assert resolve_program("~nosuchuser/bin/c++") is None
