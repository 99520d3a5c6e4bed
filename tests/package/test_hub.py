"""`opsmith hub` writes what Hugging Face's kernel-builder compiles, and leaves what is the project's alone."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from opsmith.build.discover import discover
from opsmith.build.project import read_pyproject
from opsmith.cli.hub import command
from opsmith.errors import ArgumentError, DefinitionError
from opsmith.package.hub import MARK, write_hub
from opsmith.scaffold.project import Project
from opsmith.scaffold.write import write_project

# What kernel-builder puts beside a binding: names that the compiler's command line gives, and Python's entry.
_REGISTRATION = """
#include <Python.h>
#define JOINED_(a, b) a##b
#define JOINED(a, b) JOINED_(a, b)
#define STRINGIFY_(a) #a
#define STRINGIFY(a) STRINGIFY_(a)
#define REGISTER_EXTENSION(name)                                                      \\
  PyMODINIT_FUNC JOINED(PyInit_, name)() {                                            \\
    static PyModuleDef module = {PyModuleDef_HEAD_INIT, STRINGIFY(name), 0, 0, 0};    \\
    return PyModule_Create(&module);                                                  \\
  }
"""
_OPS = """
import torch
from . import _norm_cpu_1a2b3c4
ops = torch.ops._norm_cpu_1a2b3c4
def add_op_namespace_prefix(name):
    return f"_norm_cpu_1a2b3c4::{name}"
"""
_TRY = """
import torch
from hubnorm import rms_norm
x = torch.randn(7, 33, dtype=torch.float64, requires_grad=True)
torch.testing.assert_close(rms_norm(x), torch.nn.functional.rms_norm(x, (33,), eps=1e-6))
assert torch.autograd.gradcheck(rms_norm, (x,))
torch.library.opcheck(torch.ops._norm_cpu_1a2b3c4.rms_norm.default, (x,))
"""


@pytest.fixture(autouse=True)
def same_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the projects off Python's path again, which discovering their operators puts there."""
    monkeypatch.setattr(sys, "path", [*sys.path])


def make(folder: Path, name: str, cuda: bool = False) -> Path:
    write_project(Project(name, cuda=cuda, recipes=("kernels",)), folder)
    return folder


def hub(project: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Run the command in a project; return the build.toml."""
    monkeypatch.chdir(project)
    module = next(path.parent.name for path in project.glob("*/__init__.py"))
    done = CliRunner().invoke(command, [f"{module}/"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return read_pyproject(project / "hub" / "build.toml")


def test_every_file_that_is_built_is_listed_and_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make(tmp_path / "hubnorm", "hublisted", cuda=True)
    (project / "hublisted" / "mine.cuh").write_text("// mine\n")
    content = hub(project, monkeypatch)
    folder = project / "hub"
    kernels = content["kernel"]
    assert isinstance(kernels, dict)
    assert {kernel["backend"] for kernel in kernels.values()} == {"cpu", "cuda"} == set(content["general"]["backends"])
    assert content["torch"]["stable-abi"] == {"cpu": "2.10", "cuda": "2.10"}
    listed = {*content["torch"]["src"], *(path for kernel in kernels.values() for path in kernel["src"])}
    made = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert made - listed == {"build.toml", "flake.nix", "torch-ext/hublisted/__init__.py"}
    assert listed <= made
    assert {"csrc/mine.cuh", "csrc/opsmith/kernel.h", "csrc/rms_norm.cuda.cu"} <= listed
    assert "Apache-2.0" in (folder / "csrc" / "opsmith" / "kernel.h").read_text().partition("\n")[0]
    assert (folder / "csrc" / "mine.cuh").read_text() == "// mine\n"
    assert '"hublisted"' not in (folder / "csrc" / "binding_cpu.h").read_text()


def test_what_is_the_projects_stays_and_what_is_not_needed_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make(tmp_path / "hubagain", "hubagain")
    build = project / "hub" / "build.toml"
    build.write_text(build.read_text().replace("version = 1", "version = 7  # mine"))
    hub(project, monkeypatch)
    first = build.read_text()
    assert "version = 7  # mine" in first
    (project / "hub" / "csrc" / "old.cpp").touch()
    hub(project, monkeypatch)
    assert build.read_text() == first
    assert first.count(MARK) == 1
    assert not (project / "hub" / "csrc" / "old.cpp").exists()


def test_a_folder_that_is_not_for_it_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make(tmp_path / "hubother", "hubother")
    build = project / "hub" / "build.toml"
    build.write_text("[general]\n")
    monkeypatch.chdir(project)
    with pytest.raises(ArgumentError, match="--recipe kernels"):
        CliRunner().invoke(command, ["hubother/"], catch_exceptions=False)
    assert build.read_text() == "[general]\n"
    assert not (project / "hub" / "csrc").exists()


def test_operators_without_kernels_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make(tmp_path / "hubplain", "hubplain")
    definition = project / "hubplain" / "__init__.py"
    definition.write_text(re.sub(r'cpu="rms_norm.cpp",\s*', "", definition.read_text()))
    monkeypatch.chdir(project)
    with pytest.raises(DefinitionError, match="has no kernels"):
        CliRunner().invoke(command, ["hubplain/"], catch_exceptions=False)


@pytest.mark.compile
@pytest.mark.slow("compiles a project's sources as kernel-builder does, and runs PyTorch's opcheck")
def test_the_kernel_runs_without_opsmith_in_a_namespace_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path / "project", "hubnorm") / "hub"
    content = hub(folder.parent, monkeypatch)
    (tmp_path / "registration.h").write_text(_REGISTRATION)
    package = folder / "torch-ext" / "hubnorm"
    sources = [path for path in content["kernel"]["hubnorm_cpu"]["src"] if path.endswith(".cpp")]
    root = Path(torch.__file__).parent
    compile_all = [
        *("c++", "-std=c++20", "-O1", "-fPIC", "-shared", "-DCPU_KERNEL", "-DTORCH_EXTENSION_NAME=_norm_cpu_1a2b3c4"),
        *("-Icsrc", f"-I{tmp_path}", f"-I{sysconfig.get_path('include')}", "torch-ext/torch_binding.cpp", *sources),
        *(f"-L{root / 'lib'}", "-ltorch_cpu", "-lc10", "-o", str(package / "_norm_cpu_1a2b3c4.abi3.so")),
    ]
    subprocess.run(compile_all, cwd=folder, check=True, timeout=300)
    (package / "_ops.py").write_text(_OPS)
    hidden = "import sys; sys.modules['opsmith'] = None\n"  # importing it fails
    done = subprocess.run(
        [sys.executable, "-c", hidden + _TRY], cwd=package.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_kernels_that_kernel_builder_does_not_compile(tmp_path: Path) -> None:
    (tmp_path / "build.toml").write_text(f"{MARK}\n")
    (tmp_path / "same.cu").write_text("template <class T> __global__ void same(const T* x, T* y) {}")
    (tmp_path / "hub_ahead.py").write_text(
        "import opsmith\nfrom jaxtyping import Float\nfrom torch import Tensor\n\n\n"
        '@opsmith.op(cuda=opsmith.kernel("same.cu:same", grid=1, block=1), outputs="y")\n'
        'def same(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:\n    return x.clone()\n'
    )
    (group,) = discover(str(tmp_path / "hub_ahead.py"))
    with pytest.raises(
        DefinitionError, match=r"has kernels of opsmith\.triton, opsmith\.kernel or opsmith\.cute, which kernel-builder"
    ):
        write_hub(group, tmp_path)
