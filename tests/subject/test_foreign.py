"""Operators and functions that opsmith did not make: check, bench and profile take them, and refuse them, alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
import torch
from click.testing import CliRunner, Result
from jaxtyping import Float
from torch import Tensor

import opsmith
from opsmith.cli.bench import command as bench
from opsmith.cli.check import command as check
from opsmith.cli.profile import command as profile
from opsmith.errors import ArgumentError
from opsmith.subject.subject import subject_of
from some import some

MODULE = """
import torch
from jaxtyping import Float
from torch import Tensor

@torch.library.custom_op("opsmith_foreign::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return x + x

def plain(x):
    return x * 2

def reference(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return 2 * x

def relu(self: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return torch.where(self > 0, self, torch.zeros_like(self))

number = 3
"""
REFERENCE = ("--reference", "foreign_user:reference")
# The command of each verb, with what keeps it short.
VERBS: dict[str, tuple[click.Command, tuple[str, ...]]] = {
    "check": (check, ("--property", "value", "--dtype", "float32")),
    "bench": (bench, ("--phase", "forward", "--against", "eager", "--size", "N=64", "--seconds", "0.5")),
    "profile": (profile, ("--phase", "forward", "--size", "N=64")),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the module, which a process imports once."""
    found = tmp_path_factory.mktemp("foreign")
    (found / "foreign_user.py").write_text(MODULE)
    return found


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OPSMITH_BRIDGE", "off")

    def run(verb: str, *arguments: str) -> Result:
        command, short = VERBS[verb]
        return CliRunner().invoke(command, [*arguments, "--device", "cpu", *short])

    return run


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("name", "arguments"),
    some(
        [
            ("opsmith_foreign.twice", ("torch.ops.opsmith_foreign.twice", "--import", "foreign_user", *REFERENCE)),
            ("plain", ("foreign_user.py::plain", *REFERENCE)),
            ("aten.relu", ("torch.ops.aten.relu.default", "--reference", "foreign_user:relu")),
        ],
        1,
        "checks, timings and profiles",
    ),
)
def test_what_opsmith_did_not_make(run: Any, verb: str, name: str, arguments: tuple[str, ...]):
    done = run(verb, *arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    assert done.stdout.startswith(f"{name} ")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("torch.ops.aten.relu", *REFERENCE),
            "several overloads (default, out); name one, such as torch.ops.aten.relu.",
        ),
        (("torch.ops.aten.relu.none", *REFERENCE), "PyTorch has no torch.ops.aten.relu.none"),
        (("torch.ops.opsmith_none.relu", *REFERENCE), "PyTorch has no torch.ops.opsmith_none.relu"),
        (("torch.ops.aten", *REFERENCE), "write it as torch.ops.namespace.name"),
        (("torch.ops.aten.relu.default",), "aten.relu has no reference"),
        (("torch.ops.aten.relu.default", *REFERENCE), "the reference takes x; aten.relu takes self"),
        (("torch.ops.aten.relu.default", "--reference", "foreign_user:number"), "the reference is 3"),
        (("foreign_user.py::none", *REFERENCE), "has no 'none'"),
        (("foreign_user.py::number", *REFERENCE), "has no 'number'"),
        (("foreign_user.py", *REFERENCE), "declares no operator with @opsmith.op"),
    ],
)
def test_what_is_rejected(run: Any, verb: str, arguments: tuple[str, ...], message: str):
    done = run(verb, *arguments)
    assert done.exit_code == 2, (done.output, done.exception)
    assert message in " ".join(done.output.split())


def reference(self: Float[Tensor, "N"], other: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return self + other


def twice(self: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return self + self


def swapped(other: Float[Tensor, "N"], self: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return self + other


def scaled(self: Float[Tensor, "N"], other: Float[Tensor, "N"], alpha: float) -> Float[Tensor, "N"]:
    return self + alpha * other


@pytest.mark.parametrize("verb", [opsmith.check, opsmith.bench, opsmith.profile])
@pytest.mark.parametrize(
    ("op", "options", "message"),
    [
        ("torch.ops.aten.relu", {}, "'torch.ops.aten.relu' is not an operator"),
        (None, {}, "None is not an operator"),
        (torch.ops.aten, {}, "torch.ops.aten declares no operator"),
        ([], {}, "the list of operators is empty"),
        (torch.relu, {"reference": "torch:relu"}, "the reference is 'torch:relu'"),
        (torch.relu, {"reference": torch.nn.ReLU()}, "there are no inputs to call it with"),
        (
            torch.ops.aten.add.Tensor,
            {"reference": twice},
            "the reference takes self; aten.add.Tensor takes self, other",
        ),
        (torch.ops.aten.add.Tensor, {"reference": swapped}, "the reference takes other, self; aten.add.Tensor takes"),
        (torch.ops.aten.add.Tensor, {"reference": scaled}, "the reference takes self, other, alpha; aten.add.Tensor"),
    ],
)
def test_what_the_functions_reject(verb: Any, op: Any, options: dict[str, Any], message: str):
    with pytest.raises(ArgumentError) as error:
        verb(op, **options)
    assert message in str(error.value)


def test_arguments_with_defaults_need_no_parameter():
    assert subject_of(torch.ops.aten.add.Tensor, reference=reference).parameters == ("self", "other", "alpha")


def test_an_operator_without_a_gradient_is_profiled_without():
    @torch.library.custom_op("opsmith_foreign::thrice", mutates_args=())
    def thrice(x: Tensor) -> Tensor:
        return x * 3

    with pytest.raises(ArgumentError, match=r"opsmith_foreign\.thrice cannot be profiled with gradients \(.*autograd"):
        opsmith.profile(thrice, reference=lambda x: x * 3, examples=[(torch.ones(8),)], device="cpu")
