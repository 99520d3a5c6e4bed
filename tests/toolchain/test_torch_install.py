"""torch is described from its files, and never imported for it."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import pytest

from opsmith.errors import ToolchainError
from opsmith.toolchain import find_torch

VERSION = """from typing import Optional
__all__ = ['__version__', 'cuda']
__version__ = {version!r}
debug = False
cuda: Optional[str] = '13.0'
git_version = 'cf30153'
hip: Optional[str] = None
"""


@pytest.fixture
def put_torch(tmp_path, monkeypatch):
    """Make a torch that is found before any other."""

    def do(text: str) -> Path:
        root = tmp_path / "site" / "torch"
        (root / "include/torch/csrc").mkdir(parents=True)
        (root / "__init__.py").write_text("raise AssertionError('torch was imported')")
        (root / "version.py").write_text(text)
        monkeypatch.syspath_prepend(str(root.parent))
        monkeypatch.delitem(sys.modules, "torch", raising=False)
        return root

    return do


def test_a_torch_is_described(put_torch):
    root = put_torch(VERSION.format(version="2.13.0+cu130"))
    torch = find_torch()
    assert (torch.root, torch.version, torch.release) == (root, "2.13.0+cu130", (2, 13))
    assert (torch.cuda, torch.hip, torch.git_version) == ("13.0", None, "cf30153")
    assert torch.include_dirs == (root / "include", root / "include/torch/csrc/api/include")
    assert torch.lib_dir == root / "lib"
    assert torch.identity == "torch 2.13.0+cu130 (git cf30153)"


@pytest.mark.parametrize("version", ["2.10.0", "2.10.0a0+git1234", "3.0.0", "2.100.0"])
def test_one_that_is_new_enough(put_torch, version):
    put_torch(VERSION.format(version=version))
    assert find_torch().version == version


@pytest.mark.parametrize("version", ["2.9.1", "1.13.1+cu117"])
def test_one_that_is_too_old(put_torch, version):
    put_torch(VERSION.format(version=version))
    with pytest.raises(ToolchainError, match=r"needs torch 2\.10 or newer"):
        find_torch()


@pytest.mark.parametrize("text", ["", "__version__ = 'unknown'", "__version__ = version()"])
def test_one_that_tells_no_version(put_torch, text):
    put_torch(text)
    with pytest.raises(ToolchainError, match="does not contain torch's version"):
        find_torch()


def test_one_that_cannot_be_read(put_torch):
    put_torch("__version__ = ")
    with pytest.raises(ToolchainError, match="cannot be read"):
        find_torch()


def test_one_without_headers(put_torch):
    (put_torch(VERSION.format(version="2.13.0")) / "include/torch/csrc").rmdir()
    with pytest.raises(ToolchainError, match="does not include its headers"):
        find_torch()


def test_the_imported_torch_is_the_one(put_torch, monkeypatch, tmp_path):
    put_torch(VERSION.format(version="2.13.0"))
    imported = types.ModuleType("torch")
    imported.__file__ = str(tmp_path / "elsewhere/torch/__init__.py")
    monkeypatch.setitem(sys.modules, "torch", imported)
    with pytest.raises(ToolchainError, match="elsewhere"):
        find_torch()


def test_none_at_all(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr("opsmith.toolchain.torch_install.find_spec", lambda name: None)
    with pytest.raises(ToolchainError, match="has no torch"):
        find_torch()


def test_a_stand_in_without_a_spec_is_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    with pytest.raises(ToolchainError, match="has no torch"):
        find_torch()


def test_looking_does_not_import_torch():
    pytest.importorskip("torch")
    code = "import sys; from opsmith.toolchain import find_torch; find_torch(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(filter(None, sys.path))})


def test_what_is_read_is_what_torch_says():
    torch = pytest.importorskip("torch")
    found = find_torch()
    assert (found.version, found.cuda, found.hip) == (torch.__version__, torch.version.cuda, torch.version.hip)
    assert found.git_version == torch.version.git_version
