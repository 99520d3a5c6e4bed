"""How definitions become an extension: the binding, and one instantiating file for each kernel source."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
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
    sources = [Source("binding.cpp", "cxx", "stable", text=generate_binding(definitions, chosen))]
    for device in chosen:
        sources += _kernel_sources(definitions, device)
    root = definitions[0].root
    include_dirs = tuple(dict.fromkeys(definition.root for definition in definitions))
    return Extension(name, root, tuple(sources), chosen, include_dirs=include_dirs)


def _kernel_sources(definitions: list[Definition], device: Device) -> Iterator[Source]:
    by_file: dict[Path, list[Definition]] = {}
    beside: dict[Path, Kernel] = {}
    for definition in definitions:
        if (kernel := definition.kernels.get(device)) is not None:
            _check_files(definition, kernel)
            by_file.setdefault(kernel.sources[0], []).append(definition)
            beside.update(dict.fromkeys(kernel.sources[1:], kernel))
    for file, members in by_file.items():
        kernels = [member.kernels[device] for member in members]
        if len({(kernel.style, kernel.flags) for kernel in kernels}) > 1:
            raise DefinitionError(
                f"{', '.join(member.name for member in members)} share {file.name} but ask for it in different styles or "
                "with different flags; give them the same, or files of their own"
            )
        root = members[0].root
        yield Source(
            f"{_flat_name(file, root)}.{device}{file.suffix}",
            _language(file),
            "stable" if kernels[0].style == "native" else "none",
            text=instantiate(members, device, os.path.relpath(file, root)),
            users=(file,),
            flags=kernels[0].flags,
        )
    for file, kernel in beside.items():
        if file not in by_file:
            name = f"{_flat_name(file, definitions[0].root)}.{device}.beside{file.suffix}"
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
