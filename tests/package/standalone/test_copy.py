"""A standalone wheel has its own opsmith and requires none; what it could not run is refused."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from make_library import library
from make_wheel import description, wheel

from opsmith.errors import BuildError
from opsmith.package.audit import audit
from opsmith.package.standalone.modules import DATA, module_files
from opsmith.package.wheel.finish import finish_wheel, is_finished

pytestmark = pytest.mark.compile

LINUX = "py3-none-linux_x86_64"
MODULE = b"from jaxtyping import Float\nimport opsmith\nfrom opsmith.errors import ShapeError\n"


def made(folder: Path, module: bytes = MODULE, at: str = "smooth/", **options) -> Path:
    files = {f"{at}_ops.so": library(), f"{at}_ops.json": description(), "smooth/lowpass.py": module}
    return wheel(folder, files, tag=LINUX, **{"requires": ("opsmith", "torch"), **options})


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_it_has_a_copy_with_its_licence_and_requires_what_opsmith_required(tmp_path):
    finished = finish_wheel(made(tmp_path), standalone=True)
    members = contents(finished)
    copied = {name.removeprefix("smooth/_opsmith/") for name in members if name.startswith("smooth/_opsmith/")}
    assert copied == {*module_files(), *DATA, "LICENSE"}
    assert b"Apache License" in members["smooth/_opsmith/LICENSE"]
    assert b'PROJECT = "smooth"' in members["smooth/_opsmith/_standalone.py"]
    assert members["smooth/lowpass.py"].splitlines()[1:] == [
        b"import smooth._opsmith as opsmith",
        b"from smooth._opsmith.errors import ShapeError",
    ]
    metadata = members["smooth-1.0.dist-info/METADATA"].decode()
    assert [line for line in metadata.splitlines() if line.startswith("Requires")] == [
        "Requires-Dist: torch>=2.10",
        "Requires-Dist: jaxtyping>=0.2.34",
    ]


def test_the_audit_finds_it_sound_and_says_what_it_is(tmp_path):
    found = audit(finish_wheel(made(tmp_path), standalone=True))
    assert found.is_sound, found
    assert found.names() == set()
    assert found.facts.wheel.copies == ("smooth._opsmith",)
    assert "opsmith    not needed   what runs the operators is in smooth._opsmith" in str(found)


def test_one_that_imports_opsmith_after_all_is_refused_by_the_audit(tmp_path):
    files = contents(finish_wheel(made(tmp_path), standalone=True))
    kept = {name: data for name, data in files.items() if ".dist-info/" not in name}
    late = b"def f():\n    import opsmith\n"
    result = audit(wheel(tmp_path, {**kept, "smooth/late.py": late}, requires=("torch>=2.10",)))
    assert "opsmith-requirement-missing" in result.names()
    assert "smooth/late.py imports opsmith" in str(result)


@pytest.mark.parametrize("requires", [("torch==2.13.*", "jaxtyping<1"), ("Torch >=2.12", "jaxtyping")])
def test_requirements_that_say_more_are_kept(tmp_path, requires):
    metadata = contents(finish_wheel(made(tmp_path, requires=(*requires, "opsmith>=0.1")), standalone=True))
    lines = metadata["smooth-1.0.dist-info/METADATA"].decode().splitlines()
    assert [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires")] == list(requires)


@pytest.mark.parametrize(
    ("folder", "package"), [("smooth/filters", "smooth"), ("namespace/filters", "namespace/filters")]
)
def test_the_copy_is_in_the_outermost_package(tmp_path, folder, package):
    files = {f"{folder}/__init__.py": MODULE, f"{folder}/_ops.so": library(), f"{folder}/_ops.json": description()}
    members = contents(finish_wheel(wheel(tmp_path, files, tag=LINUX), standalone=True))
    assert [name for name in members if name.endswith("/_standalone.py")] == [f"{package}/_opsmith/_standalone.py"]
    assert f"import {package.replace('/', '.')}._opsmith as opsmith".encode() in members[f"{folder}/__init__.py"]


def test_finishing_twice_changes_nothing(tmp_path):
    wheel_file = made(tmp_path)
    assert not is_finished(wheel_file)
    finished = finish_wheel(wheel_file, standalone=True)
    before = finished.read_bytes()
    assert is_finished(finished)
    assert finish_wheel(finished, standalone=True).read_bytes() == before


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("import opsmith.ops.nms", "smooth/lowpass.py, line 2: it imports opsmith.ops.nms"),
        ("from opsmith.checker.api import check", "it imports opsmith.checker.api.check"),
        ("from opsmith import check", "it imports opsmith.check, and a standalone wheel has what runs operators alone"),
        ("import opsmith (", "smooth/lowpass.py is not Python"),
    ],
)
def test_a_module_that_needs_more_of_opsmith_is_refused(tmp_path, statement, words):
    with pytest.raises(BuildError) as found:
        finish_wheel(made(tmp_path, f"import torch\n{statement}\n".encode()), standalone=True)
    assert words in str(found.value)


def test_a_module_without_a_package_is_refused(tmp_path):
    files = {"_smooth_ops.so": library(), "_smooth_ops.json": description(), "smooth.py": MODULE}
    with pytest.raises(BuildError, match=r"_smooth_ops\.so is not in a package"):
        finish_wheel(wheel(tmp_path, files, tag=LINUX), standalone=True)
