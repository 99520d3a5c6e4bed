"""The store lies where the user says, else in the user's cache folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from opsmith.errors import ArgumentError
from opsmith.store import Layout, Store, default_root, source_key
from opsmith.store.keyring import config_folder
from opsmith.store.locate import stands_in_for


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


def test_a_home_that_is_not_known_is_an_error_that_names_the_variable(monkeypatch):
    monkeypatch.setenv("OPSMITH_CACHE_DIR", "~nosuchuser/x")
    with pytest.raises(
        ArgumentError, match=r"OPSMITH_CACHE_DIR is '~nosuchuser/x', but ~nosuchuser has no home folder"
    ):
        default_root()


def test_a_user_without_a_home_gets_a_private_folder(monkeypatch, tmp_path):
    for name in ("OPSMITH_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(_):
        raise KeyError("no entry in the list of users")

    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("opsmith.store.locate._stand_ins", {})
    assert default_root() == tmp_path / f"opsmith-{os.geteuid()}"
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: Path("~/.cache/opsmith"))  # of older versions
    assert default_root() == tmp_path / f"opsmith-{os.geteuid()}"
    monkeypatch.delenv("OPSMITH_CONFIG_DIR", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    with pytest.raises(ArgumentError, match="Set OPSMITH_CONFIG_DIR"):
        config_folder()


def test_everything_lies_below_the_layouts_version():
    layout = Layout(Path("/root"))
    assert layout.artifact("abcd") == Path("/root/v1/artifacts/ab/abcd")
    assert layout.index("abcd") == Path("/root/v1/index/ab/abcd")
    assert layout.lock("abcd") == Path("/root/v1/locks/abcd.lock")
    assert layout.probes == Path("/root/v1/probes.json")
    assert layout.staging == Path("/root/v1/staging")


@pytest.fixture
def makeshift(monkeypatch, tmp_path: Path) -> Path:
    """Return the folder that stands in, on a system where only what lies below tmp_path / "temp" can be written."""
    temp = tmp_path / "temp"
    temp.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temp))
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(tmp_path / "root"))
    monkeypatch.setattr("opsmith.store.locate._stand_ins", {})
    monkeypatch.setattr("opsmith.store.artifact_store._warned", set())
    # Not by a mode: root, who may run the tests, can write to any folder.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).is_relative_to(temp))
    return temp / f"opsmith-{os.geteuid()}"


def test_a_home_that_cannot_be_written_is_replaced_by_a_private_folder(makeshift, tmp_path):
    assert default_root() == makeshift
    assert stands_in_for(makeshift) == tmp_path / "root"
    assert not makeshift.exists()


def test_a_home_that_is_no_folder_is_replaced(makeshift, monkeypatch, inputs):
    monkeypatch.setenv("OPSMITH_CACHE_DIR", "/dev/null/opsmith")
    assert default_root() == makeshift
    assert Store(default_root()).find(source_key(inputs)) is None


def test_building_into_the_makeshift_warns_once_and_is_found_again(makeshift, inputs, describe):
    store = Store(default_root())
    with pytest.warns(RuntimeWarning, match=r"cannot write to its store .*root.*OPSMITH_CACHE_DIR"):
        staging = store.staging()
        folder = staging.__enter__()
    (folder / "scale.so").write_bytes(b"binary")
    published = store.publish(source_key(inputs), folder, manifest=describe(folder / "scale.so"), headers={})
    staging.__exit__(None, None, None)
    with store.staging():  # warnings are errors
        pass
    assert Store(default_root()).find(source_key(inputs)) == published
    assert makeshift.stat().st_mode & 0o022 == 0


def test_what_a_store_that_can_only_be_read_holds_is_found(makeshift, publish, inputs):
    published = publish()  # into tmp_path / "root"
    assert Store(default_root()).root == makeshift
    assert Store(default_root()).find(source_key(inputs)) == published
