"""A note gives what a plan would find, and nothing where something that decides it is another now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from opsmith.build.notes import find_noted, write_note
from opsmith.errors import StoreError
from opsmith.store import Artifact, Manifest, Store, digest, digest_file, source_key
from opsmith.toolchain import processor


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def publish(store: Store) -> Callable[..., Artifact]:
    """Publish a binary that was made from these inputs."""

    def do(**inputs: str) -> Artifact:
        with store.staging() as staging:
            (staging / "x.so").write_bytes(b"binary")
            manifest = Manifest.describe(
                staging / "x.so",
                name="x",
                inputs=inputs,
                devices=("cpu",),
                archs=(),
                toolchain={},
                torch_version=None,
                opsmith_version="0",
            )
            return store.publish(source_key(inputs), staging, manifest=manifest, headers={})

    return do


@pytest.mark.parametrize("is_native", [True, False])
def test_native_code_is_not_given_to_another_processor(store, publish, monkeypatch, is_native):
    artifact = publish(**({"processor": digest(processor.processor_identity())} if is_native else {"flags": "1"}))
    write_note(store, ["request"], [], artifact, {})
    assert find_noted(store, ["request"], []) == artifact
    monkeypatch.setattr(processor, "processor_identity", lambda: "another")
    assert find_noted(store, ["request"], []) == (None if is_native else artifact)


def test_a_linked_file_that_changed_or_is_not_the_one_any_more_is_noticed(store, publish, tmp_path):
    library, other = tmp_path / "libv.a", tmp_path / "libv.so"
    for file in (library, other):
        file.write_bytes(b"1")
    artifact = publish(**{f"linked {library}": digest_file(library)})
    write_note(store, ["request"], [], artifact, {}, linked=[library])
    assert find_noted(store, ["request"], [], linked=[library]) == artifact
    assert find_noted(store, ["request"], [], linked=[other]) is None
    assert find_noted(store, ["request"], [], linked=[]) is None
    library.write_bytes(b"2")
    assert find_noted(store, ["request"], [], linked=[library]) is None
    library.write_bytes(b"1")
    assert find_noted(store, ["request"], [], linked=[library]) == artifact
    library.unlink()
    assert find_noted(store, ["request"], [], linked=[library]) is None


@pytest.mark.parametrize(("age_s", "is_read"), [(60, False), (0, True), (-3600, True)])
def test_a_linked_file_is_read_again_only_where_its_times_could_be_those_of_two_versions(
    store, publish, tmp_path, monkeypatch, age_s, is_read
):
    library = tmp_path / "libv.a"
    library.write_bytes(b"1")
    artifact = publish(**{f"linked {library}": digest_file(library)})
    now_ns = library.stat().st_ctime_ns + age_s * 1_000_000_000
    with monkeypatch.context() as later:
        later.setattr("opsmith.build.notes.time.time_ns", lambda: now_ns)
        write_note(store, ["request"], [], artifact, {}, linked=[library])
    read = []
    monkeypatch.setattr("opsmith.build.notes.digest_file", lambda file: read.append(file) or digest_file(file))
    assert find_noted(store, ["request"], [], linked=[library]) == artifact
    assert read == ([library] if is_read else [])


def test_a_file_that_changed_since_it_was_linked_leaves_no_note(store, publish, tmp_path):
    library = tmp_path / "libv.a"
    library.write_bytes(b"1")
    artifact = publish(**{f"linked {library}": digest_file(library)})
    library.write_bytes(b"2")
    write_note(store, ["request"], [], artifact, {}, linked=[library])
    assert find_noted(store, ["request"], [], linked=[library]) is None


def test_a_note_in_a_store_that_others_can_write_to_is_refused(store, publish):
    write_note(store, ["request"], [], publish(flags="1"), {})
    store.root.chmod(0o777)
    with pytest.raises(StoreError, match="everyone can write"):
        find_noted(store, ["request"], [])
