"""Compares the results of calls whose gradient is recorded: a kernel may compute them on another path there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.properties.agreement import RefusedError, judged, refusals
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.wrong_values import describe
from opsmith.subject.case import Case
from opsmith.subject.oracle import expect

__all__ = ["RECORDED", "wrong_where_recorded"]

RECORDED = "where a gradient is recorded, "


def wrong_where_recorded(context: Context, case: Case, values: Mapping[str, Any], recorded: list[Tensor]) -> str:
    """Return in words how results are wrong with inputs that require a gradient, and right without; "" if they are not.

    Most are the same to the last bit, and other properties compare those with the reference.
    """
    subject = context.subject
    try:
        plain = subject.kernel_results(values)
    except Exception:
        return ""
    if _are_equal(recorded, plain):
        return ""
    try:
        with refusals():
            expected = expect(subject, case, dict(values))
        wrong = judged(recorded, expected)
        if wrong is None or judged(plain, expected) is not None:
            return ""
    except RefusedError:
        return ""
    return f"{RECORDED}{describe(context, wrong)}, and right otherwise"


def _are_equal(recorded: list[Tensor], plain: list[Tensor]) -> bool:
    return len(recorded) == len(plain) and all(
        one.dtype is other.dtype and torch.equal(one, other) for one, other in zip(recorded, plain, strict=True)
    )
