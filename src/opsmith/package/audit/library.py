"""Reads one shared library: from its bytes to facts about it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from opsmith.package.audit.bundles import amd_targets
from opsmith.package.audit.elf import Bytes, Elf
from opsmith.package.audit.elf_reader import parse_elf
from opsmith.package.audit.facts import Library, Sizes
from opsmith.package.audit.fatbin import cuda_code
from opsmith.package.audit.images import IMAGES_SECTION, image_targets
from opsmith.package.audit.schemas import Schema
from opsmith.package.audit.symbols import Needs, is_unstable_torch, sort_needs
from opsmith.package.audit.texts import build_paths, find_namespaces, find_schemas, qualified_names

__all__ = ["describe_library", "registers_in_cpp", "with_needs"]

_GPU = (".nv_fatbin", "__nv_relfatbin", ".hip_fatbin", IMAGES_SECTION)
_SYMBOLS = (".symtab", ".strtab")
# What gcc's and clang's register with torch needs one of these; without them texts that look like schemas are others.
_REGISTERS = ("aoti_torch_library_def", "torch_library_def_with_tags")


def describe_library(path: str, data: Bytes) -> Library:
    """Return the facts about a library, whose name in the wheel is `path`. Raises AuditError if it is damaged."""
    elf = parse_elf(data)
    needs = sort_needs(elf)
    cuda = cuda_code(data, elf)
    targets, is_unread = amd_targets(data, elf)
    whole, added = find_namespaces(elf)
    digest = hashlib.sha256()
    for start in range(0, len(data), 1 << 20):
        digest.update(data[start : start + (1 << 20)])
    return Library(
        path=path,
        elf=elf,
        needs=needs,
        sizes=_sizes(elf, len(data)),
        cuda=cuda.archs,
        cubin_version=cuda.cubin_version,
        ptx_version=cuda.ptx_version,
        amd=tuple(sorted({*targets, *image_targets(data, elf)})),
        amd_is_unread=is_unread,
        schemas=_schemas(data, elf, needs, (*whole, *added)),
        namespaces=whole,
        fragments=added,
        paths=build_paths(data, elf),
        sha256=digest.hexdigest(),
    )


def with_needs(libraries: tuple[Library, ...]) -> tuple[Library, ...]:
    """Return libraries of one wheel, whose needs are what none of the others provides."""
    if len(libraries) < 2:
        return libraries
    provided = {symbol.name for library in libraries for symbol in library.elf.symbols if symbol.is_defined}
    return tuple(replace(library, needs=sort_needs(library.elf, provided)) for library in libraries)


def registers_in_cpp(library: Library) -> bool:
    """Tell whether a library registers operators by torch's C++ API, whose use may break literals up."""
    return any(name.startswith("_ZN5torch7Library") for name in library.needs.torch_cpp)


def _schemas(data: Bytes, elf: Elf, needs: Needs, namespaces: tuple[str, ...]) -> tuple[Schema, ...]:
    """Return the schemas, with the namespace where the library tells it."""
    if not any(name in _REGISTERS for name in needs.shims) and not any(map(is_unstable_torch, needs.torch_cpp)):
        return ()
    schemas = find_schemas(data, elf)
    texts: Mapping[str, set[str]] = qualified_names(data, elf) if schemas else {}
    return tuple(
        schema if schema.namespace else replace(schema, namespace=_namespace(schema, texts, namespaces))
        for schema in schemas
    )


def _namespace(schema: Schema, texts: Mapping[str, set[str]], namespaces: tuple[str, ...]) -> str:
    """Return the one namespace that an operator can be in, or nothing where there are several."""
    candidates = texts.get(schema.name, set()) or set(namespaces)
    return next(iter(candidates)) if len(candidates) == 1 else ""


def _sizes(elf: Elf, whole: int) -> Sizes:
    code = data = gpu = debug = 0
    for section in elf.sections:
        if section.name in _GPU:
            gpu += section.size
        elif section.is_code:
            code += section.size
        elif section.is_loaded:
            data += section.size
        elif section.name.startswith((".debug", ".zdebug")) or section.name in _SYMBOLS:
            debug += section.size
    return Sizes(code, data, gpu, debug, max(0, whole - code - data - gpu - debug))
