"""Names the reasons for which a candidate is refused: a name is a class of defect or of cheat, and what was seen of it."""

from __future__ import annotations

from enum import Enum

__all__ = ["Refusal"]


class Refusal(Enum):
    """Why a candidate is refused. The value is its name in reports and in JSON, which does not change."""

    # It does not run.
    NOT_LOADED = "not loaded"
    CRASHED = "crashed"
    RAISED = "raised"
    HUNG = "hung"
    OVER_MEMORY = "over the memory limit"
    # It computes something else.
    WRONG_VALUES = "wrong values"
    WRONG_AT_OTHER_SIZES = "wrong at other sizes"
    WRONG_FOR_OTHER_VALUES = "wrong for other values"
    WRONG_FOR_OTHER_LAYOUTS = "wrong for other layouts"
    WRONG_GRADIENT = "wrong gradient"
    LOW_PRECISION = "low precision"
    WRONG_SHAPE = "wrong shape"
    WRONG_DTYPE = "wrong dtype"
    UNWRITTEN_OUTPUT = "unwritten output"
    NOT_DETERMINISTIC = "not deterministic"
    MISSING_PARAMETERS = "missing parameters"
    # It does not compute when it is called.
    CACHED_RESULT = "cached result"
    STALE_POINTERS = "stale pointers"
    DRIFTS = "drifts"
    DIFFERS_WHEN_TIMED = "differs when timed"
    LAZY_RESULT = "lazy result"
    WORKS_AFTER_THE_END = "works after the end"
    OTHER_STREAM = "work on another stream"
    # It changes what is not its own.
    INPUT_MODIFIED = "input modified"
    WRITES_OUTSIDE = "writes outside its outputs"
    READS_OUTSIDE = "reads outside its inputs"
    ALIASED_RESULT = "result aliases an input"
    OVERLAPPING_RESULT = "result overlaps itself"
    OVERWRITTEN_RESULT = "earlier result overwritten"
    FILES_CHANGED = "files changed"
    REACHES_OUTSIDE = "reaches outside its process"
    CACHE_CONTROL = "persisting cache"
    # Its time cannot be true.
    FASTER_THAN_THE_MACHINE = "faster than the machine"
    # The task, and not the candidate, is refused.
    DEGENERATE_TASK = "degenerate task"
    SLOW_REFERENCE = "slow reference"
    LARGE_TASK = "large task"

    def __str__(self) -> str:
        return self.value
