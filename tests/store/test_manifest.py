"""A manifest survives its JSON, and a text that is none is no manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opsmith.store.manifest import FORMAT_VERSION, Manifest

MANIFEST = Manifest(
    name="scale",
    library="scale.so",
    sha256="ab" * 32,
    size_bytes=7,
    inputs={"sources": "11"},
    devices=("cpu", "cuda"),
    archs=("9.0",),
    toolchain={"host": "gcc 12.2.0"},
    torch_version="2.13.0",
    created="2026-01-01T00:00:00+00:00",
    opsmith_version="0",
)


@pytest.mark.parametrize("torch_version", ["2.13.0", None])
def test_a_manifest_survives_its_json(torch_version):
    manifest = Manifest(**{**MANIFEST._asdict(), "torch_version": torch_version})
    assert Manifest.from_json(manifest.to_json()) == manifest


def test_a_field_of_the_same_format_that_is_unknown_is_ignored():
    assert Manifest.from_json(json.dumps({**json.loads(MANIFEST.to_json()), "colour": "red"})) == MANIFEST


@pytest.mark.parametrize(
    "change",
    [
        {"format": FORMAT_VERSION + 1},
        {"format": None},
        {"library": "../evil.so"},
        {"library": "/evil.so"},
        {"library": ".."},
        {"library": ""},
        {"library": None},
        {"size_bytes": "7"},
        {"inputs": ["sources"]},
        {"inputs": {"sources": 1}},
        {"devices": "cpu"},
    ],
)
def test_a_manifest_of_another_format_or_with_wrong_fields_is_none(change):
    assert Manifest.from_json(json.dumps({**json.loads(MANIFEST.to_json()), **change})) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", b"\xff\xfe"])
def test_damaged_text_is_none(text):
    assert Manifest.from_json(text) is None


def test_a_missing_field_is_none():
    for name in MANIFEST._asdict().keys() - {"kind", "files"}:
        fields = json.loads(MANIFEST.to_json())
        del fields[name]
        assert Manifest.from_json(json.dumps(fields)) is None, name


def test_the_first_manifests_had_no_kind_and_no_further_files():
    fields = json.loads(MANIFEST.to_json())
    del fields["kind"], fields["files"]
    assert Manifest.from_json(json.dumps(fields)) == MANIFEST


@pytest.mark.parametrize("change", [{"kind": "program"}, {"kind": []}, {"files": []}, {"files": {"a": 1}}])
def test_a_kind_or_a_list_of_files_that_is_none_makes_no_manifest(change):
    assert Manifest.from_json(json.dumps({**json.loads(MANIFEST.to_json()), **change})) is None


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "", "a\0b", "manifest.json"])
def test_a_manifest_leads_to_no_file_outside_its_folder(name):
    # The digest is right: it is the name that is refused.
    fields = {**json.loads(MANIFEST.to_json()), "files": {name: "ab" * 32}}
    assert Manifest.from_json(json.dumps(fields)) is None


def test_a_binary_is_described_by_its_bytes(tmp_path: Path):
    library = tmp_path / "scale.so"
    library.write_bytes(b"binary!")
    described = Manifest.describe(
        library,
        name="scale",
        inputs={},
        devices=(),
        archs=(),
        toolchain={},
        torch_version=None,
        opsmith_version="0",
    )
    assert (described.library, described.size_bytes) == ("scale.so", 7)
    assert described.created.endswith("+00:00")
