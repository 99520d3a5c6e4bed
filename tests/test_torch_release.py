"""A torch older than 2.10 is refused by name where opsmith is imported or first used; tools that import opsmith go on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# The parts of torch that modules of opsmith and of its users ask for while they are imported.
OLD_TORCH = """
from torch.version import __version__

def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})
"""


@pytest.fixture
def old_torch(tmp_path: Path) -> Path:
    folder = tmp_path / "torch"
    folder.mkdir()
    (folder / "__init__.py").write_text(OLD_TORCH)
    (folder / "version.py").write_text("__version__ = '2.9.1+cu128'\n")
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "program",
    [
        "import torch, opsmith",
        "import opsmith; opsmith.op",
        "from opsmith import op",
        "import opsmith.ops.nms",
        "from opsmith.cpp_extension import load",
        "import setuptools, torch, opsmith; opsmith.op",
    ],
)
def test_an_old_torch_is_refused_with_its_version_and_what_to_do(old_torch, program):
    done = run(old_torch.parent, "-c", program)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    for words in (
        "UnsupportedTorchError: opsmith ",
        "needs torch 2.10 or newer",
        f"torch 2.9.1+cu128, in {old_torch}",
        'pip install --upgrade "torch>=2.10"',
    ):
        assert words in last


def test_it_is_an_import_error(old_torch):
    program = "import torch\ntry:\n    import opsmith\nexcept ImportError:\n    print('without')"
    assert run(old_torch.parent, "-c", program).stdout == "without\n"


@pytest.mark.parametrize(
    "program",
    [
        "import opsmith.errors; opsmith.__version__",
        "import opsmith.pytest_plugin, opsmith.package.hook",
        "import setuptools, torch, opsmith.package.hook",
        "import pytest, torch, opsmith.pytest_plugin",
    ],
)
def test_what_other_projects_import_goes_on(old_torch, program):
    done = run(old_torch.parent, "-c", program)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "command", [["check", "kit.py"], ["bench", "kit.py"], ["build", "kit.py"], ["demo"], ["bridge"]]
)
def test_a_command_says_it_in_one_message(old_torch, command):
    kit = "import torch\nimport opsmith\n\n@opsmith.op()\ndef f(x: torch.Tensor) -> torch.Tensor: ...\n"
    (old_torch.parent / "kit.py").write_text(kit)
    done = run(old_torch.parent, "-m", "opsmith", *command)
    assert done.returncode != 0
    assert "needs torch 2.10 or newer" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_doctor_and_the_help_run(old_torch):
    assert "needs torch 2.10 or newer" in " ".join(run(old_torch.parent, "-m", "opsmith", "doctor").stdout.split())
    assert run(old_torch.parent, "-m", "opsmith", "check", "--help").returncode == 0
