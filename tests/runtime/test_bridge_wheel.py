"""The prebuilt bridge of opsmith-bridge: who gets it, who is told why there is none, and that no compiler is needed."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

from forks import python_c
from opsmith.package.audit.api import read_facts
from opsmith.package.wheel.finish import finish_wheel
from opsmith.runtime import bridge_library, bridge_wheel
from opsmith.runtime.bridge_build import is_free_threaded, sources_digest
from opsmith.runtime.bridge_wheel import BridgeHost, choose, find_prebuilt

PROJECT = Path(__file__).parents[2] / "packaging" / "opsmith-bridge"

HOST = BridgeHost("sources", "2.13.0+cu130", "0123456789abcdef", "x86_64")
LISTED = {
    "opsmith": "1.0",
    "sources": "sources",
    "machine": "x86_64",
    "bridges": [
        {"torch": "2.12.1", "commit": "f" * 40, "library": "2_12_1/opsmith_bridge.abi3.so"},
        {"torch": "2.13.0", "commit": HOST.commit, "library": "2_13_0/opsmith_bridge.abi3.so"},
    ],
}


def test_the_bridge_of_a_release_serves_all_its_builds() -> None:
    for build in ("", "+cpu", "+cu126", "+rocm6.4"):
        assert choose(LISTED, replace(HOST, torch=f"2.13.0{build}")) == ("2_13_0/opsmith_bridge.abi3.so", "")


@pytest.mark.parametrize(
    ("host", "told"),
    [
        (replace(HOST, torch="2.16.0"), "has bridges for torch 2.12.1, 2.13.0, and this is torch 2.16.0"),
        (replace(HOST, torch="2.12.1"), "of commit ffffffffffff, and this one is built from 0123456789ab"),
        (replace(HOST, commit="abcdef"), "of commit 0123456789ab, and this one is built from abcdef"),
        (replace(HOST, sources="others"), "is that of opsmith 1.0, whose bridge is not this opsmith's"),
        (replace(HOST, machine="aarch64"), "is for x86_64, and this machine is aarch64"),
        (replace(HOST, has_limited_api=False), "which a Python without the GIL does not have"),
        (replace(HOST, has_cxx11_abi=False), "is for release builds of torch with the C"),
        (replace(HOST, is_debug=True), "and this torch is another build"),
    ],
)
def test_no_bridge_is_taken_that_does_not_fit(host: BridgeHost, told: str) -> None:
    library, problem = choose(LISTED, host)
    assert library is None
    assert told in problem


def make_package(folder: Path, library: Path, **changes: object) -> Path:
    """Write the package of opsmith-bridge with one bridge, for this torch."""
    package = folder / bridge_wheel.PACKAGE
    (package / "here").mkdir(parents=True)
    shutil.copy(PROJECT / bridge_wheel.PACKAGE / "__init__.py", package)
    shutil.copy(library, package / "here" / library.name)
    bridge = {
        "torch": str(torch.__version__).partition("+")[0],
        "commit": str(torch.version.git_version),
        "library": f"here/{library.name}",
    }
    listed = {"opsmith": "1.0", "sources": sources_digest(), "machine": os.uname().machine, "bridges": [bridge]}
    (package / bridge_wheel.LIST).write_text(json.dumps({**listed, **changes}))
    return folder


def test_a_folder_of_that_name_is_not_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_prebuilt() == bridge_wheel.Prebuilt()
    (tmp_path / bridge_wheel.PACKAGE).mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert find_prebuilt() == bridge_wheel.Prebuilt()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"sources": 1, "bridges": 2}'])
def test_a_damaged_list_is_told_of(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(make_package(tmp_path, PROJECT / "setup.py"))
    (tmp_path / bridge_wheel.PACKAGE / bridge_wheel.LIST).write_text(text)
    assert "is damaged" in find_prebuilt().problem


def test_without_a_compiler_one_is_told_why_none_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.setattr(bridge_library, "start_in_background", lambda module, lock: started.append(module))
    monkeypatch.syspath_prepend(make_package(tmp_path, PROJECT / "setup.py", bridges=[]))
    assert bridge_library.load_bridge("auto") is None
    assert started  # there is a compiler, which makes one for the next process
    monkeypatch.setattr(bridge_library, "_compilers", lambda: [None])
    with pytest.warns(RuntimeWarning, match=r"has bridges for torch .*, and this is torch .*no C\+\+ compiler"):
        assert bridge_library.load_bridge("auto") is None
    assert "this is torch" in str(bridge_library.describe_bridge()["misfit"])


GRADIENT = """
import torch
from opsmith.ops.sigmoid import sigmoid

x = torch.linspace(-3, 3, 7, dtype=torch.float64).requires_grad_()
y = sigmoid(x)
assert "CppFunction" in repr(y.grad_fn), y.grad_fn
y.sum().backward()
assert torch.allclose(x.grad, (y * (1 - y)).detach())
assert sigmoid._fast is not None
print(*(line for line in open("/proc/self/maps") if "opsmith_bridge" in line))
"""


@pytest.fixture
def session_bridge(session_store: Path) -> Path:
    """The bridge that the tests run with, which serves every Python."""
    library = bridge_library.describe_bridge()["library"]
    if library is None:
        pytest.skip("there is no bridge in this run")
    return Path(library)


@pytest.mark.compile
@pytest.mark.skipif(is_free_threaded(), reason="a Python without the GIL has no limited API")
def test_the_bridge_needs_python_3_10_and_no_more(session_bridge: Path) -> None:
    assert session_bridge.name == "opsmith_bridge.abi3.so"
    (library,) = read_facts(session_bridge).libraries
    assert library.needs.python_limited
    assert not library.needs.python_private


@pytest.mark.compile
def test_gradients_go_through_it_without_a_compiler(session_bridge: Path, tmp_path: Path) -> None:
    site = make_package(tmp_path / "site", session_bridge)
    environment = {
        **os.environ,
        "OPSMITH_BRIDGE": "auto",
        "PATH": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(site), *sys.path]),
    }
    environment.pop("CXX", None)
    done = python_c(GRADIENT, env=environment)  # the operator is in the session's store
    assert done.returncode == 0, done.stderr
    assert f"{site}/{bridge_wheel.PACKAGE}/here/" in done.stdout


@pytest.fixture
def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_bridge_wheel", PROJECT / "build_wheel.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow("pip builds a wheel")
def test_its_wheel_is_for_every_python(session_bridge: Path, builder: ModuleType, tmp_path: Path) -> None:
    project = Path(shutil.copytree(PROJECT, tmp_path / "project"))
    (project / bridge_wheel.PACKAGE / "__init__.py").unlink()
    make_package(tmp_path / "made", session_bridge)
    shutil.copytree(tmp_path / "made", project, dirs_exist_ok=True)
    wheel = finish_wheel(builder.pack(project, tmp_path / "dist"))
    assert "-cp310-abi3-manylinux_2_" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {f"opsmith_bridges/here/{session_bridge.name}", "opsmith_bridges/bridges.json"} < names


def test_only_what_a_build_needs_is_unpacked(builder: ModuleType, tmp_path: Path) -> None:
    names = ["__init__.py", "version.py", "include/c10/a.h", "lib/libc10.so", "lib/libtorch_cuda.so", "nn/modules.py"]
    wheel = tmp_path / "torch.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in names:
            archive.writestr(f"torch/{name}", name)
    builder.unpack(wheel, tmp_path / "site")
    found = {str(file.relative_to(tmp_path / "site/torch")) for file in tmp_path.rglob("*") if file.is_file()}
    assert found == set(names[:4])
    assert not wheel.exists()
