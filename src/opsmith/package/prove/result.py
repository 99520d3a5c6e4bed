"""Defines the result of a proof: what happened in each environment."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["Claim", "Proof", "Row", "Step"]

Step = Literal["install", "import", "check", "gradient", "done"]


@dataclass(frozen=True, order=True)
class Claim:
    """An environment in which a wheel should work: a Python, "3.11", and a torch, "2.10"."""

    python: str
    torch: str

    def __str__(self) -> str:
        return f"Python {self.python}, torch {self.torch}"


@dataclass(frozen=True)
class Row:
    """What happened in one environment.

    `torch` is the version that was installed. `failed_at` is the step that failed, or "done", and `problem` what was said
    then. `is_missing` says that there is no such environment: nothing is known of the wheel there. `checks` counts the
    properties that hold, `inputs` the calls that were compared, on the `devices`.
    """

    claim: Claim
    torch: str = ""
    failed_at: Step = "done"
    problem: str = ""
    is_missing: bool = False
    checks: int = 0
    inputs: int = 0
    gradients: int = 0
    seconds: float = 0.0
    devices: tuple[str, ...] = ("cpu",)

    @property
    def ok(self) -> bool:
        """Whether the wheel was installed there, and everything that was tried holds."""
        return not self.is_missing and self.failed_at == "done"


@dataclass(frozen=True)
class Proof:
    """The rows of all environments that were tried. `has_gpu_code` says that the wheel has kernels for GPUs."""

    wheel: str
    sha256: str
    rows: tuple[Row, ...]
    has_gpu_code: bool = False

    @property
    def ok(self) -> bool:
        """Whether there was an environment at all, and the wheel works in each that there was."""
        tried = [row for row in self.rows if not row.is_missing]
        return bool(tried) and all(row.ok for row in tried)

    @property
    def gpu_code_ran(self) -> bool:
        """Whether kernels for GPUs were run somewhere."""
        return any("cuda" in row.devices and not row.is_missing for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """Return the proof as what `json.dumps` takes."""
        rows = [{**asdict(row), "ok": row.ok} for row in self.rows]
        return {
            "wheel": self.wheel,
            "sha256": self.sha256,
            "ok": self.ok,
            "gpu_code_ran": self.gpu_code_ran,
            "rows": rows,
        }
