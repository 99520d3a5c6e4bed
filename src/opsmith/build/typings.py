"""Keeps a folder of type stubs of torch.ops for type checkers; each build adds to it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from opsmith import _env
from opsmith.codegen.typings import PACKAGE, namespace_module, namespace_stub, package_files
from opsmith.errors import ArgumentError
from opsmith.spec.definition import Definition
from opsmith.store import Store
from opsmith.store.files import write_atomic
from opsmith.store.safety import make_folder

__all__ = ["add_typings", "definition_schemas", "note_typings", "registered_schemas", "typings_folder"]

_SCHEMA = re.compile(r'^ +"""(.*)"""$', re.MULTILINE)


def definition_schemas(definitions: Iterable[Definition]) -> dict[str, list[Any]]:
    """Return the schemas of some definitions by namespace."""
    found: dict[str, list[Any]] = {}
    for definition in definitions:
        namespace = definition.qualified_name.partition("::")[0]
        found.setdefault(namespace, []).append(torch._C.parse_schema(f"{namespace}::{definition.signature.schema}"))
    return found


def registered_schemas(namespaces: Iterable[str]) -> dict[str, list[Any]]:
    """Return the schemas that PyTorch has of some namespaces in this process."""
    wanted = set(namespaces)
    found: dict[str, list[Any]] = {}
    for schema in torch._C._jit_get_all_schemas():
        namespace = schema.name.partition("::")[0]
        if namespace in wanted:
            found.setdefault(namespace, []).append(schema)
    return found


def note_typings(schemas: Mapping[str, Iterable[Any]], store: Store) -> None:
    """Write stubs into the store, and into the folder that OPSMITH_TYPINGS names, if any.

    They are a help and no part of a build: where they cannot be written, there is a warning for the user's folder alone.
    """
    with suppress(OSError):
        add_typings(schemas, typings_folder(store))
    try:
        if (folder := _env.read_path("OPSMITH_TYPINGS")) is not None:
            add_typings(schemas, folder)
    except (OSError, ArgumentError) as error:
        warnings.warn(f"OPSMITH_TYPINGS: {error}", RuntimeWarning, stacklevel=2)


def typings_folder(store: Store) -> Path:
    """Return the folder of the stubs that builds leave in a store."""
    return store.layout.base / "editor" / "typings"


def add_typings(schemas: Mapping[str, Iterable[Any]], folder: Path) -> list[Path]:
    """Write the stubs of some namespaces into a folder, beside those of others that are there, and return the files.

    An operator that is there is replaced; the others of its namespace, which other builds brought, stay. Raises OSError.
    """
    package = folder / PACKAGE
    make_folder(package)
    written = []
    for namespace, members in schemas.items():
        path = package / f"{namespace_module(namespace)}.pyi"
        merged = {(schema.name, schema.overload_name): schema for schema in (*_written_schemas(path), *members)}
        written.append(_put(path, namespace_stub(merged.values())))
    prefix = namespace_module("")
    known = [path.stem.removeprefix(prefix) for path in package.glob(f"{prefix}*.pyi")]
    return [*written, *(_put(package / name, text) for name, text in package_files(known).items())]


def _written_schemas(path: Path) -> Iterator[Any]:
    """Yield the schemas of a stub that was written before: each stands, as it was, in a line of its own."""
    if path.is_file():
        for schema in _SCHEMA.findall(path.read_text(encoding="utf-8", errors="replace")):
            # One from another torch, edited by hand or damaged, may not be a schema to this one.
            with suppress(RuntimeError):
                yield torch._C.parse_schema(schema.replace('\\"', '"').replace("\\\\", "\\"))


def _put(path: Path, text: str) -> Path:
    """Write a file in one step: a type checker may read it at any time."""
    write_atomic(path, text.encode(), scratch=path.parent, durable=False)
    return path
