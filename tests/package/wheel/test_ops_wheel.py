"""opsmith-ops: the library's operators in a wheel of their own, which opsmith loads where there is no compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import opsmith
from opsmith.build.discover import discover
from opsmith.package.wheel.build import WheelRequest, build_wheel

pytestmark = [pytest.mark.compile, pytest.mark.nightly("builds all operators of the library")]

PROJECT = Path(__file__).parents[3] / "packaging" / "opsmith-ops"
SOURCES = Path(opsmith.__file__).parent
MOST_BYTES = 20 << 20

# What every user of the library may do first, and where the libraries came from.
PROGRAM = """
import torch
from opsmith.ops.add2 import add2
from opsmith.ops.nms import nms
from opsmith.ops.roi_align import roi_align
from opsmith.ops.sigmoid import sigmoid
from opsmith.ops.upfirdn2d import upfirdn2d

x = torch.randn(2, 3, 8, 8, requires_grad=True)
boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 4.1], [5, 5, 7, 7]])
sigmoid(add2(x, x)).sum().backward()
assert torch.isfinite(x.grad).all()
assert nms(boxes, torch.tensor([0.5, 0.9, 0.7]), 0.5).tolist() == [1, 2]
assert roi_align(x.detach(), [boxes, boxes], 2).shape == (6, 3, 2, 2)
assert upfirdn2d(x.detach(), torch.ones(4), up=2).shape == (2, 3, 13, 13)
print(*torch.ops.loaded_libraries, sep="\\n")
"""


def test_it_has_every_library_and_they_load_without_a_compiler(tmp_path: Path) -> None:
    built = build_wheel(WheelRequest(PROJECT, tmp_path / "dist"), lambda line: None)
    assert built.audit.is_sound, built.audit.as_json()
    assert built.path.stat().st_size < MOST_BYTES
    site = tmp_path / "site"
    shutil.copytree(SOURCES, site / "opsmith", ignore=shutil.ignore_patterns("__pycache__", "_*_ops.*", "_ops.*"))
    with zipfile.ZipFile(built.path) as archive:
        libraries = {name for name in archive.namelist() if name.endswith(".so")}
        metadata = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        assert f"Requires-Dist: opsmith=={opsmith.__version__}" in archive.read(metadata).decode()
        archive.extractall(site)
    assert len(libraries) == len(discover("opsmith.ops"))
    environment = {"PATH": "/nonexistent", "PYTHONPATH": str(site), "OPSMITH_CACHE_DIR": str(tmp_path / "store")}
    kept = {name: value for name, value in os.environ.items() if name in ("HOME", "LD_LIBRARY_PATH")}
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning:opsmith", "-c", PROGRAM],
        env=kept | environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    assert len(loaded) >= 5
    assert all(Path(library).is_relative_to(site) for library in loaded)
