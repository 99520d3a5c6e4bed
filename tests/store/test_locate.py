"""The store lies where the user says, else in the user's cache folder."""

from __future__ import annotations

from pathlib import Path

from opsmith.store import Layout, default_root


def test_the_user_chooses_the_root(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(tmp_path / "chosen"))
    assert default_root() == tmp_path / "chosen"


def test_a_relative_root_does_not_move_with_the_process(monkeypatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPSMITH_CACHE_DIR", "chosen")
    assert default_root() == tmp_path / "chosen"


def test_the_default_is_the_users_cache_folder(monkeypatch, tmp_path: Path):
    monkeypatch.delenv("OPSMITH_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_root() == tmp_path / "opsmith"
    assert list(tmp_path.iterdir()) == []


def test_everything_lies_below_the_layouts_version():
    layout = Layout(Path("/root"))
    assert layout.artifact("abcd") == Path("/root/v1/artifacts/ab/abcd")
    assert layout.index("abcd") == Path("/root/v1/index/ab/abcd")
    assert layout.lock("abcd") == Path("/root/v1/locks/abcd.lock")
    assert layout.probes == Path("/root/v1/probes.json")
    assert layout.staging == Path("/root/v1/staging")
