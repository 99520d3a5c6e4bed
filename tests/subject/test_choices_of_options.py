"""Options come in long rows and in other layouts, the most telling ones first, and few enough of them."""

from __future__ import annotations

import pytest
from jaxtyping import Float
from torch import Tensor

from opsmith.checker.process.timed_cases import interleaved
from opsmith.subject.case import Case
from opsmith.subject.subject import Subject, subject_of

Rows = Float[Tensor, "B N"]
Row = Float[Tensor, "N"]
DTYPES = {"T": "float32"}


def plain(x: Rows, y: Rows) -> Rows:
    return x + y


def scaled(x: Rows, gain: Row | None = None, bias: Row | None = None, flip: bool = False, by: str = "one") -> Rows:
    y = x if gain is None else x * gain
    y = y if bias is None else y + bias
    y = y * {"one": 1, "two": 2, "half": 0.5}[by]
    return y.flip(1) if flip else y.clone()


def subject(function: object = scaled) -> Subject:
    return subject_of(function, reference=function, devices=("cpu",))  # type: ignore[arg-type]


def with_options(function: object = scaled) -> list[Case]:
    return [case for case in subject(function).suite.cases(DTYPES) if case.has_options]


def test_an_operator_without_options_has_no_such_calls() -> None:
    assert with_options(plain) == []


def test_every_option_comes_in_long_rows_tiles_and_another_layout() -> None:
    labels = {case.label for case in with_options()}
    options = ("without gain", "without optional tensors", "flip = True", "by = 'two'", "by = 'half'")
    situations = ("N = 1025", "N = 129", "B x N = 257 x 259", "rows of 520, every tensor transposed")
    assert {f"{option}, {situation}" for option in options for situation in situations} <= labels
    assert "flip = True and without gain, N = 1025" in labels


def test_they_are_at_most_a_third_more() -> None:
    suite = subject().suite
    counts = [case.has_options for case in suite.cases(DTYPES)]
    assert 0 < sum(counts) <= counts.count(False) / 3


def test_the_first_of_each_group_are_tried_early() -> None:
    cases = interleaved(subject().suite.cases(DTYPES, "sizes", "layouts"))
    first = next(index for index, case in enumerate(cases) if case.has_options)
    assert cases[first].label == "without gain, N = 1025"
    assert first < len(cases) / 10


@pytest.mark.parametrize("label", ["without gain, N = 1025", "without gain, rows of 520, every tensor transposed"])
def test_what_is_wrong_for_the_option_anyway_is_not_charged_to_a_size_or_a_layout(label: str) -> None:
    (case,) = (case for case in with_options() if case.label == label)
    assert case.base is not None
    assert case.arguments["gain"] is case.base.arguments["gain"] is None
    assert case.usual.arguments["gain"] is not None
    assert {recipe.layout for recipe in case.base.tensors().values()} == {"contiguous"}


def test_a_size_that_is_left_out_is_left_out_with_options_too() -> None:
    suite = subject().suite
    (number,) = {case.label for case in suite.cases(DTYPES, "sizes")} & {"N = 1025"}
    limited = type(suite)(suite.space, left_out=frozenset({number}))
    assert not any("N = 1025" in case.label for case in limited.cases(DTYPES, "sizes"))
