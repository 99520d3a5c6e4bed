"""A project has a name that pip, Python and PyTorch can live with, and a folder of its own."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import hypothesis.strategies
import pytest
from click.testing import CliRunner

from opsmith.cli import new
from opsmith.errors import ArgumentValueError
from opsmith.scaffold import licenses
from opsmith.scaffold.licenses import LICENSES, apache_text
from opsmith.scaffold.names import module_of, refuse_name
from opsmith.scaffold.project import RECIPES, Project
from opsmith.scaffold.write import write_project


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("name", "module"),
    [("fastnorm", "fastnorm"), ("fast-norm", "fast_norm"), ("fast_norm", "fast_norm"), ("org.norm2-x", "org_norm2_x")],
)
def test_a_good_name_is_taken(name: str, module: str) -> None:
    refuse_name(name)
    assert module_of(name) == module


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("Fast Norm", "fast-norm"),
        ("2fast", "fast"),
        ("fast--norm", "fast-norm"),
        ("_fast", "fast"),
        ("../fast", "fast"),
        ("a" * 51 + "!", "a" * 50),
        ("fast-", "fast"),
        ("fast\n", "fast"),
    ],
)
def test_a_bad_name_is_refused_with_one_that_would_do(name: str, better: str) -> None:
    with pytest.raises(ArgumentValueError, match="lower-case letters") as refused:
        refuse_name(name)
    assert str(refused.value).endswith(f"such as {better}")
    refuse_name(better)


@hypothesis.given(
    hypothesis.strategies.one_of(hypothesis.strategies.text(), hypothesis.strategies.from_regex(r"[a-z_.0-9-]+"))
)
def test_any_text_is_a_module_or_is_refused_in_words(name: str) -> None:
    try:
        refuse_name(name)
    except ArgumentValueError as error:
        assert repr(name) in str(error)
        str(error).encode()
    else:
        assert module_of(name).isidentifier()


@pytest.mark.parametrize("name", ["", "-", "42", "ä"])
def test_a_name_without_a_letter_is_refused_without_advice(name: str) -> None:
    with pytest.raises(ArgumentValueError, match=r"between words$"):
        refuse_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("class", "keyword of Python"),
        ("lambda", "keyword of Python"),
        ("tests", "has tests for something else"),
        ("bench", "has bench for something else"),
        ("aten", "belongs to PyTorch"),
        ("json", "Python has a module json"),
        ("torch", "already finds"),
        ("opsmith", "already finds"),
        ("a" * 51, "51 characters"),
    ],
)
def test_a_name_that_clashes_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(ArgumentValueError, match=reason):
        refuse_name(name)


def test_an_empty_folder_on_the_path_is_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fastnorm").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    refuse_name("fastnorm")
    (tmp_path / "fastnorm" / "__init__.py").touch()
    with pytest.raises(ArgumentValueError, match=r"already finds .*fastnorm/__init__\.py"):
        refuse_name("fastnorm")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"license": "GPL"}, "no licence 'GPL'; there are MIT, BSD-3-Clause"),
        ({"recipes": ("github", "docker")}, "no recipe 'docker'; there are github"),
        ({"author": "A\x1b[31m"}, "cannot be printed"),
        ({"author": "A\udcff"}, "cannot be printed"),
    ],
)
def test_what_does_not_exist_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ArgumentValueError, match=words):
        Project("fastnorm", **options)  # type: ignore[arg-type]


def test_a_release_has_the_recipe_for_github_unless_others_are_named() -> None:
    assert Project("fastnorm").recipes == ()
    assert Project("fastnorm", wheel=True).recipes == ("github",)
    assert Project("fastnorm", wheel=True, recipes=("kernels", "conda", "kernels")).recipes == ("conda", "kernels")


def test_a_folder_with_something_in_it_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("mine")
    with pytest.raises(ArgumentValueError, match="is not empty"):
        write_project(Project("fastnorm"), tmp_path)
    with pytest.raises(ArgumentValueError, match="is a file"):
        write_project(Project("fastnorm"), tmp_path / "kept.txt")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    with pytest.raises(ArgumentValueError, match="is a file"):
        write_project(Project("fastnorm"), tmp_path / "nowhere")
    assert [path.name for path in files_below(tmp_path)] == ["kept.txt"]


def test_a_licence_that_cannot_be_had_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(licenses, "_HOLDERS", (("opsmith", "no-such-file"), ("no-such-package", "LICENSE")))
    with pytest.raises(ArgumentValueError, match="choose MIT or BSD-3-Clause"):
        write_project(Project("fastnorm", license="Apache-2.0"), tmp_path / "fastnorm")
    assert not (tmp_path / "fastnorm").exists()


def test_the_text_of_apache_is_found() -> None:
    text = apache_text()
    assert text.count("\n") > 150
    assert "Grant of Patent License" in text


def test_the_command_offers_what_there_is() -> None:
    assert new._LICENSES == LICENSES
    assert new._RECIPES == RECIPES


def test_the_command_writes_and_says_what_is_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(new, "find_spec", lambda name: name)
    done = CliRunner().invoke(new.command, ["fast-norm", "--author", "A. Person"])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == "fast-norm/"
    written = [line.split()[0] for line in lines[1:] if line.startswith("  ")][:-3]
    assert sorted(written) == sorted(
        path.relative_to("fast-norm").as_posix() for path in files_below(Path("fast-norm"))
    )
    assert [line.split("#")[0].strip() for line in lines[-3:]] == ["cd fast-norm", "python -m pytest", "opsmith wheel"]
    assert "A. Person\n" in (tmp_path / "fast-norm" / "LICENSE").read_text()
    again = CliRunner().invoke(new.command, ["fast-norm"])
    assert isinstance(again.exception, ArgumentValueError)


@pytest.mark.parametrize(
    ("missing", "options", "extra"), [("pytest", [], "setuptools"), ("scikit_build_core", ["--cmake"], "cmake")]
)
def test_what_the_next_commands_need_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, options: list[str], extra: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(new, "find_spec", lambda name: None if name == missing else name)
    done = CliRunner().invoke(new.command, ["fast-norm", *options])
    assert done.output.splitlines()[-3].startswith(f'  pip install pytest "opsmith[{extra},wheel]"')


def test_in_a_terminal_the_licence_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(new, "_is_terminal", lambda: True)
    done = CliRunner().invoke(new.command, ["fastnorm"], input="gpl\nbsd-3-clause\n")
    assert done.exit_code == 0, done.output
    assert "BSD 3-Clause" in (tmp_path / "fastnorm" / "LICENSE").read_text()
    # A bad name is refused before the question, and what is given is not asked for.
    assert "Licence" not in CliRunner().invoke(new.command, ["Fast"], input="\n").output
    assert "Licence" not in CliRunner().invoke(new.command, ["fast2", "--license", "mit"]).output
