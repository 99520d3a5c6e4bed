"""The store stays within its size: what was used least recently goes, and nothing that somebody may be about to load."""

from __future__ import annotations

import os
import time

import pytest

from opsmith.errors import ArgumentError
from opsmith.store import source_key
from opsmith.store.eviction import list_entries, prune, size_limit
from opsmith.store.manifest import MANIFEST_NAME
from opsmith.store.usage import GRACE_S, last_used_s

HOUR_S = 3600.0


def use(artifact, hours_ago: float) -> None:
    then_s = time.time() - hours_ago * HOUR_S
    os.utime(artifact.folder / MANIFEST_NAME, (then_s, then_s))


@pytest.fixture
def publish_old(publish):
    """Publish artefacts that were last used so many hours ago."""

    def do(*hours_ago: float, size: int = 100_000):
        made = [publish(content=os.urandom(size), inputs={"number": str(number)}) for number in range(len(hours_ago))]
        for artifact, hours in zip(made, hours_ago, strict=True):
            use(artifact, hours)
        return made

    return do


def test_the_least_recently_used_goes_first(store, publish_old):
    first, second, third = publish_old(2, 4, 3)
    pruned = prune(store.layout, max_bytes=250_000)
    assert [entry.folder for entry in pruned.removed] == [second.folder]
    assert {artifact.key for artifact in store.artifacts()} == {first.key, third.key}
    assert pruned.left_bytes == sum(entry.size_bytes for entry in list_entries(store.layout))


def test_what_was_not_used_for_long_goes_by_its_age(store, publish_old):
    first, second = publish_old(2, 40)
    pruned = prune(store.layout, older_than_s=24 * HOUR_S)
    assert [entry.folder for entry in pruned.removed] == [second.folder]
    assert store.find(source_key({"number": "0"})) == first


def test_what_is_in_use_stays_unless_it_is_forced_out(store, publish_old):
    publish_old(0, 0)
    pruned = prune(store.layout, max_bytes=0)
    assert (len(pruned.removed), len(pruned.spared)) == (0, 2)
    assert prune(store.layout, max_bytes=0, force=True).left_bytes == 0


def test_a_use_is_noted_at_most_every_five_minutes(store, publish_old):
    (artifact,) = publish_old(2)
    assert store.find(source_key({"number": "0"})) == artifact
    noted = last_used_s(artifact.folder)
    assert time.time() - noted < 5
    use(artifact, 4 / 60)
    before = last_used_s(artifact.folder)
    assert store.find(source_key({"number": "0"})) == artifact
    assert last_used_s(artifact.folder) == before
    assert before > time.time() - GRACE_S / 2, "what was noted so long ago must be far from being removed"


def test_a_use_that_cannot_be_noted_is_none_the_worse(store, publish_old, monkeypatch):
    (artifact,) = publish_old(2)

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "utime", refuse)
    assert store.find(source_key({"number": "0"})) == artifact


def test_a_publication_beyond_the_limit_removes_the_oldest(store, publish, publish_old, monkeypatch):
    monkeypatch.setenv("OPSMITH_CACHE_SIZE", "500 KB")
    old = publish_old(5, 4, 3, 2)
    kept = publish(content=bytes(150_000), inputs={"number": "new"})
    # Down to 80 % of the limit, so that the next publications do not look again.
    assert {artifact.key for artifact in store.artifacts()} == {artifact.key for artifact in (*old[2:], kept)}


def test_the_new_artefact_stays_even_where_it_is_too_large(store, publish, monkeypatch):
    monkeypatch.setenv("OPSMITH_CACHE_SIZE", "1 KB")
    published = publish(content=bytes(10_000))
    assert store.find(source_key(published.manifest.inputs)) == published


def test_the_store_is_not_looked_through_at_each_publication(store, publish, monkeypatch):
    publish(inputs={"number": "first"})
    monkeypatch.setattr("opsmith.store.eviction.list_entries", lambda _: pytest.fail("looked through"))
    for number in range(20):
        publish(inputs={"number": str(number)})
    assert len(store.layout.usage.read_text().split()) == 21


@pytest.mark.parametrize("damage", ["gone", "x\n", "1\n" * 300])
def test_a_lost_or_long_count_is_taken_anew(store, publish, damage):
    publish(inputs={"number": "first"})
    store.layout.usage.unlink() if damage == "gone" else store.layout.usage.write_text(damage)
    publish(inputs={"number": "second"})
    (total,) = map(int, store.layout.usage.read_text().split())
    assert total == sum(entry.size_bytes for entry in list_entries(store.layout))


@pytest.mark.parametrize(
    ("text", "limit"), [("", 5 * 10**9), ("2 GiB", 2 * 2**30), ("300M", 300 * 10**6), ("0", None), ("none", None)]
)
def test_the_limit_is_read_from_the_environment(monkeypatch, text, limit):
    monkeypatch.setenv("OPSMITH_CACHE_SIZE", text)
    assert size_limit() == limit


def test_a_limit_that_is_no_size_says_so_and_fails_no_build(publish, monkeypatch):
    monkeypatch.setenv("OPSMITH_CACHE_SIZE", "large")
    with pytest.raises(ArgumentError, match=r"OPSMITH_CACHE_SIZE is 'large'; .*'5 GB'"):
        size_limit()
    with pytest.warns(RuntimeWarning, match="store .* is not kept within its size limit: OPSMITH_CACHE_SIZE is"):
        assert publish().library.is_file()


def test_what_leads_nowhere_is_swept(store, publish_old):
    kept, gone = publish_old(0, 40)
    with store.lock("a" * 64), store.lock("b" * 64):
        pass
    two_days_ago_s = time.time() - 48 * HOUR_S
    layout = store.layout
    shortcuts = layout.base / "shortcuts"
    shortcuts.mkdir()
    for name, key in (("kept", source_key({"number": "0"})), ("gone", source_key({"number": "1"}))):
        (shortcuts / f"{name}.json").write_text(f'{{"source_key": "{key}"}}')
    old = [layout.lock("a" * 64), *shortcuts.iterdir(), *layout.records.glob("*/*/*.json")]
    for path in old:
        os.utime(path, (two_days_ago_s, two_days_ago_s))
    notes = [layout.base / name for name in ("editor/one/x.cpp", "editor/two/x.cpp", "whole-headers/one")]
    notes += [layout.texts / name / "main.cpp" for name in ("used", "old")]
    for path, days in zip(notes, (31, 29, 31, 360, 370), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (time.time() - days * 24 * HOUR_S,) * 2)
    prune(store.layout, older_than_s=24 * HOUR_S)
    assert [path.stem for path in layout.records.glob("*/*/*.json")] == [kept.key]
    assert [path.stem for path in layout.locks.iterdir()] == ["b" * 64]
    assert [path.stem for path in shortcuts.iterdir()] == ["kept"]
    assert [path.name for path in (layout.base / "editor").iterdir()] == ["two"]
    assert list((layout.base / "whole-headers").iterdir()) == []
    assert [path.name for path in layout.texts.iterdir()] == ["used"]
    assert gone.key not in {path.name for path in layout.artifacts.glob("*/*")}


def test_processes_that_prune_and_publish_at_once_lose_nothing_in_use(store, python, publish_old, inputs):
    publish_old(*range(2, 12), size=1000)
    code = """
    import os
    from opsmith.store.eviction import prune
    for round in range(10):
        prune(store.layout, max_bytes=0)
        inputs = {"number": f"{os.getpid()} {round}"}
        with store.staging() as staging:
            library = staging / "scale.so"
            library.write_bytes(os.urandom(1000))
            manifest = Manifest.describe(
                library, name="scale", inputs=inputs, devices=(), archs=(), toolchain={}, torch_version=None,
                opsmith_version="0",
            )
            published = store.publish(source_key(inputs), staging, manifest=manifest, headers={})
        assert store.find(source_key(inputs)) == published
    """
    processes = [python(code.replace("{{", "{").replace("}}", "}")) for _ in range(4)]
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert len(list(store.artifacts())) == 40


@pytest.mark.parametrize("damage", ["a device", "a hole"])
def test_a_count_that_has_no_end_is_taken_anew(store, publish, damage):
    publish(inputs={"number": "first"})
    usage = store.layout.usage
    if damage == "a device":
        usage.unlink()
        usage.symlink_to("/dev/zero")
    else:
        os.truncate(usage, 40 << 30)
    publish(inputs={"number": "second"})
    assert not usage.is_symlink()
    assert len(usage.read_text().split()) == 1
