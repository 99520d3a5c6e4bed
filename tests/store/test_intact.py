"""What another machine has just published is found through NFS, and stale handles are opened again."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from opsmith.store import intact, source_key
from opsmith.store.manifest import MANIFEST_NAME
from opsmith.store.staging import move_aside


class Nfs:
    """A client that goes on saying that a folder is not there until it has read the folder above so many times."""

    def __init__(self, monkeypatch, hidden: Path, looks: int) -> None:
        self.hidden, self.looks_left = hidden, looks
        self._patch(monkeypatch, Path, "stat")
        scandir = os.scandir

        def look(path):
            if Path(path) == hidden.parent:
                self.looks_left -= 1
            return scandir(path)

        monkeypatch.setattr(os, "scandir", look)

    def _patch(self, monkeypatch, owner, name):
        really = getattr(owner, name)

        def ask(path, *args, **kwargs):
            if self.looks_left > 0 and Path(path).is_relative_to(self.hidden):
                raise FileNotFoundError(errno.ENOENT, "not seen yet", str(path))
            return really(path, *args, **kwargs)

        monkeypatch.setattr(owner, name, ask)


@pytest.mark.parametrize("looks", [1, 3])
def test_a_record_that_is_seen_before_its_artefact_is_waited_for(store, publish, inputs, monkeypatch, looks):
    published = publish()
    Nfs(monkeypatch, published.folder, looks)
    assert store.find(source_key(inputs)) == published


def test_the_waiting_has_an_end(store, publish, inputs, monkeypatch):
    Nfs(monkeypatch, publish().folder, 10**6)
    start_s = time.monotonic()
    assert store.find(source_key(inputs)) is None
    assert 0.2 < time.monotonic() - start_s < 2


def test_an_old_record_of_an_artefact_that_is_gone_costs_no_time(store, publish, inputs):
    published = publish()
    move_aside(published.folder, store.layout.staging)
    (record,) = store.layout.index(source_key(inputs)).iterdir()
    os.utime(record, (1e9, 1e9))
    start_s = time.monotonic()
    assert store.find(source_key(inputs)) is None
    assert time.monotonic() - start_s < 0.1


@pytest.mark.parametrize(("times", "is_found"), [(1, True), (2, True), (3, False)])
def test_a_stale_handle_is_opened_again(store, publish, inputs, monkeypatch, times, is_found):
    publish()
    left = times
    really = intact.read_regular

    def read(path):
        nonlocal left
        if path.name == MANIFEST_NAME and left:
            left -= 1
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))
        return really(path)

    monkeypatch.setattr("opsmith.store.intact.read_regular", read)
    assert (store.find(source_key(inputs)) is not None) == is_found


def test_a_rename_whose_answer_was_lost_counts_as_done(store, publish, inputs, monkeypatch):
    really = Path.rename

    def rename(path, target):
        really(path, target)
        if store.layout.artifacts in Path(target).parents:
            raise FileNotFoundError(errno.ENOENT, "asked twice, done once", str(path))
        return Path(target)

    monkeypatch.setattr(Path, "rename", rename)
    published = publish()
    assert store.find(source_key(inputs)) == published


def test_a_waiter_looks_anew_at_what_was_not_there_before(store, publish, inputs, monkeypatch, python):
    key = source_key(inputs)
    holder = python(f"""
        import time
        with store.lock({key!r}):
            print("ready", flush=True)
            time.sleep(0.3)
        """)
    assert holder.stdout.readline() == "ready\n"
    seen = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (seen.append(Path(path)), scandir(path))[1])
    with store.lock(key):
        assert store.layout.index(key).parent in seen


def test_without_locks_two_builds_of_one_key_agree(store, publish, inputs, monkeypatch):
    def no_lock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_lock)
    with store.lock(source_key(inputs)), store.lock(source_key(inputs)):
        assert publish(content=b"one") == publish(content=b"two")


@pytest.fixture
def beside(store, inputs, describe) -> Path:
    """Publish an artefact with a file beside its library, and return that file."""
    with store.staging() as staging:
        (staging / "scale.so").write_bytes(b"binary")
        (staging / "below").mkdir()
        (staging / "below" / "types.pyi").write_bytes(b"types")
        artifact = store.publish(source_key(inputs), staging, manifest=describe(staging / "scale.so"), headers={})
    assert artifact.manifest.files.keys() == {"below/types.pyi"}
    return artifact.folder / "below" / "types.pyi"


@pytest.mark.parametrize("content", [b"", b"types", b"other"])
def test_a_file_beside_the_library_is_checked_too(store, inputs, beside, content):
    beside.write_bytes(content)
    assert (store.find(source_key(inputs)) is not None) == (content == b"types")


def test_a_hole_beside_the_library_is_not_read_to_its_end(store, inputs, beside):
    os.truncate(beside, 40 << 30)
    started = time.monotonic()
    assert store.find(source_key(inputs)) is None
    assert time.monotonic() - started < 5
