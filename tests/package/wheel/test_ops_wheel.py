"""opsmith-ops: the library's operators in a wheel of their own, which opsmith loads where there is no compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

import opsmith
from compilers import find_compiler, run
from opsmith.build.discover import discover
from opsmith.package.wheel.build import WheelRequest, build_wheel

pytestmark = pytest.mark.compile

ROOT = Path(__file__).parents[3]
PROJECT = ROOT / "packaging" / "opsmith-ops"
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


@pytest.mark.nightly("builds all operators of the library")
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


@pytest.mark.slow("builds an operator for two GPUs, and checks it in new processes")
def test_with_architectures_its_libraries_serve_gpus_too(tmp_path: Path) -> None:
    """One operator stands for all; without a GPU the tool that tries the wheel on one checks it on the CPU."""
    find_compiler("nvcc")
    project = tmp_path / "packaging" / "opsmith-ops"
    shutil.copytree(PROJECT, project)
    (tmp_path / "src").symlink_to(SOURCES.parent)
    pyproject = project / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace('["opsmith.ops"]', '["opsmith.ops.add2"]'))
    built = build_wheel(WheelRequest(project, tmp_path / "dist", archs="9.0a;10.0+PTX"), lambda line: None)
    assert built.audit.is_sound, built.audit.as_json()
    (library,) = built.audit.facts.libraries
    assert [str(arch) for arch in library.cuda] == ["9.0a", "10.0+PTX"]
    assert library.manifest is not None
    assert library.manifest.devices == ("cpu", "cuda")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tool = (sys.executable, ROOT / "tools" / "try_gpu_wheel.py", built.path, "--device", device, "--seconds", "5")
    shown = run(*tool).stdout
    assert "1 of 1 libraries of the wheel loaded, 0 others\n" in shown
    assert "✓ opsmith.ops.add2: " in shown
