"""A store that others can write to is refused, and nobody else can write to what opsmith makes."""

from __future__ import annotations

import os

import pytest

from opsmith.errors import StoreError
from opsmith.store import source_key
from opsmith.store.safety import find_danger, make_folder

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root can give files to other users")
NOBODY = 65534
LAB = 54321  # a group that nobody is in, and that is no user's own


@pytest.fixture
def umask():
    """Set the umask for a test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize("place", ["", "v1", "v1/artifacts", "v1/index"])
def test_a_folder_of_the_store_that_everybody_can_write_to_is_refused(store, publish, inputs, place):
    publish()
    folder = store.root / place
    folder.chmod(0o777)
    with pytest.raises(StoreError, match=f"everyone can write to {folder} .*chmod go-w {folder}"):
        store.find(source_key(inputs))
    with pytest.raises(StoreError, match="everyone"), store.staging():
        pytest.fail("a build has begun")
    folder.chmod(0o755)
    assert store.find(source_key(inputs)) is not None


def test_a_sticky_store_is_refused_and_a_sticky_folder_above_is_not(store, publish, inputs):
    publish()
    store.root.parent.chmod(0o1777)
    assert store.find(source_key(inputs)) is not None
    store.root.chmod(0o1777)
    with pytest.raises(StoreError, match="everyone"):
        store.find(source_key(inputs))


def test_a_folder_above_in_which_others_can_put_another_store_is_refused(store, publish, inputs):
    publish()
    store.root.parent.chmod(0o777)
    with pytest.raises(StoreError, match=f"{store.root}: everyone can write to {store.root.parent} "):
        store.find(source_key(inputs))


def test_the_folders_behind_a_link_count_as_well(publish, store, inputs, tmp_path):
    publish()
    real = tmp_path / "open" / "root"
    real.parent.mkdir()
    store.root.rename(real)
    store.root.symlink_to(real)
    assert store.find(source_key(inputs)) is not None
    real.parent.chmod(0o777)
    with pytest.raises(StoreError, match=r"everyone can write to .*open"):
        store.find(source_key(inputs))


def test_a_store_that_is_not_there_yet_is_judged_by_what_is_above(store, tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(StoreError, match="everyone"):
        store.find("0" * 64)
    assert not store.root.exists()


@needs_root
def test_another_users_store_is_refused(store, publish, inputs, monkeypatch):
    publish()
    os.chown(store.root, NOBODY, -1)
    with pytest.raises(StoreError, match=r"root belongs to nobody .*OPSMITH_CACHE_TRUST=user:nobody"):
        store.find(source_key(inputs))
    monkeypatch.setenv("OPSMITH_CACHE_TRUST", "user:nobody")
    assert store.find(source_key(inputs)) is not None


@needs_root
def test_a_group_that_can_write_is_refused_until_it_is_trusted(store, publish, inputs, monkeypatch):
    publish()
    os.chown(store.root, -1, LAB)
    store.root.chmod(0o2775)
    with pytest.raises(StoreError, match=f"the group {LAB} can write .*OPSMITH_CACHE_TRUST=group:{LAB}"):
        store.find(source_key(inputs))
    monkeypatch.setenv("OPSMITH_CACHE_TRUST", f"user:pi, group:{LAB}")
    assert store.find(source_key(inputs)) is not None


@needs_root
def test_a_private_group_is_as_good_as_none(store, publish, inputs, monkeypatch):
    publish()
    os.chown(store.root, -1, LAB)
    store.root.chmod(0o775)
    monkeypatch.setattr("opsmith.store.safety._is_private_group", lambda gid: gid == LAB)
    assert store.find(source_key(inputs)) is not None


def test_everybody_can_be_trusted(store, publish, inputs, monkeypatch):
    publish()
    store.root.chmod(0o777)
    monkeypatch.setenv("OPSMITH_CACHE_TRUST", "everyone")
    assert store.find(source_key(inputs)) is not None


@pytest.mark.parametrize("place", ["library", "folder"])
def test_an_artefact_that_others_can_write_to_is_built_anew(store, publish, inputs, place):
    published = publish(content=b"mine")
    getattr(published, place).chmod(0o777)
    assert store.find(source_key(inputs)) is None
    assert publish(content=b"mine again").library.read_bytes() == b"mine again"


def test_nobody_else_can_write_to_what_is_made_whatever_the_umask(store, inputs, describe, umask):
    umask(0)
    with store.staging() as staging:
        assert staging.stat().st_mode & 0o077 == 0
        out = staging / "out"
        (out / "below").mkdir(parents=True)
        (out / "below" / "types.pyi").touch()
        (out / "scale.so").write_bytes(b"binary")
        with store.lock("0" * 64):
            store.publish(source_key(inputs), out, manifest=describe(out / "scale.so"), headers={})
    modes = {path: path.stat().st_mode & 0o022 for path in [store.root, *store.root.rglob("*")]}
    assert {path for path, mode in modes.items() if mode} == set()
    assert store.find(source_key(inputs)) is not None


@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o700), (0o022, 0o755)])
def test_a_strict_umask_is_kept(store, publish, umask, mask, mode):
    umask(mask)
    assert publish().folder.stat().st_mode & 0o777 == mode


def test_the_folders_above_the_store_are_made_safely_too(tmp_path, umask):
    umask(0)
    make_folder(tmp_path / "a" / "b" / "c")
    assert find_danger(tmp_path / "a" / "b" / "c") is None


@needs_root
def test_a_user_reads_what_root_has_stored_and_refuses_what_another_user_has(store, publish, inputs, tmp_path):
    publish()
    for folder in [tmp_path, *tmp_path.parents]:
        if folder.stat().st_mode & 0o005 != 0o005:
            folder.chmod(folder.stat().st_mode | 0o005)  # below pytest's own, which is 0700
    assert as_nobody(lambda: store.find(source_key(inputs)) is not None) == "True"
    os.chown(store.layout.artifacts, 1, -1)
    assert "artifacts belongs to" in as_nobody(lambda: store.find(source_key(inputs)))


def as_nobody(action) -> str:
    """Return what an action, or its StoreError, says in a process that is really another user's."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            answer = str(action())
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer
