"""Judges facts: pure functions, each of which yields what is false, broken or worth knowing about one subject."""

from __future__ import annotations

from collections.abc import Iterator

from opsmith.package.audit.facts import Facts
from opsmith.package.audit.finding import Finding
from opsmith.package.audit.judge.contents import judge_contents
from opsmith.package.audit.judge.gpu import judge_gpu
from opsmith.package.audit.judge.linking import judge_linking
from opsmith.package.audit.judge.platform import judge_platform
from opsmith.package.audit.judge.python import judge_python
from opsmith.package.audit.judge.tags import judge_tags
from opsmith.package.audit.judge.torch import judge_torch

__all__ = ["judge"]


def judge(facts: Facts, archs: tuple[str, ...] = (), cuda: str | None = None) -> Iterator[Finding]:
    """Yield everything there is to say about a file.

    `archs` are the GPU architectures that it must have code for, `cuda` is the oldest CUDA that it must work with.
    """
    yield from facts.problems
    yield from judge_torch(facts)
    yield from judge_python(facts)
    yield from judge_platform(facts)
    yield from judge_tags(facts)
    yield from judge_gpu(facts, archs, cuda)
    yield from judge_linking(facts)
    yield from judge_contents(facts)
