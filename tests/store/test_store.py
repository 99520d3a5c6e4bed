"""An artefact is found exactly while its inputs and headers are what they were, and its bytes are whole."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from opsmith.errors import StoreError
from opsmith.store import Store, digest_headers, source_key
from opsmith.store.manifest import MANIFEST_NAME


def snapshot(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_what_is_published_is_found(store, publish, inputs):
    published = publish(content=b"\x7fELF")
    assert store.find(source_key(inputs)) == published
    assert published.library.read_bytes() == b"\x7fELF"
    assert list(store.artifacts()) == [published]


def test_looking_creates_nothing(store, inputs):
    assert store.find(source_key(inputs)) is None
    assert not store.root.exists()


def test_another_input_is_a_miss(store, publish, inputs):
    publish()
    assert store.find(source_key({**inputs, "flags": "other"})) is None


def test_a_header_decides(store, publish, inputs, tmp_path):
    header = tmp_path / "x.h"
    header.write_text("1")
    first = publish(header, content=b"first")
    header.write_text("2")
    assert store.find(source_key(inputs)) is None
    second = publish(header, content=b"second")
    assert store.find(source_key(inputs)) == second
    header.write_text("1")
    assert store.find(source_key(inputs)) == first
    header.unlink()
    assert store.find(source_key(inputs)) is None


def test_touching_a_header_changes_nothing(store, publish, inputs, tmp_path):
    header = tmp_path / "x.h"
    header.write_text("1")
    published = publish(header)
    header.touch()
    assert store.find(source_key(inputs)) == published


def test_the_record_with_more_headers_wins(store, publish, inputs, tmp_path):
    always, optional = tmp_path / "always.h", tmp_path / "optional.h"
    always.touch()
    publish(always, content=b"without")
    optional.touch()
    published = publish(always, optional, content=b"with")
    assert store.find(source_key(inputs)) == published


def test_a_checkout_is_judged_by_its_own_headers(store, publish, inputs, tmp_path):
    checkouts = {name: tmp_path / name for name in ("one", "same", "other")}
    for name, folder in checkouts.items():
        folder.mkdir()
        (folder / "x.h").write_text("other" if name == "other" else "equal")
    published = publish(checkouts["one"] / "x.h", roots={"source": checkouts["one"]})
    found = {name: store.find(source_key(inputs), roots={"source": folder}) for name, folder in checkouts.items()}
    assert found == {"one": published, "same": published, "other": None}
    assert store.find(source_key(inputs)) is None  # nobody said where <source> is


@pytest.mark.parametrize("content", [b"", b"binar", b"binarY", b"binary!"])
def test_a_damaged_binary_is_not_found_and_is_replaced(store, publish, inputs, content):
    library = publish(content=b"binary").library
    library.write_bytes(content)
    assert store.find(source_key(inputs)) is None
    assert publish(content=b"binary").library.read_bytes() == b"binary"
    assert store.find(source_key(inputs)) is not None
    assert list(store.layout.staging.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", '{"format": 99}'])
def test_a_damaged_manifest_is_not_found_and_is_replaced(store, publish, inputs, text):
    (publish().folder / MANIFEST_NAME).write_text(text)
    assert store.find(source_key(inputs)) is None
    assert list(store.artifacts()) == []
    published = publish()
    assert store.find(source_key(inputs)) == published


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 2, "artifact": "a", "headers": []}'])
def test_a_damaged_record_is_as_good_as_none(store, publish, inputs, text):
    publish()
    (record,) = store.layout.index(source_key(inputs)).iterdir()
    record.write_text(text)
    assert store.find(source_key(inputs)) is None
    published = publish()
    assert store.find(source_key(inputs)) == published


def test_an_artefact_that_was_removed_is_not_found(store, publish, inputs):
    published = publish()
    store.remove(published)
    store.remove(published)
    assert store.find(source_key(inputs)) is None
    assert list(store.artifacts()) == []
    assert list(store.layout.staging.iterdir()) == []


def test_a_missing_folder_of_artefacts_is_a_miss(store, publish, inputs):
    publish()
    shutil.rmtree(store.layout.artifacts)
    assert store.find(source_key(inputs)) is None


def test_the_second_to_publish_takes_the_first_ones_artefact(store, publish):
    first = publish(content=b"first")
    assert publish(content=b"second") == first
    assert first.library.read_bytes() == b"first"


def test_only_the_published_folder_is_kept(store, inputs, describe):
    with store.staging() as staging:
        (staging / "scale.o").touch()
        out = staging / "out"
        out.mkdir()
        (out / "scale.so").write_bytes(b"binary")
        artifact = store.publish(source_key(inputs), out, manifest=describe(out / "scale.so"), headers={})
    assert {path.name for path in artifact.folder.iterdir()} == {"scale.so", MANIFEST_NAME}
    assert list(store.layout.staging.iterdir()) == []


def test_a_generated_header_does_not_hide_the_artefact(store, inputs, describe):
    with store.staging() as staging:
        (staging / "scale.so").write_bytes(b"binary")
        (staging / "generated.h").touch()
        headers = digest_headers([staging / "generated.h"])
        artifact = store.publish(source_key(inputs), staging, manifest=describe(staging / "scale.so"), headers=headers)
    assert store.find(source_key(inputs)) == artifact


def test_a_failed_build_leaves_nothing(store):
    with pytest.raises(ZeroDivisionError), store.staging() as staging:
        (staging / "scale.o").touch()
        1 / 0  # noqa: B018
    assert snapshot(store.root) == []


def test_a_manifest_of_other_inputs_is_refused(store, inputs, describe):
    with store.staging() as staging:
        (staging / "scale.so").touch()
        with pytest.raises(ValueError, match="inputs"):
            store.publish("0" * 64, staging, manifest=describe(staging / "scale.so"), headers={})


def test_a_binary_that_is_not_the_described_one_is_refused(store, inputs, describe):
    with store.staging() as staging:
        library = staging / "scale.so"
        library.write_bytes(b"before")
        manifest = describe(library)
        library.write_bytes(b"after!")
        with pytest.raises(StoreError, match="changed"):
            store.publish(source_key(inputs), staging, manifest=manifest, headers={})
    assert snapshot(store.root) == []


def test_a_store_can_be_moved(store, publish, inputs, tmp_path):
    publish()
    moved = Store(store.root.rename(tmp_path / "moved"))
    found = moved.find(source_key(inputs))
    assert found is not None
    assert found.library.is_relative_to(moved.root)


def test_a_warm_lookup_takes_less_than_two_milliseconds(store, publish, inputs, tmp_path):
    headers = [tmp_path / f"{number}.h" for number in range(5)]
    for header in headers:
        header.write_bytes(b"x" * 10_000)
    publish(*headers, content=bytes(100_000))
    key = source_key(inputs)

    def once_ms() -> float:
        start_s = time.perf_counter()
        assert store.find(key) is not None
        return (time.perf_counter() - start_s) * 1e3

    assert min(once_ms() for _ in range(50)) < 2
