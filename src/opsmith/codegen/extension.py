"""Makes an extension from definitions: the binding, and one instantiating file for each kernel source.

A kernel that is compiled ahead has a launcher instead, and what its kernels are compiled from.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from opsmith.codegen.binding import generate_binding, has_native
from opsmith.codegen.cuda_launcher import generate_cuda_launcher
from opsmith.codegen.cuda_source import read_cuda_function
from opsmith.codegen.cuda_variants import cuda_request_text, find_cuda_variants
from opsmith.codegen.cute_launcher import generate_cute_launcher
from opsmith.codegen.cute_variants import cute_request_text, find_cute_variants
from opsmith.codegen.instantiate import instantiate
from opsmith.codegen.python_source import kernel_module, read_cute_function, read_triton_function
from opsmith.codegen.triton_launcher import generate_triton_launcher
from opsmith.codegen.triton_variants import find_variants, request_text
from opsmith.errors import DefinitionError
from opsmith.spec.definition import AHEAD, DEVICES, GPU_SUFFIXES, Definition, Device, Kernel
from opsmith.spec.extension import Api, Extension, Language, Source

__all__ = ["assemble"]


def assemble(
    name: str, definitions: Iterable[Definition], devices: Iterable[Device], *, timed: bool = False
) -> Extension:
    """Return the extension that serves some definitions on some devices; `timed` as for `generate_binding`.

    Raises DefinitionError if a kernel's source is missing or two operators ask for one file in two ways.
    """
    definitions = sorted(definitions, key=lambda definition: definition.qualified_name)
    wanted = tuple(devices)
    chosen: tuple[Device, ...] = tuple(device for device in DEVICES if device in wanted)
    # The binding only checks and forwards: -O2 takes half as long again to compile and makes no call faster. And C++17,
    # because of what native kernels include: the standard library of C++20 is a fifth of what there is to parse.
    fast = ("-O1", "-std=c++17")
    api: Api = "stable" if has_native(definitions, chosen) else "none"
    binding = Source("binding.cpp", "cxx", api, text=generate_binding(definitions, chosen, timed=timed), flags=fast)
    # They begin in this order where there are fewer cores than sources: what is compiled ahead takes longest.
    sources = [*_ahead_sources(definitions)] if "cuda" in chosen else []
    sources += [binding, *_kernel_sources(definitions, chosen)]
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
            if (kernel := definition.kernels.get(device)) is not None and kernel.style not in AHEAD:
                _check_files(definition, kernel)
                # Two translation units with one native file would define its functions twice.
                key = (kernel.sources[0], "" if kernel.style == "native" else device)
                by_file.setdefault(key, []).append((definition, device))
    for (file, _), kernels in by_file.items():
        _check_shared(file, [pair for (other, _), pairs in by_file.items() if other == file for pair in pairs])
        yield _Unit(file, tuple(kernels))


def _check_shared(file: Path, users: list[tuple[Definition, Device]]) -> None:
    """Refuse a file that is wanted in two ways: one style for all, and the same flags on a device."""
    kernels = [(device, definition.kernels[device]) for definition, device in users]
    styles = {kernel.style for _, kernel in kernels}
    if len(styles) > 1 or len({(device, kernel.flags) for device, kernel in kernels}) > len(dict(kernels)):
        names = ", ".join(dict.fromkeys(definition.name for definition, _ in users))
        raise DefinitionError(
            f"{names} share {file.name} but with different styles or flags; use the same ones, or separate files"
        )


def _kernel_sources(definitions: list[Definition], devices: tuple[Device, ...]) -> Iterator[Source]:
    units = list(_units(definitions, devices))
    root = definitions[0].root
    taken: set[str] = set()
    for unit in units:
        yield Source(
            _object_name(unit.file, root, f".{unit.devices}{unit.file.suffix}", taken),
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
            name = _object_name(file, root, f".beside{file.suffix}", taken)
            yield Source(name, _language(file), "stable", path=file, users=(file,), flags=kernel.flags)


def _ahead_sources(definitions: list[Definition]) -> Iterator[Source]:
    """Yield the launcher of each kernel that is compiled ahead, and what the step that compiles it reads."""
    for definition in definitions:
        kernel = definition.kernels.get("cuda")
        if kernel is None or kernel.style not in AHEAD:
            continue
        _check_files(definition, kernel)
        language: Language
        if kernel.style == "triton":
            variants = find_variants(definition, read_triton_function(definition))
            language, launcher = "triton", generate_triton_launcher(variants)
            request = request_text(variants, kernel_module(definition))
        elif kernel.style == "cute":
            host_function = read_cute_function(definition)
            variants = find_cute_variants(definition, host_function)
            language, launcher = "cute", generate_cute_launcher(variants)
            request = cute_request_text(variants, host_function, kernel_module(definition))
        else:
            function = read_cuda_function(definition)
            variants = find_cuda_variants(definition, function)
            language, launcher = "nvrtc", generate_cuda_launcher(variants)
            request = cuda_request_text(variants, function)
        flags = ("-O1", "-std=c++17")
        yield Source(f"{definition.name}.launch.cpp", "cxx", "none", text=launcher, flags=flags)
        yield Source(f"{definition.name}.{language}.json", language, "none", text=request, users=kernel.sources)


def _check_files(definition: Definition, kernel: Kernel) -> None:
    for file in kernel.sources:
        if not file.is_file():
            raise DefinitionError(
                f"{definition.name} ({definition.location}): no kernel file {file}. `opsmith stub MODULE --write` "
                "creates a skeleton"
            )


def _object_name(file: Path, root: Path, suffix: str, taken: set[str]) -> str:
    """Name a file for its object: `a/b.cpp` and `a_b.cpp` must not meet. Adds the name to `taken`."""
    flat = os.path.relpath(file.with_suffix(""), root).replace("..", "up").replace(os.sep, "_")
    while f"{flat}{suffix}" in taken:
        flat += "_"
    taken.add(f"{flat}{suffix}")
    return f"{flat}{suffix}"


def _language(file: Path) -> Language:
    return "gpu" if file.suffix in GPU_SUFFIXES else "cxx"
