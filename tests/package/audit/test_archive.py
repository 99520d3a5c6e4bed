"""Hostile and broken archives are refused in words: bombs, paths that lead out, links, duplicates, damage."""

from __future__ import annotations

import json
import random
import stat
import struct
import zipfile
from pathlib import Path

import pytest
from make_library import library
from make_wheel import wheel
from planted_faults import gpu_wheel

from opsmith.package.audit import archive, audit

NAME = "smooth-1.0-py3-none-any.whl"


def refused(path: Path) -> str:
    """Return why a file cannot be read at all."""
    result = audit(path)
    (finding,) = result.findings
    assert finding.name == "unreadable"
    assert not result.is_sound
    assert str(result)
    return finding.detail


def write(folder: Path, *entries: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    path = folder / NAME
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in entries:
            opened.writestr(name, data)
    return path


@pytest.mark.parametrize(
    "name", ["../evil.so", "/etc/evil.so", "/evil", "smooth/../../evil", "smooth\\evil", "smooth/\x1b[2J"]
)
def test_a_path_that_leads_out_is_refused(name, tmp_path):
    assert "which would be written outside" in refused(write(tmp_path, (name, b"")))


def test_a_symbolic_link_is_refused(tmp_path):
    link = zipfile.ZipInfo("smooth/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    assert "symbolic link" in refused(write(tmp_path, (link, b"/etc/passwd")))


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_two_files_of_one_name_are_refused(tmp_path):
    assert "two files" in refused(write(tmp_path, ("smooth/a.py", b"1"), ("smooth/a.py", b"2")))


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "_RATIO_APPLIES_FROM", 1 << 20)
    path = write(tmp_path, ("smooth/zeros", bytes((1 << 20) + 1)))
    assert "as zip bombs do" in refused(path)


def test_a_bomb_that_lies_about_its_size_is_cut_off(tmp_path):
    path = write(tmp_path, ("smooth/zeros.so", b"\x7fELF" + bytes(1 << 20)))
    data = bytearray(path.read_bytes())
    place = data.rfind(b"PK\x01\x02")
    struct.pack_into("<I", data, place + 24, 100)  # the size in the directory, which lies last
    path.write_bytes(data)
    assert audit(path).names() & {"unreadable", "broken-file"}


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MOST_FILES", 3)
    assert "3 are the most" in refused(write(tmp_path, *((f"smooth/{number}", b"") for number in range(4))))


@pytest.mark.parametrize("length", [0, 1, 30, 200, -1, -25])
def test_a_truncated_wheel_is_refused(length, tmp_path):
    path = wheel(tmp_path, {"smooth/_ops.so": library()})
    path.write_bytes(path.read_bytes()[:length])
    assert "not a zip archive" in refused(path)


def test_a_damaged_member_is_a_fault_of_its_own(tmp_path):
    path = wheel(tmp_path, {"smooth/_ops.so": library()})
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as opened:
        place = opened.getinfo("smooth/_ops.so").header_offset + 200
    data[place : place + 20] = bytes(20)
    path.write_bytes(data)
    assert {finding.where for finding in audit(path).faults if finding.name == "broken-file"} == {"smooth/_ops.so"}


def test_random_damage_is_a_finding_and_never_an_exception(tmp_path):
    random.seed(0)
    path = gpu_wheel(tmp_path, ("8.0", "9.0+PTX"), "80", "90", "90 PTX")
    good = path.read_bytes()
    for _ in range(150):
        data = bytearray(good)
        for _ in range(random.randint(1, 3)):
            data[random.randrange(len(data))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        path.write_bytes(data)
        result = audit(path)
        assert str(result)
        assert json.dumps(result.as_json())


def test_a_file_without_a_name_is_refused(tmp_path):
    path = write(tmp_path, ("x", b""))
    path.write_bytes(path.read_bytes().replace(b"x", b"\0"))
    assert "which would be written outside" in refused(path)


def test_a_zip_archive_that_is_not_a_wheel_is_refused(tmp_path):
    assert "it has 0 folders" in refused(write(tmp_path, ("smooth/a.py", b"")))


def test_a_name_that_is_not_a_wheels_is_refused(tmp_path):
    path = tmp_path / "smooth.whl"
    path.write_bytes(b"PK")
    assert "wheels are called" in refused(path)


def test_the_metadata_of_another_project_is_refused(tmp_path):
    path = wheel(tmp_path, {"smooth/_ops.so": library()})
    other = path.rename(tmp_path / path.name.replace("smooth", "rough"))
    assert "which is not that of rough" in refused(other)


@pytest.mark.parametrize("content", [b"", b"hello", b"!<arch>\n"])
def test_what_is_neither_wheel_nor_library_is_refused(content, tmp_path):
    file = tmp_path / "file.so"
    file.write_bytes(content)
    assert "neither a wheel" in refused(file)
