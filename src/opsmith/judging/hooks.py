"""Declares what is called while a candidate is judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opsmith.judging.result import Judgement

__all__ = ["Hooks", "Watch"]

Watch = Callable[[str], None]


def _nothing(*_: Any) -> None:
    """Stand in for what nobody asks for."""


@dataclass(frozen=True)
class Hooks:
    """What is called while a candidate is judged.

    `watch` gets what is done next, and `when_untimed` is called when nothing is timed any more, so that other work disturbs
    nothing. `give_up` gets the judgement, in another thread, where a call of the task's own functions does not come back.
    It has to end the process: nothing returns then.
    """

    watch: Watch = _nothing
    when_untimed: Callable[[], None] = _nothing
    give_up: Callable[[Judgement], None] | None = None
