"""A finished wheel claims what its libraries need, has the same bytes each time, and says what is in it."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest
from make_library import SHIMS, library
from make_wheel import wheel

from opsmith.errors import BuildError
from opsmith.package.audit import audit
from opsmith.package.wheel.finish import finish_wheel
from opsmith.store import Manifest

pytestmark = pytest.mark.compile

LINUX = "py3-none-linux_x86_64"
OPS = "smooth/_ops.so"


def manifest(created: str = "2026-11-25T12:00:00+00:00") -> bytes:
    data = library()
    return (
        Manifest(
            name="smooth",
            library="_ops.so",
            sha256=hashlib.sha256(data).hexdigest(),
            size_bytes=len(data),
            inputs={},
            devices=("cpu",),
            archs=(),
            toolchain={"host": "gcc version 12.2.0"},
            torch_version=None,
            created=created,
            opsmith_version="0.1.0",
        )
        .to_json()
        .encode()
    )


def made(folder: Path, **options) -> Path:
    folder.mkdir(exist_ok=True)
    created = options.pop("created", "2026-11-25T12:00:00+00:00")
    return wheel(folder, {OPS: library(), "smooth/_ops.json": manifest(created)}, tag=LINUX, **options)


def test_its_tag_is_that_of_the_symbols_that_its_libraries_need(tmp_path):
    finished = finish_wheel(made(tmp_path))
    assert finished.name == "smooth-1.0-py3-none-manylinux_2_5_x86_64.whl"
    assert [file.name for file in tmp_path.iterdir()] == [finished.name]
    result = audit(finished)
    assert result.is_sound, result
    assert result.names() == set()


def test_a_newer_glibc_is_in_the_tag(tmp_path):
    calls = library(calls=(*SHIMS, "newer"), stubs=(("libc.so.6", "GLIBC_2.34", ("newer",)),))
    finished = finish_wheel(wheel(tmp_path, {OPS: calls}, tag=LINUX))
    assert finished.name.endswith("-py3-none-manylinux_2_34_x86_64.whl")
    assert audit(finished).is_sound


def test_the_same_content_has_the_same_bytes_whenever_it_is_built(tmp_path):
    one = made(tmp_path / "one")
    later = {OPS: (2026, 11, 26, 0, 0, 0)}
    other = made(tmp_path / "other", times=later, created="2026-11-26T00:00:00+00:00")
    assert one.read_bytes() != other.read_bytes()
    assert finish_wheel(one).read_bytes() == finish_wheel(other).read_bytes()


def test_finishing_twice_changes_nothing(tmp_path):
    finished = finish_wheel(made(tmp_path))
    before = finished.read_bytes()
    assert finish_wheel(finished) == finished
    assert finished.read_bytes() == before


def test_source_date_epoch_is_the_time_of_every_member(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1764072000")
    with zipfile.ZipFile(finish_wheel(made(tmp_path))) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(2025, 11, 25, 12, 0, 0)}
        assert json.loads(archive.read("smooth/_ops.json"))["created"] == "2025-11-25T12:00:00+00:00"


def test_a_source_date_epoch_that_is_no_number_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(BuildError, match="SOURCE_DATE_EPOCH is 'yesterday'"):
        finish_wheel(made(tmp_path))
    assert [file.suffix for file in tmp_path.iterdir()] == [".whl"]


def test_libraries_are_programs_and_other_files_are_not(tmp_path):
    with zipfile.ZipFile(finish_wheel(made(tmp_path))) as archive:
        modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
    assert modes.pop(OPS) == 0o100755
    assert set(modes.values()) == {0o100644}


def test_its_bill_of_materials_has_the_library_and_what_built_it(tmp_path):
    with zipfile.ZipFile(finish_wheel(made(tmp_path))) as archive:
        bill = json.loads(archive.read("smooth-1.0.dist-info/sboms/opsmith.cdx.json"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/smooth@1.0"
    assert {tool["name"]: tool["version"] for tool in bill["metadata"]["tools"]["components"]} == {
        "opsmith": "0.1.0",
        "host": "gcc version 12.2.0",
    }
    hashes = {item["name"]: item["hashes"][0]["content"] for item in bill["components"] if "hashes" in item}
    assert hashes == {OPS: hashlib.sha256(library()).hexdigest()}
    assert [item["name"] for item in bill["components"] if item["type"] == "library"] == ["opsmith"]


def test_libraries_that_opsmith_did_not_build_are_in_the_bill_too(tmp_path):
    with zipfile.ZipFile(finish_wheel(wheel(tmp_path, {OPS: library()}, tag=LINUX))) as archive:
        bill = json.loads(archive.read("smooth-1.0.dist-info/sboms/opsmith.cdx.json"))
    assert [item["name"] for item in bill["components"]] == [OPS]
    assert bill["metadata"]["tools"]["components"] == []


def test_a_wheel_without_libraries_keeps_its_tags(tmp_path):
    finished = finish_wheel(wheel(tmp_path, {}, tag="py3-none-any"))
    assert finished.name == "smooth-1.0-py3-none-any.whl"
    with zipfile.ZipFile(finished) as archive:
        assert not any("sboms" in name for name in archive.namelist())


def test_a_file_that_is_no_wheel_is_left_as_it_is(tmp_path):
    path = tmp_path / "smooth-1.0-py3-none-any.whl"
    path.write_bytes(b"PK is not enough")
    with pytest.raises(BuildError, match="cannot be read"):
        finish_wheel(path)
    assert path.read_bytes() == b"PK is not enough"
