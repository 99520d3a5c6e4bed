"""The two sizes that say most: the smallest and the largest, in an element type that the operator has."""

from __future__ import annotations

import kit_three
import pytest
import torch
from jaxtyping import Int
from torch import Tensor

from opsmith.benchmark.extremes import extreme_workloads
from opsmith.errors import ArgumentError
from opsmith.subject.subject import Subject, subject_of


def integers(x: Int[Tensor, "N"]) -> Int[Tensor, "N"]:
    return x + 1


def sine(x: Tensor) -> Tensor:
    return torch.sin(x)


@pytest.fixture
def subject() -> Subject:
    return subject_of(kit_three.body_alone, devices=("cpu",))


def test_the_smallest_and_the_largest_are_taken_in_float32(subject: Subject) -> None:
    small, large = extreme_workloads(subject, "cpu")
    assert small.bytes_in < large.bytes_in
    assert (small.dtype, large.dtype) == ("float32", "float32")


def test_sizes_by_name_are_taken_all_of_them(subject: Subject) -> None:
    found = extreme_workloads(subject, "cpu", "float64", [{"N": 30}, {"N": 10}, {"N": 20}])
    assert [(one.label, one.dtype) for one in found] == [("N 10", "float64"), ("N 20", "float64"), ("N 30", "float64")]


def test_one_example_is_both() -> None:
    subject = subject_of(sine, reference=torch.sin, examples=[(torch.zeros(8),)], devices=("cpu",))
    assert len(extreme_workloads(subject, "cpu")) == 1


def test_an_operator_of_integers_is_taken_in_one_of_its_types() -> None:
    subject = subject_of(integers, reference=integers, devices=("cpu",))
    assert {one.dtype for one in extreme_workloads(subject, "cpu")} <= {"int32", "int64"}


def test_a_size_or_a_type_that_it_does_not_have_is_refused(subject: Subject) -> None:
    with pytest.raises(ArgumentError, match="has no size M"):
        extreme_workloads(subject, "cpu", sizes=[{"M": 3}])
    with pytest.raises(ArgumentError, match="int32"):
        extreme_workloads(subject, "cpu", "int32")
