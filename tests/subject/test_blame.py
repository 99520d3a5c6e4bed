"""Which exceptions say that there is no memory, and so nothing about a kernel."""

from __future__ import annotations

import pytest
import torch

from opsmith.subject.blame import is_of_reference, is_out_of_memory


def test_pytorch_has_no_memory() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 50)
    assert is_out_of_memory(caught.value)
    assert is_of_reference(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 8.00 GiB."),
        RuntimeError("scale(): there is not enough memory"),
        RuntimeError("std::bad_alloc"),
    ],
)
def test_others_have_none(error: Exception) -> None:
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("the memory format is not contiguous"),
        ValueError("out of memory"),
    ],
)
def test_an_access_that_is_not_allowed_is_another_matter(error: Exception) -> None:
    assert not is_out_of_memory(error)
    assert not is_of_reference(error)
