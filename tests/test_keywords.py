"""Options are declared once: signatures, documentation and the refusal of misspelt names come from the dataclasses."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import MISSING, dataclass, fields
from pathlib import Path

import pytest

import opsmith
from opsmith._keywords import Option, keywords_of, option
from opsmith.errors import ArgumentTypeError, DefinitionError
from opsmith.runtime.options import DefinitionOptions, OpOptions

VERBS = {opsmith.op: OpOptions, opsmith.Operator.backward: DefinitionOptions}


@dataclass(frozen=True, kw_only=True)
class Choices:
    size: int = option(3, Option("How many."))
    names: tuple[str, ...] = option((), Option("Which.", unset="all"))


@keywords_of(Choices)
def choose(what: str, options: Choices) -> tuple[str, Choices]:
    """Choose."""
    return what, options


def test_keywords_become_one_object():
    assert choose("a") == ("a", Choices())
    assert choose(what="a", size=4, names=("b",)) == ("a", Choices(size=4, names=("b",)))
    assert str(inspect.signature(choose)).startswith("(what: 'str', *, size: 'int' = 3, names: 'tuple[str, ...]' = ())")
    assert inspect.getdoc(choose) == (
        "Choose.\n\nParameters\n----------\nsize\n    How many.\nnames\n    Which. Default: all."
    )


def test_what_does_not_fit_is_refused():
    with pytest.raises(ArgumentTypeError, match=r"choose\(\) has no option 'sise'; did you mean 'size'\?"):
        choose("a", sise=4)
    with pytest.raises(TypeError, match="has no option 'x'; there are size, names"):
        choose("a", x=4)
    with pytest.raises(TypeError, match="too many positional arguments"):
        choose("a", 4)
    with pytest.raises(TypeError, match="missing a required argument: 'what'"):
        choose()


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_every_option_shows_its_type_and_default_and_is_documented(verb):
    keywords = {
        name: (one.annotation, one.default)
        for name, one in inspect.signature(verb).parameters.items()
        if one.kind is one.KEYWORD_ONLY
    }
    assert keywords == {one.name: (one.type, one.default) for one in fields(VERBS[verb])}
    assert MISSING not in {one.default for one in fields(VERBS[verb])}
    assert all(f"\n{name}\n    " in verb.__doc__ for name in keywords)


@pytest.mark.parametrize(
    ("misspelt", "message"),
    [
        (lambda: opsmith.op(cup="f.cpp"), r"op\(\) has no option 'cup'; did you mean 'cpu'\?"),
        (lambda: opsmith.op(dtype=()), r"op\(\) has no option 'dtype'; did you mean 'dtypes'\?"),
        (lambda: opsmith.op(lambda x: x, name="f"), r"op\(\) has no option 'name'; did you mean 'namespace'\?"),
    ],
)
def test_a_misspelt_option_of_a_definition_names_the_right_one(misspelt, message):
    with pytest.raises(DefinitionError, match=message):
        misspelt()


def test_a_misspelt_option_of_a_backward_names_the_right_one():
    with pytest.raises(DefinitionError, match=r"backward\(\) has no option 'output'; did you mean 'outputs'\?"):
        opsmith.Operator.backward(None, output=())


PROGRAM = """
from typing import Any
import opsmith

@opsmith.op
def plain(x: Any) -> Any: return x

@opsmith.op(cpu="f.cpp", saved="y")
def given(x: Any) -> Any: return x

operators: list[opsmith.Operator] = [plain, given]
opsmith.op(cup="f.cpp")  # E
opsmith.op(cpu=3)  # E
plain.backward(cpu="f.cpp", batch=False)
plain.backward(output="grad_x")  # E
"""


@pytest.mark.slow("mypy over torch")
def test_a_type_checker_knows_every_option(tmp_path: Path):
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    flags = ["--strict", "--no-error-summary", "--hide-error-context", "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *flags, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    wrong = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error: " in line}
    assert wrong == {number for number, line in enumerate(PROGRAM.splitlines(), 1) if "# E" in line}, done.stdout
