"""How definitions become an extension: the binding, and one instantiating file for each kernel source."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from opsmith.codegen.binding import generate_binding
from opsmith.codegen.instantiate import instantiate
from opsmith.errors import DefinitionError
from opsmith.spec.definition import DEVICES, Definition, Device, Kernel
from opsmith.spec.extension import Extension, Language, Source

__all__ = ["assemble"]

_GPU_SUFFIXES = frozenset({".cu", ".hip"})


def assemble(name: str, definitions: Iterable[Definition], devices: Iterable[Device]) -> Extension:
    """Return the extension that serves some definitions on some devices.

    Raises DefinitionError where a kernel's source is missing or two operators ask for one file in two ways.
    """
    definitions = sorted(definitions, key=lambda definition: definition.qualified_name)
    wanted = tuple(devices)
    chosen: tuple[Device, ...] = tuple(device for device in DEVICES if device in wanted)
    # The binding only checks and forwards: -O3 would take a fifth longer and make no call faster.
    binding = Source("binding.cpp", "cxx", "stable", text=generate_binding(definitions, chosen), flags=("-O2",))
    sources = [binding]
    sources += _kernel_sources(definitions, chosen)
    root = definitions[0].root
    include_dirs = tuple(dict.fromkeys(definition.root for definition in definitions))
    return Extension(name, root, tuple(sources), chosen, include_dirs=include_dirs)


@dataclass(frozen=True)
class _Unit:
    """What one kernel source is compiled for. A view kernel's file serves one device; a native one may serve several."""

    file: Path
    kernels: tuple[tuple[Definition, Device], ...]

    @property
    def first(self) -> Kernel:
        definition, device = self.kernels[0]
        return definition.kernels[device]

    @property
    def devices(self) -> str:
        return "_".join(dict.fromkeys(device for _, device in self.kernels))


def _units(definitions: list[Definition], devices: tuple[Device, ...]) -> Iterator[_Unit]:
    by_file: dict[tuple[Path, str], list[tuple[Definition, Device]]] = {}
    for device in devices:
        for definition in definitions:
            if (kernel := definition.kernels.get(device)) is not None:
                _check_files(definition, kernel)
                # Two translation units with one native file would define its functions twice.
                key = (kernel.sources[0], "" if kernel.style == "native" else device)
                by_file.setdefault(key, []).append((definition, device))
    for (file, _), kernels in by_file.items():
        if len({(d.kernels[device].style, d.kernels[device].flags) for d, device in kernels}) > 1:
            names = ", ".join(dict.fromkeys(definition.name for definition, _ in kernels))
            raise DefinitionError(
                f"{names} share {file.name} but ask for it in different styles or with different flags; give them the "
                "same, or files of their own"
            )
        yield _Unit(file, tuple(kernels))


def _kernel_sources(definitions: list[Definition], devices: tuple[Device, ...]) -> Iterator[Source]:
    units = list(_units(definitions, devices))
    root = definitions[0].root
    for unit in units:
        yield Source(
            f"{_flat_name(unit.file, root)}.{unit.devices}{unit.file.suffix}",
            _language(unit.file),
            "stable" if unit.first.style == "native" else "none",
            text=instantiate(unit.kernels, os.path.relpath(unit.file, root)),
            users=(unit.file,),
            flags=unit.first.flags,
        )
    beside = {
        file: definition.kernels[device]
        for unit in units
        for definition, device in unit.kernels
        for file in definition.kernels[device].sources[1:]
    }
    for file, kernel in beside.items():
        if not any(unit.file == file for unit in units):
            name = f"{_flat_name(file, root)}.beside{file.suffix}"
            yield Source(name, _language(file), "stable", path=file, users=(file,), flags=kernel.flags)


def _check_files(definition: Definition, kernel: Kernel) -> None:
    for file in kernel.sources:
        if not file.is_file():
            raise DefinitionError(
                f"{definition.name} ({definition.place}): there is no kernel file {file}. "
                "`opsmith stub MODULE --write` makes a skeleton of it"
            )


def _flat_name(file: Path, root: Path) -> str:
    """Name a file for its object: two files of one name in two folders must not meet."""
    return os.path.relpath(file.with_suffix(""), root).replace("..", "up").replace(os.sep, "_")


def _language(file: Path) -> Language:
    return "gpu" if file.suffix in _GPU_SUFFIXES else "cxx"
