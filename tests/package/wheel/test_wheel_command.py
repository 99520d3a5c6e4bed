"""`opsmith wheel` and other frontends make one good wheel from a project."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import setuptools
from click.testing import CliRunner
from make_library import library
from make_wheel import description, wheel

from compilers import find_compiler
from opsmith.cli.wheel import command
from opsmith.errors import ArgumentError, BuildError, ToolchainError
from opsmith.package.hook import finalize_distribution_options
from opsmith.package.prove import run
from opsmith.package.prove.result import Claim, Proof, Row
from opsmith.package.wheel import build
from opsmith.package.wheel.build import WheelRequest, build_wheel
from opsmith.package.wheel.finish import finish_wheel

EXAMPLE = Path(__file__).parents[3] / "examples" / "smooth"
CMAKE = """
[build-system]
requires = ["scikit-build-core>=0.10", "opsmith", "torch"]
build-backend = "scikit_build_core.build"

[tool.scikit-build]
wheel.packages = ["smooth"]
wheel.py-api = "py3"

[project]
"""


def ignore(line: str) -> None: ...


def example_wheel(folder: Path) -> Path:
    files = {"smooth/_ops.so": library(), "smooth/_ops.json": description()}
    return wheel(folder, files, tag="py3-none-linux_x86_64")


@pytest.fixture
def smooth(tmp_path: Path) -> Path:
    """Copy the example."""
    return Path(
        shutil.copytree(EXAMPLE, tmp_path / "smooth", ignore=shutil.ignore_patterns("build", "*.egg-info", "_ops*"))
    )


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.compile
@pytest.mark.slow("builds a project twice")
def test_the_command_and_pip_make_the_same_wheel(smooth: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(command, [str(smooth), "--output", str(tmp_path / "dist"), "--json"])
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    ours = Path(content["wheel"])
    assert ours.name.startswith("smooth-0.1.0-py3-none-manylinux_2_")
    assert content["audit"]["sound"]
    assert "opsmith  built smooth in" in result.stderr
    assert [file.name for file in (tmp_path / "dist").iterdir()] == [ours.name]

    moved = smooth.rename(tmp_path / "elsewhere")
    pip = ["pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", tmp_path / "pip", moved]
    subprocess.run([sys.executable, "-m", *map(str, pip)], check=True, capture_output=True)
    theirs = tmp_path / "pip" / ours.name
    assert digest(theirs) == digest(ours)


def test_options_go_before_the_projects_own(smooth: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(smooth)
    distribution = setuptools.Distribution()
    distribution.ext_modules, distribution.cmdclass = None, {}  # setuptools may have called the hook itself
    finalize_distribution_options(distribution)
    (extension,) = distribution.ext_modules
    assert (extension.project.torch_target, extension.project.archs) == ((2, 10), None)
    command = distribution.get_command_obj("bdist_wheel")
    command.torch_target, command.archs, command.cuda, command.standalone = "2.12", "9.0+PTX", "12", 1
    command.ensure_finalized()
    assert (extension.project.torch_target, extension.project.archs) == ((2, 12), "9.0+PTX")
    assert (extension.project.cuda, extension.project.devices) == ("12", ("cpu", "cuda"))
    assert extension.project.standalone


@pytest.mark.parametrize(("backend", "given"), [("setuptools", {"--build-option": ["--standalone"]}), ("other", {})])
def test_setuptools_makes_a_wheel_standalone_and_opsmith_does_it_for_others(
    smooth: Path, backend: str, given: dict[str, list[str]]
) -> None:
    pyproject = smooth / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace("setuptools.build_meta", f"{backend}.build_meta"))
    assert build._settings(WheelRequest(smooth, standalone=True)) == given
    assert build._settings(WheelRequest(smooth)) == {}
    assert build._is_standalone(WheelRequest(smooth, standalone=True))
    assert not build._is_standalone(WheelRequest(smooth))
    pyproject.write_text(f"{pyproject.read_text()}standalone = true\n")
    assert build._is_standalone(WheelRequest(smooth))


def test_a_target_that_is_too_old_ends_the_build_with_the_reason(smooth: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"the torch target 2\.9 is older than 2\.10"):
        build_wheel(WheelRequest(smooth, tmp_path / "dist", torch_target="2.9"), ignore)


@pytest.mark.compile
@pytest.mark.slow("builds a project with hipcc")
def test_a_wheel_for_amd_has_the_targets_asked_for(
    smooth: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_compiler("hipcc")
    monkeypatch.setenv("HIP_PLATFORM", "amd")  # Debian's hipcc compiles for NVIDIA where it finds an nvcc
    built = build_wheel(WheelRequest(smooth, tmp_path / "dist", archs="gfx90a;gfx1030"), ignore)
    assert built.audit.is_sound, built.audit
    (library_,) = built.audit.facts.libraries
    assert (library_.amd, library_.cuda) == (("gfx1030", "gfx90a"), ())
    assert library_.manifest is not None
    assert library_.manifest.archs == ("gfx1030", "gfx90a")
    assert "tied-to-rocm" in built.audit.names()


@pytest.mark.compile
@pytest.mark.slow("builds a project with CMake")
def test_a_wheel_of_scikit_build_core_gets_tag_and_bill(smooth: Path, tmp_path: Path) -> None:
    pytest.importorskip("scikit_build_core")
    pyproject = smooth / "pyproject.toml"
    _, _, rest = pyproject.read_text().partition("[project]\n")
    pyproject.write_text(CMAKE + rest.partition("[tool.setuptools]")[0])
    built = build_wheel(WheelRequest(smooth, tmp_path / "dist"), ignore)
    assert built.path.name.startswith("smooth-0.1.0-py3-none-manylinux_2_")
    assert built.audit.is_sound, built.audit
    with zipfile.ZipFile(built.path) as archive:
        assert any("sboms" in name for name in archive.namelist())
    with pytest.raises(ArgumentError, match="--archs cannot be given to the backend scikit_build_core"):
        build_wheel(WheelRequest(smooth, tmp_path / "dist", archs="9.0"), ignore)


@pytest.mark.compile
def test_a_wheel_that_the_backend_has_finished_is_not_finished_again(
    smooth: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = finish_wheel(example_wheel(tmp_path), standalone=True)
    backend = SimpleNamespace(build=lambda kind, folder, settings: shutil.copy(made, folder))
    monkeypatch.setattr(build, "_builder", lambda project, tell: backend)
    monkeypatch.setattr(build, "finish_wheel", lambda *_, **__: pytest.fail("it is finished twice"))
    built = build_wheel(WheelRequest(smooth, tmp_path / "dist", standalone=True), ignore)
    assert digest(built.path) == digest(made)


def test_what_a_project_lacks_is_said(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"has no pyproject\.toml"):
        build_wheel(WheelRequest(tmp_path), ignore)
    (tmp_path / "pyproject.toml").write_text('[build-system]\nrequires = ["setuptools", "not-there-at-all"]\n')
    with pytest.raises(ToolchainError, match="pip install 'not-there-at-all'"):
        build_wheel(WheelRequest(tmp_path), ignore)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.opsmith]\noperators = ['smooth']\n", "has no [project] table"),
        (
            "[project]\nname = 'smooth'\nversion = '1'\n[tool.opsmith]\noperators = ['smooth']\n",
            "does not require opsmith",
        ),
        ("[project]\nname = 'smooth'\nversion = '1'\n", "has no operators"),
    ],
)
def test_a_project_that_makes_no_good_wheel_is_refused(tmp_path: Path, text: str, words: str) -> None:
    head = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    (tmp_path / "pyproject.toml").write_text(head + text)
    with pytest.raises(BuildError) as found:
        build_wheel(WheelRequest(tmp_path, tmp_path / "dist"), ignore)
    assert words in str(found.value)
    assert not (tmp_path / "dist").exists()


@pytest.mark.parametrize("works", [True, False])
def test_with_a_proof_json_is_one_document_still(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, works: bool) -> None:
    wheel = tmp_path / "smooth.whl"
    audit = SimpleNamespace(is_sound=True, as_json=lambda: {"sound": True})
    monkeypatch.setattr(build, "build_wheel", lambda *_: build.BuiltWheel(wheel, audit, 1.0))  # type: ignore[arg-type]
    row = Row(Claim("3.11", "2.10"), "2.10.0+cpu", "done" if works else "import")
    monkeypatch.setattr(run, "prove", lambda *_: Proof(wheel.name, "00", (row,)))
    done = CliRunner().invoke(command, [str(tmp_path), "--prove", "--json"])
    assert done.exit_code == (0 if works else 1)
    said = json.loads(done.stdout)
    assert said["wheel"] == str(wheel)
    assert said["proof"]["ok"] == works
