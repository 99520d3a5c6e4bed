"""A proof installs a wheel beside torches and runs it; what cannot be had is not a success, and what fails is shown."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from click.testing import CliRunner

import opsmith
from opsmith.cli.prove import command
from opsmith.errors import BuildError
from opsmith.package.prove import run, trial
from opsmith.package.prove.environment import (
    Environment,
    MissingError,
    find_python,
    make_environment,
    own_requirement,
)
from opsmith.package.prove.result import Claim, Proof, Row
from opsmith.package.prove.run import ProofRequest, prove
from opsmith.package.prove.trial import Found, Subject, try_wheel
from opsmith.package.wheel.finish import finish_wheel
from opsmith.report.prove.text import proof_lines, row_text

HERE = "{}.{}".format(*sys.version_info[:2])
EXAMPLE = Path(__file__).parents[2] / "examples" / "smooth"


def proof(*rows: Row) -> Proof:
    return Proof("smooth-1.0-py3-none-manylinux_2_28_x86_64.whl", "0" * 64, rows)


GOOD = Row(Claim("3.11", "2.10"), "2.10.0+cpu", checks=4, inputs=200, gradients=50, seconds=30)
WRONG = Row(Claim("3.11", "2.11"), "2.11.0+cpu", "import", "ImportError: undefined symbol: at_new")
ABSENT = Row(Claim("3.12", "2.10"), problem="no python3.12 on PATH", is_missing=True, failed_at="install")


def test_a_proof_needs_an_environment_in_which_everything_holds() -> None:
    assert proof(GOOD).ok
    assert proof(GOOD, ABSENT).ok
    assert not proof(GOOD, WRONG).ok
    assert not proof(ABSENT).ok
    assert not proof().ok


def test_the_matrix_has_a_mark_for_each_environment() -> None:
    text = list(proof_lines(proof(GOOD, WRONG, ABSENT)))
    assert text[:3] == ["torch         2.10  2.11", "Python 3.11   ✓     ✗", "Python 3.12   –"]
    assert "✗ Python 3.11, torch 2.11: fails at import: ImportError: undefined symbol: at_new" in text
    assert "– Python 3.12, torch 2.10: is not here: no python3.12 on PATH" in text
    assert text[-1].startswith("works in 1 of 2 environments · 1 cannot be had here · 200 inputs")


def test_what_was_not_tried_is_not_called_proved() -> None:
    assert list(proof_lines(proof(ABSENT)))[-1].startswith("not proved: none of the environments")
    assert list(proof_lines(proof(GOOD)))[-1].startswith("proved: works in all 1 environments")
    assert row_text(GOOD) == "Python 3.11, torch 2.10 (2.10.0+cpu): 4 checks of 200 inputs hold, 50 of gradients, 30 s"


def test_this_python_is_found_and_another_is_not() -> None:
    assert find_python(HERE) == Path(sys.executable)
    assert find_python("3.99") is None


def test_a_python_of_pyenv_is_found_and_its_mere_name_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = "3.98"
    shim = tmp_path / f"python{other}"  # pyenv's own on PATH: it knows the name, and no such Python is chosen
    shim.write_text("#!/bin/sh\nexit 127\n")
    real = tmp_path / f"versions/{other}.1/bin/python{other}"
    real.parent.mkdir(parents=True)
    real.write_text(f"#!/bin/sh\necho {other}\n")
    for program in (shim, real):
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "none"))
    assert find_python(other) is None
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert find_python(other) == real


@pytest.fixture(scope="module")
def smooth(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the example's wheel from a copy: pip builds in the folder, where another worker may be at it."""
    folder = tmp_path_factory.mktemp("wheels")
    sources = shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("sources") / "smooth")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-build-isolation",
        "--no-deps",
        "-w",
        str(folder),
        str(sources),
    ]
    subprocess.run(pip, check=True, capture_output=True)
    (wheel,) = folder.iterdir()
    return wheel


@pytest.fixture
def here(user_python: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take an environment with this torch for each that can be had: torch 2.10 and 2.11, and no other."""

    def make(root: Path, claim: Claim, opsmith: Any, index: str | None) -> Environment:
        if claim.torch not in ("2.10", "2.11"):
            raise MissingError(f"torch {claim.torch} cannot be installed: no matching distribution")
        return Environment(Path(user_python.executable).parents[1])

    monkeypatch.setattr(run, "make_environment", make)


@pytest.mark.compile
@pytest.mark.slow("builds a wheel with pip, and checks it in processes of its own")
@pytest.mark.usefixtures("here")
def test_a_wheel_is_installed_and_checked_without_a_compiler(smooth: Path) -> None:
    told: list[str] = []
    request = ProofRequest(torches=("2.10", "2.15"), seconds=60, jobs=1)
    found = prove(smooth, request, lambda claim, row: told.append(f"{claim}" if row is None else row_text(row)))
    good, absent = found.rows
    assert good.ok, good.problem
    assert good.checks >= 4 and good.inputs > good.gradients > 0
    assert absent.is_missing
    assert found.ok
    assert told[0] == f"Python {HERE}, torch 2.10"
    assert "not tried: torch 2.15 cannot be installed" in told[3]


@pytest.mark.compile
@pytest.mark.slow("builds a wheel with pip, and checks it in processes of its own")
@pytest.mark.usefixtures("here")
def test_what_fails_in_the_check_is_shown_with_its_reason(
    smooth: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = trial.check_module

    def spoiled(environment: Environment, module: str, *more: Any) -> Any:
        file = next(environment.root.glob("lib/python*/site-packages/smooth/__init__.py"))
        file.write_text(f"{file.read_text()}\nraise ImportError('spoiled')\n")
        return checked(environment, module, *more)

    monkeypatch.setattr(trial, "check_module", spoiled)
    found = prove(smooth, ProofRequest(torches=("2.10",), seconds=3), lambda claim, row: None)
    assert not found.ok
    assert found.rows[0].failed_at == "check"
    assert "spoiled" in found.rows[0].problem


@pytest.mark.compile
@pytest.mark.slow("builds a wheel with pip, and checks it in processes of its own")
@pytest.mark.usefixtures("here")
def test_a_standalone_wheel_runs_with_its_copy_before_opsmith_checks_it(
    smooth: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs: list[str] = []
    ran = Environment.run

    def run_in(self: Environment, *arguments: Any, seconds: float) -> Any:
        programs.append(str(arguments[1]))
        return ran(self, *arguments, seconds=seconds)

    monkeypatch.setattr(Environment, "run", run_in)
    monkeypatch.setattr(run, "own_requirement", lambda folder: ())
    monkeypatch.setattr(trial, "_PROPERTIES", ("value",))  # gradients take longer, and are the test's above
    wheel = finish_wheel(Path(shutil.copy(smooth, tmp_path)), standalone=True)
    found = prove(wheel, ProofRequest(torches=("2.10",), seconds=60), lambda claim, row: None)
    assert found.ok, found.rows[0].problem
    assert found.rows[0].inputs > 0
    loading = next(program for program in programs if program.startswith("import torch"))
    blocked = "import sys\nsys.modules['opsmith'] = None\nimport smooth\n"
    assert f"{blocked}from smooth._opsmith.runtime.operator import load_module\nload_module('smooth')" in loading
    assert programs.index(loading) < programs.index("opsmith")


def tried(
    found: Found, monkeypatch: pytest.MonkeyPatch, torch: str = "2.10.0 False", has_gpu_code: bool = False
) -> Row:
    """Return the row of a wheel whose check finds this, in an environment that has torch and nothing else."""
    done = SimpleNamespace(returncode=0, stdout=f"a line of the package's\n{trial._TORCH}{torch}\n")
    environment: Any = SimpleNamespace(run=lambda *_, **__: done, install=lambda *_: "")
    monkeypatch.setattr(trial, "check_module", lambda *_: found)
    subject = Subject(Path("smooth.whl"), ("smooth",), has_gpu_code=has_gpu_code)
    return try_wheel(subject, Claim(HERE, "2.10"), environment, (), 3)


CPU = Found(holding=4, inputs=18, gradients=9, devices=frozenset({"cpu"}))


def test_a_check_without_time_for_a_single_input_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    row = tried(Found(), monkeypatch)
    assert (row.failed_at, row.problem) == ("check", "nothing of smooth was compared within 3 s (--seconds)")


def test_a_gradient_that_is_there_and_was_not_compared_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    without = replace(CPU, gradients=0)
    assert tried(CPU, monkeypatch).gradients == 9
    assert tried(without, monkeypatch).ok  # the operator has none
    row = tried(replace(without, no_time=True), monkeypatch)
    assert (row.failed_at, row.problem) == ("gradient", "no gradient of smooth was compared within 3 s (--seconds)")


def test_gpu_code_is_run_where_there_is_a_gpu_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = "2.11.0+cu130 True"
    assert tried(CPU, monkeypatch, has_gpu_code=True).devices == ("cpu",)
    assert tried(CPU, monkeypatch, torch=gpu).devices == ("cpu",)
    row = tried(replace(CPU, devices=frozenset({"cpu", "cuda"})), monkeypatch, torch=gpu, has_gpu_code=True)
    assert row.ok
    assert row.devices == ("cpu", "cuda")
    assert row_text(row).startswith(f"Python {HERE}, torch 2.10 (2.11.0+cu130) on CPU and GPU: 4 checks of 18 inputs")
    missed = tried(CPU, monkeypatch, torch=gpu, has_gpu_code=True)
    assert missed.problem == "nothing on cuda was compared within 3 s (--seconds)"


def test_what_a_check_says_is_told_by_step() -> None:
    def result(name: str, *findings: str, **more: Any) -> dict[str, Any]:
        listed = [{"message": text} for text in findings]
        found = {"property": name, "device": "cpu", "state": "failed" if findings else "passed", "findings": listed}
        return {**found, "inputs": 5, "is_out_of_time": False, **more}

    def found(*results: dict[str, Any], ok: bool = True) -> Found:
        content = json.dumps({"ok": ok, "operators": [{"results": results}]})
        environment: Any = SimpleNamespace(run=lambda *_, **__: SimpleNamespace(stdout=content, stderr=""))
        return trial.check_module(environment, "smooth", ("cpu",), 3)

    good = found(result("value"), result("gradient"))
    assert (good.holding, good.inputs, good.gradients, good.wrong, good.no_time) == (2, 10, 5, {}, False)
    assert found(result("value"), result("gradient", is_out_of_time=True)).no_time
    bad = found(result("value"), result("gradient", "is 2, not 3"), result("sizes", "crashes"), ok=False)
    assert bad.wrong == {"gradient": "gradient: is 2, not 3", "check": "sizes: crashes"}
    assert found(result("value"), ok=False).wrong == {"check": "the check itself failed"}


def test_torch_is_installed_once_for_a_folder_that_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for name, release in (("torch", "2.10.0"), ("opsmith_stub", "1.0")):
        info = f"{name}-{release}.dist-info"
        with zipfile.ZipFile(wheels / f"{name}-{release}-py3-none-any.whl", "w") as archive:
            archive.writestr(f"{name}.py", f"__version__ = '{release}'\n")
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    claim = Claim(HERE, "2.10")
    for _ in range(2):
        environment = make_environment(tmp_path / "kept", claim, ("opsmith_stub",), None)
        asked = environment.run("-c", "import torch, opsmith_stub; print(torch.__version__)", seconds=60)
        assert asked.stdout.strip() == "2.10.0", asked.stderr
        (wheels / "torch-2.10.0-py3-none-any.whl").unlink(missing_ok=True)
    assert "opsmith_stub" in str(list((tmp_path / "kept/trial").rglob("opsmith_stub.py")))
    assert not list((tmp_path / "kept/torch").rglob("opsmith_stub.py"))
    with pytest.raises(MissingError, match=r"torch 2\.11 cannot be installed"):
        make_environment(tmp_path / "kept", Claim(HERE, "2.11"), (), None)


@pytest.mark.slow("pip builds a wheel of opsmith")
def test_opsmith_is_built_once_for_all_environments(tmp_path: Path) -> None:
    (wheel,) = own_requirement(tmp_path)
    assert Path(wheel).name.startswith(f"opsmith-{opsmith.__version__}-py3-none-any")


def test_gpu_code_that_did_not_run_is_told_of() -> None:
    wheel = {"wheel": "smooth.whl", "sha256": "0" * 64, "has_gpu_code": True}
    told = "its kernels for GPUs were not run"
    assert told in "\n".join(proof_lines(Proof(rows=(GOOD,), **wheel)))
    assert told not in "\n".join(proof_lines(Proof(rows=(replace(GOOD, devices=("cpu", "cuda")),), **wheel)))
    assert told not in "\n".join(proof_lines(proof(GOOD)))


@pytest.mark.compile
@pytest.mark.slow("builds a wheel with pip, and checks it in processes of its own")
@pytest.mark.parametrize("is_standalone", [False, True])
def test_the_environment_that_is_here_needs_no_network(
    is_standalone: bool, smooth: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    monkeypatch.setattr(trial, "_PROPERTIES", ("value", "gradient"))
    wheel = finish_wheel(Path(shutil.copy(smooth, tmp_path)), standalone=is_standalone)
    found = prove(wheel, ProofRequest(here=True, seconds=60, keep=tmp_path / "kept"), lambda claim, row: None)
    (row,) = found.rows
    assert row.ok, row.problem
    assert row.claim.python == HERE
    assert row.torch == torch.__version__
    assert row.inputs > row.gradients > 0
    assert list((tmp_path / "kept").glob("*/lib/python*/site-packages/smooth/_ops.so"))


def test_here_selects_nothing_else(tmp_path: Path) -> None:
    wheel = tmp_path / "smooth.whl"
    wheel.write_bytes(b"no wheel")
    result = CliRunner().invoke(command, [str(wheel), "--here", "--python", "3.12"])
    assert result.exit_code == 2
    assert "leave out what selects others" in result.output


def test_a_wheel_without_operators_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "smooth-1.0-py3-none-any.whl"
    path.write_bytes(b"no wheel")
    with pytest.raises(BuildError, match="has no operators"):
        prove(path, ProofRequest(), lambda claim, row: None)


@pytest.mark.compile
@pytest.mark.slow("builds a wheel with pip")
def test_the_command_exits_with_1_where_nothing_can_be_had(smooth: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(command, [str(smooth), "--python", "3.99", "--torch", "2.13", "--json"])
    assert result.exit_code == 1
    content = json.loads(result.stdout)
    assert [row["problem"] for row in content["rows"]] == ["no python3.99 on PATH, nor of pyenv or uv"]
