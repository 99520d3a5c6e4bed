"""What is timed where nobody says so: sizes, element types, and sets of inputs that no cache holds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from jaxtyping import Float, Float32, Int, Int64
from torch import Tensor

import opsmith
from opsmith.benchmark import workload as module
from opsmith.benchmark.api import bench_subject
from opsmith.benchmark.options import BenchOptions
from opsmith.benchmark.workload import Workload, workloads
from opsmith.errors import ArgumentError
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.subject import Subject, subject_of


def rows(x: Float[Tensor, "B 3*N"]) -> Float[Tensor, "B 3*N"]:
    return x


def valid(x: Float[Tensor, "N"], taps: Float[Tensor, "K"]) -> Float[Tensor, "N-K+1"]:
    return x[: x.shape[0] - taps.shape[0] + 1]


def shrinking(x: Float[Tensor, "N-100"], y: Float[Tensor, "100-N"]) -> Float[Tensor, "N-100"]:
    return x


def picked(x: Float[Tensor, "N D"], index: Int[Tensor, "M"]) -> Float[Tensor, "M D"]:
    return x[index]


def subject(function: Any, examples: Any = None) -> Subject:
    return subject_of(function, reference=function, examples=examples, devices=("cpu",))


def labels(function: Any, **options: Any) -> list[str]:
    return [one.label for one in workloads(subject(function), "cpu", ["float32"], **options)]


def test_three_sizes_from_a_thousand_elements_to_two_millions():
    found = list(workloads(subject(rows), "cpu", ["float32", "float64"]))
    assert [one.dtype for one in found] == ["float32"] * 3 + ["float64"] * 3
    elements = [one.case.elements for one in found[:3]]
    for count, wanted in zip(elements, (1 << 10, 1 << 16, 1 << 21), strict=True):
        assert wanted / 4 < count <= wanted


def test_sizes_by_name():
    assert labels(rows, sizes=[{"B": 2, "N": 5}]) == ["B 2, N 5"]
    (one,) = workloads(subject(rows), "cpu", ["float32"], [{"B": 2, "N": 5}])
    assert one.inputs(0)["x"].shape == (2, 15)
    with pytest.raises(ArgumentError, match=r"N is missing; give B=\.\.\.,N=\.\.\."):
        labels(rows, sizes=[{"B": 2}])
    with pytest.raises(ArgumentError, match="has no size Q; it has B, N"):
        labels(rows, sizes=[{"B": 2, "N": 1, "Q": 1}])
    with pytest.raises(ArgumentError, match="with N=300 a size is negative"):
        labels(shrinking, sizes=[{"N": 300}])


def test_sizes_that_must_fit_each_other():
    assert len(labels(valid)) == 3


def test_examples_are_what_is_timed_where_there_are_some():
    given = [(torch.randn(5, 2), torch.tensor([0, 4])), {"x": torch.randn(9, 2), "index": torch.tensor([8])}]
    found = list(workloads(subject(picked, given), "cpu", ["float64"]))
    assert [one.label for one in found] == ["example 1", "example 2"]
    inputs = found[0].inputs(0)
    assert inputs["x"].dtype == torch.float64
    assert inputs["index"].tolist() == [0, 4]
    untyped = subject_of(lambda x: x, reference=lambda x: x, examples=[(torch.ones(2),)], devices=("cpu",))
    with pytest.raises(ArgumentError, match="has no named sizes; it is timed with its examples"):
        list(workloads(untyped, "cpu", ["float32"], [{"N": 1}]))


def test_a_mapping_names_the_examples():
    given = {"one": (torch.randn(3, 2), torch.tensor([0])), "two": {"x": torch.randn(4, 2), "index": torch.tensor([3])}}
    assert [one.label for one in workloads(subject(picked, given), "cpu", ["float32"])] == ["one", "two"]
    with pytest.raises(ArgumentError, match=r"the example 'x' is a Tensor; give each call its arguments"):
        subject(picked, {"x": torch.randn(3, 2), "index": torch.tensor([0])})


def test_examples_given_to_a_benchmark_are_timed_in_place_of_the_definitions():
    @opsmith.op(namespace="opsmith_bench_workload")
    def twice(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
        return x * 2

    @twice.examples
    def calls() -> list[tuple[Tensor]]:
        return [(torch.randn(2),)]

    given = {"five": (torch.randn(5),)}
    own = bench_subject(twice, BenchOptions(device="cpu"))[0]
    assert [one.label for one in workloads(own, "cpu", ["float32"])] == ["example 1"]
    ours = bench_subject(twice, BenchOptions(device="cpu", examples=given))[0]
    assert [one.label for one in workloads(ours, "cpu", ["float32"])] == ["five"]
    assert [case.label for case in subject_of(twice, examples=given).examples] == ["", "five"]


def recipe(*shape: int, dtype: str = "float32") -> Workload:
    return Workload("it", Case({"x": TensorRecipe(shape, dtype)}), dtype, "cpu")


@pytest.fixture
def small_cache(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(module, "cache_bytes", lambda device: 4000)
    return 4000


def test_a_type_that_is_fixed_may_be_named():
    def halves(x: Float32[Tensor, "N"], index: Int64[Tensor, "N"]) -> Float32[Tensor, "N"]:
        return x / 2

    assert [one.dtype for one in workloads(subject(halves), "cpu", ["float32"])] == ["float32"] * 3
    with pytest.raises(ArgumentError, match="halves has no element type float64; it has float32, int64"):
        list(workloads(subject(halves), "cpu", ["float64"]))


def test_sets_are_more_than_three_times_the_cache(small_cache: int):
    one = recipe(100)
    assert one.bytes_in == 400
    assert one.sets == 31
    assert one.is_out_of_cache(400, one.sets)
    assert not one.is_out_of_cache(400, one.sets - 1)
    assert one.sets_for(400, most=5) == 5
    assert one.sets_for(1 << 20) == 2  # never the same one twice in a row
    assert one.sets_for(0) == 512


def test_sets_fit_the_memory_although_a_call_reads_less_than_its_inputs(small_cache: int):
    one = recipe(1 << 25)
    assert one.bytes_in == 128 << 20
    assert one.sets_for(0) == 4  # 512 MB


def test_each_set_has_numbers_and_memory_of_its_own(small_cache: int):
    one = recipe(100)
    first, second, third = one.input_sets(one.inputs(0), 3)
    assert not torch.equal(first["x"], second["x"])
    assert not torch.equal(second["x"], third["x"])
    assert torch.equal(one.inputs(0)["x"], first["x"])


def test_large_tensors_repeat_a_block(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_BLOCK", 64)
    one = recipe(10, 20)
    first, second = one.input_sets(one.inputs(0), 2)
    flat = first["x"].flatten()
    assert first["x"].shape == (10, 20)
    assert torch.equal(flat[:64], flat[64:128])
    assert flat[:64].unique().numel() > 60
    assert torch.equal(first["x"], second["x"])
    assert first["x"].data_ptr() != second["x"].data_ptr()


def test_lists_and_plain_arguments():
    recipes = (TensorRecipe((3,), "float32"), TensorRecipe((3,), "float32", seed=7))
    one = Workload("it", Case({"xs": recipes, "sizes": (1, 2), "scale": 0.5, "none": None}), "float32", "cpu")
    first, second = one.input_sets(one.inputs(0), 2)
    assert [tensor.shape for tensor in first["xs"]] == [(3,), (3,)]
    assert not torch.equal(first["xs"][0], second["xs"][0])
    assert (first["sizes"], first["scale"], first["none"]) == ([1, 2], 0.5, None)
