"""A store that others can write to is refused, and nobody else can write to what opsmith makes."""

from __future__ import annotations

import grp
import os
import pwd
import struct

import pytest

from opsmith.errors import StoreError
from opsmith.store import safety, source_key
from opsmith.store.safety import find_danger, is_private, make_folder

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


@pytest.mark.parametrize(
    "place", ["", "v1", "v1/artifacts", "v1/index", "v1/staging", "v1/locks", "v1/shortcuts", "v1/bridge"]
)
def test_a_folder_of_the_store_that_everybody_can_write_to_is_refused(store, publish, inputs, place):
    publish()
    folder = store.root / place
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    with pytest.raises(StoreError, match=f"everyone can write to {folder} .*chmod go-w {folder}"):
        store.find(source_key(inputs))
    with pytest.raises(StoreError, match="everyone"), store.staging():
        pytest.fail("a build has begun")
    with pytest.raises(StoreError, match="everyone"), store.lock(source_key(inputs)):
        pytest.fail("a lock is held")
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


MODES = {"user": 0x02, "owning group": 0x04, "group": 0x08}


def set_acl(path, kind, number, permissions, mask=7):
    """Give a folder an access control list with one entry besides those that each has."""
    owning = permissions if kind == "owning group" else 5
    entries = [(0x01, 7, -1), (0x04, owning, -1), (0x10, mask, -1), (0x20, 5, -1)]
    if kind != "owning group":
        entries.append((MODES[kind], permissions, number))
    data = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in sorted(entries))
    try:
        os.setxattr(path, "system.posix_acl_access", data)
    except (OSError, AttributeError):
        pytest.skip("this file system has no access control lists")


@pytest.mark.parametrize(
    ("kind", "number", "permissions", "mask", "who"),
    [
        ("user", NOBODY, 7, 7, "nobody"),
        ("user", NOBODY, 5, 7, None),
        ("user", NOBODY, 7, 5, None),
        ("user", 0, 7, 7, None),
        ("group", LAB, 7, 7, f"the group {LAB}"),
        ("group", LAB, 7, 5, None),
        ("group", 0, 7, 7, None),
        ("owning group", None, 7, 7, None),
    ],
)
def test_whom_an_access_control_list_lets_write_counts(
    store, publish, inputs, monkeypatch, kind, number, permissions, mask, who
):
    publish()
    monkeypatch.setattr(safety, "_is_private_group", lambda gid: gid != LAB)
    set_acl(store.root, kind, number, permissions, mask)
    if who is None:
        assert store.find(source_key(inputs)) is not None
        return
    with pytest.raises(StoreError, match=f"{who} can write to {store.root} .*chmod g-w"):
        store.find(source_key(inputs))
    monkeypatch.setenv("OPSMITH_CACHE_TRUST", f"{kind}:{who.split()[-1]}")
    assert store.find(source_key(inputs)) is not None
    monkeypatch.delenv("OPSMITH_CACHE_TRUST")
    store.root.chmod(0o755)  # what the message says
    assert store.find(source_key(inputs)) is not None


def test_a_default_list_gives_nobody_a_part_in_what_is_made(store, publish, inputs):
    store.root.mkdir()
    entries = [(0x01, 7, -1), (0x02, 7, NOBODY), (0x04, 7, -1), (0x10, 7, -1), (0x20, 7, -1)]
    data = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(store.root, "system.posix_acl_default", data)
    except (OSError, AttributeError):
        pytest.skip("this file system has no access control lists")
    with store.lock(source_key(inputs)):
        publish()
    assert [path for path in store.root.rglob("*") if not is_private(path)] == []
    assert store.find(source_key(inputs)) is not None


@pytest.mark.parametrize(("others", "is_private_group"), [([], True), ([4000], False)])
def test_a_group_has_those_whose_primary_group_it_is(monkeypatch, others, is_private_group):
    me = os.geteuid()

    def account(uid, name):
        return pwd.struct_passwd((name, "x", uid, LAB, "", "/", "/bin/sh"))

    known = [account(me, "ann"), *(account(uid, f"user{uid}") for uid in others)]
    monkeypatch.setattr("pwd.getpwuid", lambda uid: next(item for item in known if item.pw_uid == uid))
    monkeypatch.setattr("pwd.getpwall", lambda: known)
    monkeypatch.setattr("grp.getgrgid", lambda gid: grp.struct_group(("ann", "x", gid, [])))
    safety._is_private_group.cache_clear()
    assert safety._is_private_group(LAB) == is_private_group
    safety._is_private_group.cache_clear()


def test_locks_notes_and_stubs_are_nobody_elses_either(store, umask, monkeypatch):
    import torch

    from opsmith._background import start_in_background
    from opsmith.build.editor import publish_entries
    from opsmith.build.typings import add_typings, typings_folder

    umask(0)
    monkeypatch.setattr("os.posix_spawn", lambda *_, **__: None)
    start_in_background("nothing", lock=store.layout.base / "bridge" / "x.lock")
    publish_entries([], store.root.parent / "project", store)
    add_typings({"demo": [torch._C.parse_schema("demo::f(Tensor x) -> Tensor")]}, typings_folder(store))
    modes = {path: path.stat().st_mode & 0o022 for path in [store.root, *store.root.rglob("*")]}
    assert len(modes) > 8
    assert {path for path, mode in modes.items() if mode} == set()
