"""An archive brings artefacts to another store, whole and verified, and nothing else."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest

from opsmith.errors import StoreError
from opsmith.store import Store, source_key
from opsmith.store import archive as archives
from opsmith.store.archive import export_archive, import_archive
from opsmith.store.machine import check_platform, platform_name


@pytest.fixture
def elsewhere(tmp_path: Path) -> Store:
    return Store(tmp_path / "elsewhere")


@pytest.fixture
def archive(store, publish, inputs, describe, tmp_path) -> Path:
    """Return an archive of two artefacts, one with a header and one with a file beside the binary."""
    header = tmp_path / "x.h"
    header.write_text("1")
    publish(header, content=b"binary" * 1000, roots={"source": tmp_path})
    with store.staging() as staging:
        (staging / "other.so").write_bytes(b"other")
        (staging / "below").mkdir()
        (staging / "below" / "types.pyi").write_bytes(b"types")
        manifest = describe(staging / "other.so", name="other", inputs={"a": "1"})
        store.publish(source_key({"a": "1"}), staging, manifest=manifest, headers={})
    export_archive(store, tmp_path / "a.zip", store.artifacts())
    return tmp_path / "a.zip"


def rewrite(archive: Path, change) -> None:
    """Change the members of an archive: `change` maps a table of names and bytes to another."""
    with zipfile.ZipFile(archive) as file:
        members = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(archive, "w") as file:
        for name, data in change(members).items():
            file.writestr(name, data)


def is_empty(store: Store) -> bool:
    return not list(store.artifacts()) and not list(store.layout.staging.iterdir())


def test_what_is_exported_is_found_after_the_import(archive, elsewhere, inputs, tmp_path):
    imported = import_archive(elsewhere, archive)
    assert sorted(item.manifest.name for item in imported.added) == ["other", "scale"]
    found = elsewhere.find(source_key(inputs), roots={"source": tmp_path})
    assert found is not None
    assert found.library.read_bytes() == b"binary" * 1000
    assert elsewhere.find(source_key(inputs), roots={"source": tmp_path / "other checkout"}) is None
    other = elsewhere.find(source_key({"a": "1"}))
    assert other is not None
    assert (other.folder / "below" / "types.pyi").read_bytes() == b"types"


def test_an_import_overwrites_nothing(archive, elsewhere):
    import_archive(elsewhere, archive)
    before = {path: path.stat().st_ino for path in elsewhere.layout.artifacts.rglob("*")}
    again = import_archive(elsewhere, archive)
    assert (len(again.added), len(again.present)) == (0, 2)
    assert {path: path.stat().st_ino for path in elsewhere.layout.artifacts.rglob("*")} == before


def swap_bytes(members):
    return {name: data.replace(b"other", b"evil!") if name.endswith(".so") else data for name, data in members.items()}


def swap_manifest_too(members):
    """A binary with a manifest that fits it, under the key of another."""
    names = sorted(name for name in members if name.endswith("manifest.json"))
    one, two = (name.removesuffix("manifest.json") for name in names)
    return {
        name.replace(one, "?").replace(two, one).replace("?", two) if "/artifact/" in name else name: data
        for name, data in members.items()
    }


def drop(what):
    return lambda members: {name: data for name, data in members.items() if not name.endswith(what)}


def edit(what, **changes):
    def do(members):
        return {
            name: json.dumps({**json.loads(data), **changes}).encode() if name.endswith(what) else data
            for name, data in members.items()
        }

    return do


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (swap_bytes, "has been altered"),
        (swap_manifest_too, "does not match its key"),
        (drop("other.so"), "has no .*other.so"),
        (drop("types.pyi"), "has no .*types.pyi"),
        (drop("record.json"), "has no .*record.json"),
        (drop("manifest.json"), "has no .*manifest.json"),
        (drop("opsmith-archive.json"), "has no opsmith-archive.json"),
        (edit("record.json", headers={"<source>/y.h": "0"}), "does not match its key"),
        (edit("record.json", artifact="../../x"), "does not match its key"),
        (edit("manifest.json", inputs={"evil": "1"}), "does not match its key"),
        (edit("manifest.json", library="../../evil.so"), "manifest of .* damaged"),
        (edit("manifest.json", files={"../../evil": "ab" * 32}), "manifest of .* damaged"),
        (edit("opsmith-archive.json", format=99), "not an archive that this version of opsmith can read"),
        (edit("opsmith-archive.json", platform="plan9-mips-libc1"), "made on plan9-mips-libc1, and this machine is"),
    ],
)
def test_an_archive_that_was_altered_leaves_the_store_as_it_was(archive, elsewhere, change, reason, tmp_path):
    rewrite(archive, change)
    before = set(tmp_path.rglob("*"))
    with pytest.raises(StoreError, match=reason):
        import_archive(elsewhere, archive)
    files = {path for path in set(tmp_path.rglob("*")) - before if path.is_file()}
    assert files == set()


def test_members_with_paths_that_lead_out_are_not_written(archive, elsewhere, tmp_path):
    rewrite(archive, lambda members: {**members, "../evil.so": b"evil", "/tmp/evil-opsmith.so": b"evil"})
    with pytest.raises(StoreError):
        import_archive(elsewhere, archive)
    assert not list(tmp_path.rglob("evil*"))
    assert not Path("/tmp/evil-opsmith.so").exists()
    assert list(elsewhere.artifacts()) == []


@pytest.mark.parametrize("length", [0, 10, 500, -1])
def test_a_truncated_archive_leaves_the_store_as_it_was(archive, elsewhere, length):
    data = archive.read_bytes()
    archive.write_bytes(data[:length])
    with pytest.raises(StoreError, match="not an opsmith archive"):
        import_archive(elsewhere, archive)
    assert list(elsewhere.artifacts()) == []


def test_a_name_that_is_no_text(archive, elsewhere):
    """Bit 11 of a member's flags says that its name is UTF-8."""
    data = bytearray(archive.read_bytes())
    entry = data.rindex(b"PK\x01\x02")
    data[entry + 9] |= 8
    data[entry + 46] = 0x80
    archive.write_bytes(data)
    with pytest.raises(StoreError, match="not an opsmith archive"):
        import_archive(elsewhere, archive)


def test_a_damaged_artefact_is_not_exported_and_the_old_archive_stays(archive, store):
    before = archive.read_bytes()
    for artifact in store.artifacts():
        artifact.library.write_bytes(b"")
    with pytest.raises(StoreError, match=r"is damaged: .* has 0 bytes.*verify --fix"):
        export_archive(store, archive, store.artifacts())
    assert archive.read_bytes() == before
    assert not list(archive.parent.glob(".*.part"))


def test_files_from_before_1980_are_exported(store, publish, elsewhere, tmp_path):
    artifact = publish()
    for path in artifact.folder.rglob("*"):
        os.utime(path, (0, 0))
    export_archive(store, tmp_path / "a.zip", [artifact])
    assert len(import_archive(elsewhere, tmp_path / "a.zip").added) == 1


def test_two_exports_at_once_give_one_of_them_whole(store, publish, elsewhere, tmp_path, monkeypatch):
    artifact = publish()
    write = archives._write

    def while_another_exports(*arguments):
        write(*arguments)
        monkeypatch.setattr(archives, "_write", write)
        export_archive(store, tmp_path / "a.zip", [artifact])

    monkeypatch.setattr(archives, "_write", while_another_exports)
    export_archive(store, tmp_path / "a.zip", [artifact])
    assert len(import_archive(elsewhere, tmp_path / "a.zip").added) == 1
    assert not list(tmp_path.glob("*.part"))
    assert not list(tmp_path.glob(".*"))


def test_a_binary_for_an_older_c_library_runs_here_and_for_a_newer_does_not():
    here = platform_name()
    check_platform(here, "it")
    base = here.rstrip("0123456789.")
    check_platform(f"{base}0.1", "it")
    with pytest.raises(StoreError, match=f"it was made on {base}99.1, and this machine is {here}"):
        check_platform(f"{base}99.1", "it")
