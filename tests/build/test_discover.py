"""What stands for operators on a command line, and what is said of a module that cannot be imported."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

from opsmith.build.discover import discover, module_names
from opsmith.errors import DefinitionError


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(:\n", r"broken cannot be imported: .*broken.py\", line 1(.|\n)*SyntaxError: invalid syntax"),
        ("raise ValueError('no')\n", r"broken cannot be imported: ValueError: no\n  .*broken.py:1: raise ValueError"),
        ("import sys\nsys.exit(3)\n", r"broken cannot be imported: SystemExit: 3\n  .*broken.py:2: sys.exit"),
        (
            "import torch, opsmith\nfrom jaxtyping import Float\n\nX = Float[torch.Tensor, 'B,N']\n",
            r"Axes should be separated with spaces, not commas\n  .*broken.py:4: X = Float",
        ),
        (
            "import opsmith\n\n@opsmith.op(dtype='float32')\ndef f() -> None: ...\n",
            r"op\(\) has no option 'dtype'; did you mean 'dtypes'\?\n  .*broken.py:3: @opsmith.op\(dtype='float32'\)",
        ),
        ("import nothing_here\n", "broken cannot be imported: No module named 'nothing_here'"),
        ("", "declares no operator"),
    ],
)
def test_a_file_that_fails_says_why_and_where(
    tmp_path: Path, text: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(DefinitionError, match=told):
        discover(str(tmp_path / "broken.py"))


@pytest.mark.parametrize("path", ["../x", "..", "a b", "", "x\0y", "/nothing", "x/y"])
def test_what_is_no_path_and_no_module(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        DefinitionError, match=r"is not a \.py file, a folder or the name of a module|must contain exactly"
    ):
        discover(path)


def test_a_module_is_found_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])  # as a script such as `opsmith` has it
    monkeypatch.delitem(sys.modules, "just_here", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "just_here.py").write_text("")
    with pytest.raises(DefinitionError, match="just_here declares no operator"):
        discover("just_here")
    assert sys.path.count(str(tmp_path)) == 1


def test_a_module_that_is_not_there_is_told_with_the_folder_that_was_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DefinitionError, match=f"^no module or folder not_here in {tmp_path}, and none is installed$"):
        discover("not_here")
    (tmp_path / "src" / "not_here").mkdir(parents=True)
    with pytest.raises(DefinitionError, match=r"^no module or folder not_here; did you mean src/not_here\?$"):
        discover("not_here")


def test_a_file_whose_name_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two words.py").write_text("")
    with pytest.raises(DefinitionError, match=r"'two words\.py' cannot be imported: 'two words' is not a name"):
        discover("two words.py")


@pytest.mark.parametrize(("path", "told"), [("x" * 5000, "no module or folder xxx"), ("x" * 300 + ".py", "no file /")])
def test_a_name_that_no_file_system_takes(path: str, told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        discover(path)


def test_a_module_of_that_name_from_another_folder_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "twice_there", raising=False)
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "twice_there.py").write_text("")
    for name, told in (("one", "declares no operator"), ("other", "is imported already, from .*/one/twice_there.py")):
        with pytest.raises(DefinitionError, match=told):
            discover(str(tmp_path / name / "twice_there.py"))


def test_files_of_a_package_that_are_no_modules_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    package = tmp_path / "with_others"
    (package / ".hidden").mkdir(parents=True)
    (package / "folder.py").mkdir()
    runs = "import opsmith\nraise SystemExit('it was run')\n"
    for name in ("run-bench.py", "__main__.py", ".hidden/smooth.py", "2d.py"):
        (package / name).write_text(runs)
    for name in (".#__init__.py", "gone.py"):
        (package / name).symlink_to("someone@somewhere.1234")
    (package / "__init__.py").write_text("")
    (package / "smooth.py").write_text("import opsmith\n")
    # Through its own folder, and found in the one above.
    for path in (package, tmp_path):
        assert module_names(str(path)) == ["with_others", "with_others.smooth"]


@pytest.mark.parametrize("text", ["import opsmith\nimport gc\nDURING = gc.isenabled()\n", "import opsmith\n1 / 0\n"])
def test_garbage_is_collected_again_after_an_import(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "without_garbage.py").write_text(text)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "without_garbage", raising=False)
    with pytest.raises(DefinitionError):  # it declares nothing, or cannot be imported
        discover(str(tmp_path / "without_garbage.py"))
    assert gc.isenabled()
    assert not getattr(sys.modules.get("without_garbage"), "DURING", False)


def test_what_was_probably_meant_is_said(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"no module or folder torch\.sin; did you mean torch::sin"):
        module_names("torch.sin")
    (tmp_path / ".#rows.py").symlink_to(tmp_path / "nothing")  # as editors lock files
    (tmp_path / "rows.py").write_text("import opsmith\n")
    with pytest.raises(DefinitionError, match=r"found none; did you mean .*rows\.py\?"):
        module_names(str(tmp_path))
