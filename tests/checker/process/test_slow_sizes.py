"""What a reference takes too long for, or gigabytes, is left out before anything else is tried."""

from __future__ import annotations

import resource

import torch
from jaxtyping import Float
from torch import Tensor

from opsmith.checker.process.slow_sizes import without_slow_sizes
from opsmith.subject.subject import subject_of

_LEAST_OF_NO_USE = 20_000


def rank(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    """How many elements are less: of few elements quickly, of many with a matrix of gigabytes."""
    if x.shape[0] < _LEAST_OF_NO_USE:
        return x.argsort().argsort().to(x.dtype)
    return (x[:, None].expand(-1, 200_000).contiguous() < x[0]).sum(1).to(x.dtype)


def test_a_size_that_takes_gigabytes_is_left_out_and_takes_none():
    before = resource.getrlimit(resource.RLIMIT_AS)
    subject = without_slow_sizes(subject_of(torch.argsort, reference=rank))
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 8 << 20  # KiB
    (note,) = [note for note in subject.notes if "the reference takes" in note]
    assert "gigabytes for N = " in note
    left_out = [label for label in subject.left_out if "N = " in label]
    assert left_out
    assert all(int(label.rpartition("= ")[2]) >= _LEAST_OF_NO_USE for label in left_out)
