"""Defines what loading starts from: a finished library of some definitions, wherever it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from opsmith.spec.definition import Device

__all__ = ["Obtained"]


class Obtained(NamedTuple):  # a dataclass takes six times as long to define, in every process
    """The library of some definitions, the devices that it serves, why others are missing, and what it was made from."""

    library: Path | None = None
    devices: tuple[str, ...] = ()
    missing: Mapping[Device, str] = MappingProxyType({})
    inputs: Mapping[str, str] = MappingProxyType({})
