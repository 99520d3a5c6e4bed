"""The ninja program is found, and a script of that name only where there is nothing better."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

from opsmith.errors import ToolchainError
from opsmith.toolchain import find_ninja


@pytest.fixture(autouse=True)
def bare_python(machine, monkeypatch, tmp_path):
    """A Python without packages."""
    monkeypatch.delitem(sys.modules, "ninja", raising=False)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python/bin/python"))
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "python/scripts"))


@pytest.fixture
def put_package(monkeypatch, tmp_path):
    """Install the package ninja, its program at a place that only its RECORD tells."""

    def do(record: str) -> Path:
        site = tmp_path / "site"
        (site / "ninja").mkdir(parents=True)
        (site / "ninja/__init__.py").touch()
        (site / "ninja-1.13.0.dist-info").mkdir()
        (site / "ninja-1.13.0.dist-info/METADATA").write_text("Name: ninja\nVersion: 1.13.0\n")
        (site / "ninja-1.13.0.dist-info/RECORD").write_text(f"{record},,\n")
        monkeypatch.setattr(sys, "path", [str(site)])
        return site

    return do


def put_program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF")
    path.chmod(0o755)
    return path


def test_one_on_path(machine):
    program = put_program(machine.bin / "ninja")
    assert find_ninja() == program


def test_a_script_is_passed_over(machine, monkeypatch, tmp_path):
    machine.put("ninja")
    program = put_program(tmp_path / "later/ninja")
    monkeypatch.setenv("PATH", f"{machine.bin}:{program.parent}")
    assert find_ninja() == program


def test_a_script_is_better_than_nothing(machine):
    script = machine.put("ninja")
    assert find_ninja() == script


@pytest.mark.parametrize("place", ["scripts/ninja", "bin/ninja"])
def test_the_package_comes_before_path(machine, put_package, tmp_path, place):
    put_program(machine.bin / "ninja")
    put_package("")
    program = put_program(tmp_path / "python" / place)
    assert find_ninja() == program


def test_an_old_package_has_it_among_its_data(put_package):
    program = put_program(put_package("") / "ninja/data/bin/ninja")
    assert find_ninja() == program


def test_the_packages_record_tells_an_unusual_place(put_package, tmp_path):
    put_package("../own/bin/ninja")
    program = put_program(tmp_path / "own/bin/ninja")
    assert find_ninja() == program


def test_a_package_without_its_program_is_none(machine, put_package):
    put_package("../own/bin/ninja")
    program = put_program(machine.bin / "ninja")
    assert find_ninja() == program


def test_none_at_all():
    with pytest.raises(ToolchainError, match="pip install ninja"):
        find_ninja()
