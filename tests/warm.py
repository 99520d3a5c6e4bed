"""Loads and initializes here what the child processes of each of hundreds of checks would load anew, for three seconds."""

from __future__ import annotations

import functools
import importlib

import torch

__all__ = ["warm_up"]

# The properties that go through torch.func, export and torch.compile, which set themselves up at their first use.
_FIRST_USES = frozenset({"fake", "opcheck", "compile", "export", "vmap", "func.grad", "jvp"})


@functools.cache
def warm_up() -> None:
    """Check a small operator in this process, from which those of later checks are forked."""
    from opsmith.checker.properties.table import PROPERTIES
    from opsmith.checker.run import CheckPlan, run_check
    from opsmith.ops.add2 import add2
    from opsmith.subject.subject import subject_of

    for name in ("hypothesis", "torch._inductor"):
        importlib.import_module(name)
    if torch.version.cuda or torch.version.hip:
        return  # what is forked after a compiled backward could compute no gradient
    items = tuple(item for item in PROPERTIES if item.name in _FIRST_USES)
    # On the CPU alone: what is forked from a process that has used a GPU could not use it.
    report = run_check(subject_of(add2, devices=("cpu",)), CheckPlan(items, ("float32",), isolate=False))
    assert report.ok, str(report)
