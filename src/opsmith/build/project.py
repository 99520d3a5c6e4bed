"""Reads the `[tool.opsmith]` table of a project's pyproject.toml."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

from opsmith.build.devices import wanted_devices
from opsmith.build.plan import TORCH_TARGET
from opsmith.errors import DefinitionError
from opsmith.spec.definition import DEVICES, Definition, Device

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Project", "parse_devices", "parse_torch_target", "read_project", "read_pyproject", "read_table"]

# Further parts, as in "2.10.1", are taken and left unread.
_VERSION = re.compile(r"(\d{1,2})\.(\d{1,2})(?:\..*)?", re.ASCII)


@dataclass(frozen=True)
class Project:
    """The table, read.

    operators     modules or folders whose operators are built, such as ["smooth"]
    devices       "cpu" and "cuda"; where it is not given, those of this machine
    archs         GPU architectures, as for `opsmith build --arch`
    torch-target  the oldest torch that the libraries should load in, such as "2.10"
    standalone    whether wheels do without opsmith: what an operator needs at run time is copied into them

    `cuda`, the CUDA whose nvcc compiles ("12"), is not a key but an option of who makes the wheel: whoever builds the
    project from its sources takes the nvcc that there is.
    """

    operators: tuple[str, ...]
    devices: tuple[Device, ...] | None = None
    archs: str | None = None
    torch_target: tuple[int, int] = TORCH_TARGET
    standalone: bool = False
    cuda: str | None = None

    def devices_for(self, definitions: Iterable[Definition]) -> tuple[Device, ...]:
        """Return the devices to build some definitions for: the project's choice, as far as they have kernels."""
        definitions = tuple(definitions)
        if self.devices is None:
            return wanted_devices(definitions)
        return tuple(device for device in self.devices if any(device in item.kernels for item in definitions))

    def with_gpu(self) -> Project:
        """Return the project with the GPU among its devices: architectures are asked for."""
        return replace(
            self, devices=tuple(item for item in DEVICES if item == "cuda" or item in (self.devices or DEVICES))
        )


_KEYS = frozenset({"operators", "devices", "archs", "torch-target", "standalone"})


def read_pyproject(path: Path) -> dict[str, Any]:
    """Return what a pyproject.toml says; raises DefinitionError if it is not TOML."""
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DefinitionError(f"{path} is not valid TOML: {error}. Correct it there") from None
    return content


def read_table(pyproject: Path, name: str) -> dict[str, Any] | None:
    """Return a table of a pyproject.toml by its dotted name, or None if there is none; raises DefinitionError."""
    found: Any = read_pyproject(pyproject)
    parts = name.split(".")
    for depth, part in enumerate(parts, 1):
        found = found.get(part)
        if found is None:
            return None
        if not isinstance(found, dict):
            above = ".".join(parts[:depth])
            raise DefinitionError(f"{pyproject}: {above} is {found!r:.80}; it must be a table, written as [{name}]")
    table: dict[str, Any] = found
    return table


def read_project(pyproject: Path) -> Project | None:
    """Return the project of a pyproject.toml, or None if the file does not exist or it has no [tool.opsmith].

    Raises DefinitionError for an invalid table.
    """
    if not pyproject.is_file():
        return None
    table = read_table(pyproject, "tool.opsmith")
    if table is None:
        return None
    where = f"{pyproject}, [tool.opsmith]"
    if unknown := sorted(table.keys() - _KEYS):
        raise DefinitionError(f"{where}: unknown key {unknown[0]}; the keys are {', '.join(sorted(_KEYS))}")
    operators = table.get("operators")
    if not _is_list_of_texts(operators):
        raise DefinitionError(
            f'{where}: {_found("operators", table)}; list the modules to build: operators = ["smooth"]'
        )
    devices = table.get("devices")
    if devices is not None and not _is_list_of_texts(devices):
        raise DefinitionError(f'{where}: {_found("devices", table)}; write a list: devices = ["cpu", "cuda"]')
    standalone = table.get("standalone", False)
    if not isinstance(standalone, bool):
        raise DefinitionError(f"{where}: standalone is {standalone!r}; write true or false")
    return Project(
        tuple(operators),
        None if devices is None else parse_devices(devices, where),
        _archs(table, where),
        _torch_target(table, where),
        standalone,
    )


def _archs(table: Mapping[str, Any], where: str) -> str | None:
    archs = table.get("archs")
    if archs is None or isinstance(archs, str):
        return archs
    if not _is_list_of_texts(archs):
        raise DefinitionError(f'{where}: {_found("archs", table)}; write texts: archs = ["8.0", "9.0+PTX"]')
    return ";".join(archs)


def _torch_target(table: Mapping[str, Any], where: str) -> tuple[int, int]:
    target = table.get("torch-target")
    if target is None:
        return TORCH_TARGET
    if not isinstance(target, str):
        hint = " (as a number, 2.10 is 2.1)" if isinstance(target, float) else ""
        raise DefinitionError(f'{where}: {_found("torch-target", table)}{hint}; write a text: torch-target = "2.10"')
    return parse_torch_target(target, where)


def parse_devices(names: Iterable[str], where: str) -> tuple[Device, ...]:
    """Return the devices of a list of names; raises DefinitionError for an unknown one."""
    names = tuple(names)
    if unknown := [name for name in names if name not in DEVICES]:
        raise DefinitionError(f"{where}: unknown device {unknown[0]}; the devices are {', '.join(DEVICES)}")
    return tuple(device for device in DEVICES if device in names)


def parse_torch_target(text: str, where: str) -> tuple[int, int]:
    """Return a torch version as two numbers; raises DefinitionError below the oldest that opsmith serves."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise DefinitionError(f'{where}: the torch target {text!r:.80} is not a version such as "2.10"')
    version = (int(found[1]), int(found[2]))
    if version < TORCH_TARGET:
        oldest = ".".join(map(str, TORCH_TARGET))
        raise DefinitionError(f"{where}: the torch target {text} is older than {oldest}, whose ABI opsmith uses")
    return version


def _found(key: str, table: Mapping[str, Any]) -> str:
    """Return what a key has, for a message."""
    return f"{key} is {table[key]!r:.80}" if key in table else f"{key} is missing"


def _is_list_of_texts(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)
