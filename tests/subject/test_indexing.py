"""A reference that indexes by its data is asked on the CPU before a GPU would stop; FakeTensor stands for the GPU."""

from typing import Any

import pytest
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from opsmith.subject.blame import is_of_reference
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.indexing import ask_the_cpu_first
from opsmith.subject.subject import Subject, subject_of


def rows(table: Float[Tensor, "N D"], index: Int64[Tensor, "K"]) -> Float[Tensor, "K D"]:
    return table[index]


def doubled(table: Float[Tensor, "N D"], index: Int64[Tensor, "K"]) -> Float[Tensor, "K D"]:
    called.append(1)
    return table[: len(index)] * 2


called: list[int] = []
_EXAMPLE = (torch.arange(6.0).reshape(3, 2), torch.tensor([0, 2]))


def of(reference: Any) -> Subject:
    return subject_of(reference, reference=reference, examples=[_EXAMPLE], devices=("cpu",))


def call(*index: int) -> Case:
    recipe = TensorRecipe((len(index),), "int64", given=torch.tensor(index))
    return Case({"table": TensorRecipe((3, 2), "float32"), "index": recipe})


def on_gpu() -> dict[str, Any]:
    with FakeTensorMode():
        return {"table": torch.empty(3, 2, device="cuda"), "index": torch.empty(2, dtype=torch.int64, device="cuda")}


def test_what_the_cpu_refuses_does_not_get_to_the_gpu() -> None:
    subject = of(rows)
    ask_the_cpu_first(subject, call(0, 2), on_gpu())
    with pytest.raises(IndexError) as caught:
        ask_the_cpu_first(subject, call(0, 3), on_gpu())
    assert is_of_reference(caught.value)


def test_a_reference_that_does_not_index_is_not_called_twice() -> None:
    subject = of(doubled)
    ask_the_cpu_first(subject, call(0, 2), on_gpu())
    called.clear()
    ask_the_cpu_first(subject, call(0, 2), on_gpu())
    assert not called


def test_on_the_cpu_nothing_is_asked() -> None:
    ask_the_cpu_first(of(rows), call(0, 3), call(0, 3).build("cpu"))
