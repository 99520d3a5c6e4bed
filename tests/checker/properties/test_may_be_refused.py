"""A kernel may refuse a layout that the reference refuses as well, which a copy in float64 does not have."""

from __future__ import annotations

import torch
from torch import Tensor

from opsmith.checker.outcome import Outcome
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.values import strides
from opsmith.subject.subject import subject_of


def flat(x: Tensor) -> Tensor:
    return x.view(-1) * 2


def flat_of_any(x: Tensor) -> Tensor:
    return x.reshape(-1) * 2


def wrong_where_it_answers(x: Tensor) -> Tensor:
    return x.reshape(-1) * (2 if x.is_contiguous() else 3)


def _outcome(op: object, reference: object) -> Outcome:
    subject = subject_of(op, reference=reference, examples=[(torch.randn(4, 6, 5),)], devices=("cpu",))
    return strides(Context(subject, "cpu", subject.dtypes[0]))


def test_both_refuse() -> None:
    assert _outcome(flat, flat).state != "failed"


def test_the_kernel_alone_refuses() -> None:
    outcome = _outcome(flat, flat_of_any)
    assert outcome.state == "failed"
    assert "view size is not compatible" in outcome.findings[0].message


def test_what_is_answered_has_to_be_right() -> None:
    assert _outcome(wrong_where_it_answers, flat).state == "failed"
