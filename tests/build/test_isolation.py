"""A build for another torch than the one that is installed is announced; every other build is not."""

from __future__ import annotations

import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest

from opsmith.build import isolation
from opsmith.build.isolation import describe_other_torch
from opsmith.toolchain import TorchInstall, find_torch


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make this Python's folder of packages one with torch 2.13.0+cu130."""
    folder = put_torch(tmp_path / "environment", "2.13.0+cu130")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(folder))
    monkeypatch.setattr(isolation.site, "getsitepackages", lambda: [str(folder)])
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    return folder


def put_torch(prefix: Path, version: str) -> Path:
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    file = prefix / "lib" / python / "site-packages/torch/version.py"
    file.parent.mkdir(parents=True)
    file.write_text(f"__version__ = {version!r}\n")
    return file.parents[1]


def torch_in(folder: Path, version: str) -> TorchInstall:
    return replace(find_torch(), root=folder / "torch", version=version)


def test_pips_overlay_with_another_torch(environment: Path, tmp_path: Path) -> None:
    overlay = tmp_path / "pip-build-env-1/overlay/lib/python3/site-packages"
    said = describe_other_torch(torch_in(overlay, "2.15.0+cu130"))
    assert said is not None
    for words in ("for torch 2.15.0+cu130", "torch 2.13.0+cu130 is installed", "--no-build-isolation", "torch==2.13.0"):
        assert words in said
    assert describe_other_torch(torch_in(overlay, "2.13.0+cpu")), "another build of the same version"
    assert describe_other_torch(torch_in(overlay, "2.13.0+cu130")) is None


def test_environment_of_its_own_with_another_torch(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """build and uv make an environment for each build; the user's is the activated one."""
    activated = tmp_path / "activated"
    put_torch(activated, "2.11.0+cpu")
    monkeypatch.setenv("VIRTUAL_ENV", str(activated))
    monkeypatch.setattr(sys, "prefix", "/home/me/.cache/uv/builds-v0/.tmp1")
    said = describe_other_torch(torch_in(environment, "2.13.0+cu130"))
    assert said is not None
    assert "torch 2.11.0+cpu is installed" in said
    # A lasting environment that is used by its path, while another is activated, is the user's own choice.
    monkeypatch.setattr(sys, "prefix", "/home/me/other")
    assert describe_other_torch(torch_in(environment, "2.13.0+cu130")) is None


def test_nothing_is_said_where_there_is_no_other_torch(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert describe_other_torch(torch_in(environment, "2.13.0+cu130")) is None
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "empty"))
    monkeypatch.setattr(isolation.site, "getsitepackages", list)
    assert describe_other_torch(torch_in(tmp_path / "overlay", "2.15.0")) is None
