"""Options are declared once: signatures, documentation and the refusal of misspelt names come from the dataclasses."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
from dataclasses import MISSING, dataclass, fields
from pathlib import Path

import pytest
import torch

import opsmith
from opsmith._keywords import Option, keywords_of, option
from opsmith.benchmark.options import BenchOptions
from opsmith.checker.options import CheckOptions
from opsmith.cli import main
from opsmith.cli.bench import command as bench
from opsmith.cli.check import command as check
from opsmith.cli.options import read_options
from opsmith.cli.profile import command as profile
from opsmith.errors import ArgumentError, ArgumentTypeError, DefinitionError
from opsmith.profiler.options import ProfileOptions
from opsmith.runtime.options import DefinitionOptions, OpOptions

VERBS = {
    opsmith.op: OpOptions,
    opsmith.Operator.backward: DefinitionOptions,
    opsmith.check: CheckOptions,
    opsmith.bench: BenchOptions,
    opsmith.profile: ProfileOptions,
}
COMMANDS = [(check, CheckOptions), (bench, BenchOptions), (profile, ProfileOptions)]


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
    with pytest.raises(
        TypeError, match=r"choose\(\): too many positional arguments; options are keywords, such as size="
    ):
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


@pytest.mark.parametrize(
    ("verb", "given", "message"),
    [
        (opsmith.check, {"device": "cuda"}, r"check\(\) has no option 'device'; did you mean 'devices'\?"),
        (opsmith.bench, {"devices": "cuda"}, r"bench\(\) has no option 'devices'; did you mean 'device'\?"),
        (opsmith.profile, {"dtypes": ()}, r"profile\(\) has no option 'dtypes'; did you mean 'dtype'\?"),
    ],
)
def test_a_misspelt_option_of_a_verb_names_the_right_one(verb, given, message):
    with pytest.raises(ArgumentTypeError, match=message):
        verb(print, **given)


@pytest.mark.parametrize(("command", "options"), COMMANDS, ids=lambda value: getattr(value, "name", ""))
def test_the_command_line_has_every_option_and_reads_its_defaults(command, options):
    context = command.make_context(command.name, ["somewhere"])
    assert {one.name for one in fields(options)} <= set(context.params)
    assert read_options(options, context.params) == options()


def test_the_command_line_reads_what_the_function_takes():
    words = ["x", "--dtype", "float16", "--device", "cpu", "--examples", "math:sqrt", "--seconds", "3", "--thorough"]
    found = read_options(CheckOptions, check.make_context("check", words).params)
    expected = {"dtypes": "float16", "devices": "cpu", "examples": math.sqrt, "seconds": 3.0, "thorough": True}
    assert found == CheckOptions(**expected)
    words = ["x", "--no-ncu", "--size", "B=64,N=3", "--size", "B=1", "--phase", "forward", "--trace", "t.json"]
    found = read_options(ProfileOptions, profile.make_context("profile", words).params)
    sizes = [{"B": 64, "N": 3}, {"B": 1}]
    assert found == ProfileOptions(ncu=False, sizes=sizes, phases="forward", trace="t.json")


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("check x --dtpye float32", "--dtype"),
        ("bench x --devices cpu", "--device"),
        ("profile x --sizes B=3", "--size"),
        ("chek x", "check"),
    ],
)
def test_a_misspelt_command_line_names_the_right_one(line, right, capsys):
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    assert right in capsys.readouterr().err.partition("Did you mean")[2]  # the words around it are click's


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_check_without_time_is_refused(seconds):
    with pytest.raises(ArgumentError, match="seconds must be more than 0"):
        CheckOptions(seconds=seconds)


def test_one_name_and_a_list_of_one_are_the_same():
    one = CheckOptions(devices="cpu", dtypes=torch.float32, properties="value")
    assert one == CheckOptions(devices=["cpu"], dtypes=iter(["float32"]), properties=("value",))
    assert BenchOptions(phases=["both", "forward"]).phases == ("forward", "both")


PROGRAM = """
from typing import Any
import opsmith
import opsmith.benchmark
import opsmith.checker

@opsmith.op
def plain(x: Any) -> Any: return x

@opsmith.op(cpu="f.cpp", saved="y")
def given(x: Any) -> Any: return x

operators: list[opsmith.Operator] = [plain, given]
opsmith.op(cup="f.cpp")  # E
opsmith.op(cpu=3)  # E
plain.backward(cpu="f.cpp", batch=False)
plain.backward(output="grad_x")  # E

one: opsmith.checker.Report = opsmith.check(plain, dtypes=["float32"], seconds=3)
several: opsmith.benchmark.BenchReports = opsmith.bench([plain], phases="forward", sizes=[{"N": 3}])
opsmith.check(plain, device="cpu")  # E
opsmith.profile(plain, ncu="no")  # E
"""


@pytest.mark.nightly("mypy over torch; `make lint` checks opsmith itself")
def test_a_type_checker_knows_every_option(tmp_path: Path):
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    flags = ["--strict", "--no-error-summary", "--hide-error-context", "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *flags, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    wrong = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error: " in line}
    assert wrong == {number for number, line in enumerate(PROGRAM.splitlines(), 1) if "# E" in line}, done.stdout
