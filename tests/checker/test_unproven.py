"""An operator of which nothing could be called does not pass; what the reference takes is looked for first."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from opsmith.checker.properties.table import chosen
from opsmith.checker.report import Report
from opsmith.checker.run import CheckPlan, run_check
from opsmith.spec.annotations import Choices, read_signature
from opsmith.subject.index_bounds import with_index_bounds
from opsmith.subject.scalar_values import named_values
from opsmith.subject.space import IndexBound, Space
from opsmith.subject.subject import subject_of


def check(function: Any, *names: str, reference: Any = None, **options: Any) -> Report:
    subject = subject_of(function, reference=reference or function, devices=("cpu",), **options)
    return run_check(subject, CheckPlan(chosen(names), dtypes=("float32",)))


def pair_sums(x: Float[Tensor, "N"], halves: Int64[Tensor, "2"]) -> Float[Tensor, "2"]:
    """The sums of the first and the second part of x; `halves` are their lengths."""
    if int(halves.sum()) != len(x) or len(x) < 5000:
        raise ValueError("the halves do not make up x")
    return torch.stack([part.sum() for part in x.split(halves.tolist())])


def test_what_was_never_called_does_not_pass() -> None:
    assert check(pair_sums, "sizes", "strides").failed == ("sizes",)
    report = check(pair_sums, "value", "sizes", "strides")
    assert report.failed == ("value",)  # one defect, one name
    finding = report.findings[0]
    assert "nothing was compared: the reference does not take any of" in finding.message
    assert "ValueError: the halves do not make up x (for plain: x (2,), halves (2,))" in finding.message
    assert "examples=" in finding.hint


def test_a_mistake_in_the_body_is_told_with_its_line_and_without_advice() -> None:
    def misspelt(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
        return x.sinn()

    def chosen_by_name(x: Float[Tensor, "N"], name: str) -> Float[Tensor, "N"]:
        return getattr(x, name)()

    finding = check(misspelt, "value").findings[0]
    line = misspelt.__code__.co_firstlineno + 1
    assert "the reference itself fails, for each of" in finding.message
    assert "AttributeError: 'Tensor' object has no attribute 'sinn' (for plain: x (2,))" in finding.message
    assert f"{__file__}:{line}: return x.sinn()" in finding.message
    assert not finding.hint
    # There the values are at fault, and the user can give others.
    assert "examples=" in check(chosen_by_name, "value").findings[0].hint


def test_examples_of_several_sizes_make_it_pass() -> None:
    examples = [(torch.randn(n), torch.tensor([n - 5, 5])) for n in (5000, 5007)]
    report = check(pair_sums, "value", "sizes", examples=examples)
    assert report.ok, str(report)
    assert all(result.outcome.inputs >= 2 for result in report.results)


def test_an_example_without_a_signature_is_tried_in_other_sizes() -> None:
    def short(x: Tensor) -> Tensor:
        return x + (x.shape[0] > 5)

    report = check(short, "value", "sizes", reference=lambda x: x + 0, examples=[(torch.randn(4),)])
    assert report.failed == ("sizes",)


def test_a_reference_of_one_type_is_called_in_it() -> None:
    table = torch.tensor([2.0, 3.0])

    def by_table(x: Float32[Tensor, "B 2"]) -> Float32[Tensor, "B"]:
        return x @ table

    def wrong(x: Tensor) -> Tensor:
        return x @ table.flip(0)

    subject = subject_of(wrong, reference=by_table)
    assert run_check(subject, CheckPlan(chosen(("value",)))).failed == ("value",)
    subject = subject_of(by_table, reference=by_table)
    (result,) = run_check(subject, CheckPlan(chosen(("value",)))).results
    assert result.outcome.inputs >= 2


def rows(table: Float[Tensor, "V N"], index: Int64[Tensor, "M"]) -> Float[Tensor, "M N"]:
    return table[index]


def columns(table: Float[Tensor, "V N"], index: Int64[Tensor, "M"]) -> Float[Tensor, "V M"]:
    return table[:, index]


def from_one(table: Float[Tensor, "V N"], index: Int64[Tensor, "M"]) -> Float[Tensor, "M N"]:
    if (index < 1).any():
        raise IndexError("places count from 1")
    return table[index - 1]


def of_two(pair: Float[Tensor, "2 N"], index: Int64[Tensor, "N"]) -> Float[Tensor, "N"]:
    return pair.gather(0, index[None])[0]


def counts(x: Float[Tensor, "N"], count: Int64[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x * count


@pytest.mark.parametrize(
    ("function", "bound"),
    [
        (rows, {"index": IndexBound(size="V")}),
        (columns, {"index": IndexBound(size="N")}),
        (from_one, {"index": IndexBound(first=1, size="V")}),
        (of_two, {"index": IndexBound(number=2)}),
        (counts, {}),
    ],
)
def test_indices_stay_below_what_the_reference_takes(function: Any, bound: dict[str, Any]) -> None:
    subject = with_index_bounds(subject_of(function, reference=function))
    assert subject.index_bounds == bound
    for case in subject.suite.cases(subject.dtypes[0], "plain"):
        if case.label != "integers of both signs":
            subject.results(subject.reference, case.build())


def test_values_that_the_definition_names() -> None:
    def named(x: Float[Tensor, "N"], kind: Literal["a", "b"], how: str = "sum", p: int = 2) -> Float[Tensor, "N"]:
        if how in ("mean", "max") or p == 7:
            return x
        return {"min": x}[how]

    found = named_values(named, ("how", "p", "kind"))
    assert {name: set(values) for name, values in found.items()} == {"how": {"mean", "max", "min"}, "p": {7}}
    signature = read_signature(named, Choices())
    scalars = Space(signature, named_values(named, ("how", "p"))).scalars
    assert scalars["kind"] == ("a", "b")
    assert scalars["how"][0] == "sum"
    assert set(scalars["how"]) == {"sum", "mean", "max", "min"}
    assert scalars["p"][:3] == (2, 7, 3)
    assert {-1, 0, 5} <= set(scalars["p"])
