"""Where `opsmith build` puts libraries, and that nothing else in that folder is touched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from opsmith.build import builders
from opsmith.build.builders import Request, output_folder
from opsmith.build.prebuilt import library_name
from opsmith.errors import BuildError
from opsmith.spec.definition import Group
from opsmith.store import Manifest

Build = Callable[[Path], Path]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Path, Build], Path]:
    """Return a function that runs a builder whose compilers are replaced by a function of the folder to build in."""

    def describe(plan: Any, toolchain: Any, target: Any, folder: Path, definitions: Any) -> Manifest:
        return Manifest.describe(
            folder / "_ops.so",
            name="own",
            inputs={},
            devices=("cpu",),
            archs=(),
            toolchain={},
            torch_version=None,
            opsmith_version="0",
        )

    def do(builder: str, output: Path, build: Build) -> Path:
        monkeypatch.setattr(builders, "write_description", describe)
        monkeypatch.setattr("opsmith.build.setuptools.run_build_ext", lambda prepared, folder, *more: build(folder))
        monkeypatch.setattr("opsmith.build.cmake.run_cmake", lambda prepared, folder, *more: build(folder))
        prepared: Any = SimpleNamespace(plan=None, toolchain=None, target=None)
        group = Group("own", Path("own.py"), ())
        return builders.BUILDERS[builder](group, prepared, Request(("cpu",), output), builders.Watcher())

    return do


@pytest.mark.parametrize("builder", ["setuptools", "cmake"])
@pytest.mark.parametrize("fails", [False, True])
def test_the_users_files_in_the_output_folder_stay_as_they_are(
    builder: str, fails: bool, run: Callable[[str, Path, Build], Path], tmp_path: Path
) -> None:
    mine = {name: tmp_path / name / "thesis.tex" for name in ("work", "lib", "temp", "build")}
    for name, file in mine.items():
        file.parent.mkdir()
        file.write_text(name)

    def build(folder: Path) -> Path:
        assert not list(folder.iterdir())
        (folder / "lib").mkdir()
        if fails:
            raise BuildError("no")
        (folder / "lib" / "_ops.so").write_bytes(b"library")
        return folder / "lib" / "_ops.so"

    if fails:
        with pytest.raises(BuildError):
            run(builder, tmp_path, build)
    else:
        assert run(builder, tmp_path, build).read_bytes() == b"library"
    assert {name: file.read_text() for name, file in mine.items()} == {name: name for name in mine}
    made = set() if fails else {"_ops.so", "_ops.json"}
    assert {path.name for path in tmp_path.iterdir()} == made | mine.keys()


@pytest.mark.parametrize(
    ("module", "file", "place"),
    [
        ("both", "both/__init__.py", "_ops.so"),
        ("both", "both.py", "_both_ops.so"),
        ("both.one", "both/one/__init__.py", "one/_ops.so"),
        ("both.other", "both/other/__init__.py", "other/_ops.so"),
        ("both.plain", "both/plain.py", "_plain_ops.so"),
        ("both.one.deep", "both/one/deep.py", "one/_deep_ops.so"),
    ],
)
@pytest.mark.parametrize("above", ["", "top."])
def test_libraries_lie_below_the_output_folder_as_modules_lie_below_the_path(
    module: str, file: str, place: str, above: str
) -> None:
    group = Group(above + module, Path(file), ())
    assert output_folder(Path("out"), f"{above}both", group) / library_name(group.file) == Path("out", place)
