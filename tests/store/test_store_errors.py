"""A store that cannot be written says which, why, and what to do; one that can only be read is still read."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from opsmith.errors import StoreError
from opsmith.store import Store, source_key


def failing(error: int):
    def fail(*_, **__):
        raise OSError(error, os.strerror(error), "/some/file")

    return fail


def test_a_file_in_the_place_of_the_root(tmp_path: Path):
    root = tmp_path / "root"
    root.touch()
    store = Store(root)
    assert store.find("0" * 64) is None
    with pytest.raises(StoreError, match=r"root: a file is in the place of .*OPSMITH_CACHE_DIR"), store.staging():
        pytest.fail("no staging folder can be made")
    with pytest.raises(StoreError, match="OPSMITH_CACHE_DIR"), store.lock("0" * 64):
        pytest.fail("no lock can be made")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errno.ENOSPC, r"the disk is full \(at /some/file\)\. Free some space"),
        (errno.EDQUOT, "the disk quota is used up.*Free some space"),
        (errno.EROFS, "the file system is read-only.*OPSMITH_CACHE_DIR"),
        (errno.EACCES, "permission denied.*OPSMITH_CACHE_DIR"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_the_reason_is_named(store, publish, monkeypatch, error, reason):
    monkeypatch.setattr(os, "fsync", failing(error))
    with pytest.raises(StoreError, match=reason) as caught:
        publish()
    assert str(store.root) in str(caught.value)
    assert [path for path in store.root.rglob("*") if path.is_file()] == []


def test_an_error_of_the_build_itself_is_not_the_stores(store):
    with pytest.raises(FileNotFoundError), store.staging() as staging:
        (staging / "missing").read_text()


def test_a_read_only_store_is_read(store, publish, inputs, monkeypatch):
    published = publish()
    for name in ("mkdir", "rename", "replace", "unlink"):
        monkeypatch.setattr(Path, name, failing(errno.EROFS))
    assert store.find(source_key(inputs)) == published
    with pytest.raises(StoreError, match="read-only"):
        publish()


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_used_without(store, monkeypatch, error):
    monkeypatch.setattr("fcntl.flock", failing(error))
    key = "0" * 64
    # Held twice: what a killed process leaves must keep nobody waiting.
    with store.lock(key) as first, store.lock(key, on_wait=lambda _: pytest.fail("waited")) as second:
        assert (first, second) == (False, False)
