"""Defines what loading starts from: a finished library of some definitions, wherever it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from opsmith.spec.definition import Device

__all__ = ["Obtained"]


@dataclass(frozen=True)
class Obtained:
    """The library of some definitions, the devices that it serves, why others are missing, and what it was made from."""

    library: Path | None = None
    devices: tuple[str, ...] = ()
    missing: Mapping[Device, str] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
