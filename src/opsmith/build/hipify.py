"""Translates CUDA sources for ROCm with the hipify that comes with torch, in a separate folder.

PyTorch's cpp_extension writes the translation next to the user's files; nothing is written there by opsmith.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from opsmith.errors import ArgumentError
from opsmith.spec.extension import ExistingSources, Source
from opsmith.store import Store, default_root, digest
from opsmith.store.files import explain_os_errors, write_atomic

__all__ = ["hipify"]

# What may hold CUDA names or be included by a file that does.
_TRANSLATED = frozenset({".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hpp", ".hxx", ".inl"})


def hipify(extension: ExistingSources) -> ExistingSources:
    """Return the extension with sources for ROCm; those that are HIP already stay as they are.

    Texts that were given inline are written out first. Raises ArgumentError if a source lies in no folder of the
    extension, and the location of its headers would be lost.
    """
    if all(source.name.endswith(".hip") for source in extension.sources):
        return extension
    from torch.utils.hipify import hipify_python

    contents = {path.relative_to(extension.root): path.read_bytes() for path in _translatable(extension)}
    contents |= {Path(item.name): item.text.encode() for item in extension.sources if item.text is not None}
    named = [part for name, data in sorted(contents.items()) for part in (str(name), data)]
    state = digest(str(extension.root), *named)
    store = Store(default_root())
    folder = store.root / "hipified" / state[:32]
    paths = [_translated_path(source, extension, folder) for source in extension.sources]
    # Translating is not atomic: another process or thread must not read what is half written.
    with store.lock(state):
        for name, data in contents.items():
            _write(folder / name, data, store)
        translated = hipify_python.hipify(
            project_directory=str(folder),
            output_directory=str(folder),
            includes=[str(folder / "*")],
            extra_files=[str(path) for path in paths],
            is_pytorch_extension=True,
            show_progress=False,
        )
    sources = []
    for source, path in zip(extension.sources, paths, strict=True):
        result = translated.get(str(path))
        output = getattr(result, "hipified_path", None) or str(path)
        sources.append(replace(source, path=Path(output), text=None))
    includes = (folder, *(_moved(path, extension.root, folder) for path in extension.include_dirs))
    return replace(extension, sources=tuple(sources), include_dirs=(*includes, *extension.include_dirs))


def _translatable(extension: ExistingSources) -> list[Path]:
    """Return the user's files below the folders of sources and headers; what lies elsewhere is not the user's."""
    folders = {user.parent for source in extension.sources for user in source.users}
    folders |= {path for path in extension.include_dirs if path.is_relative_to(extension.root)}
    found = {path for folder in folders for path in folder.rglob("*") if path.suffix in _TRANSLATED and path.is_file()}
    return sorted(path for path in found if path.is_relative_to(extension.root))


def _translated_path(source: Source, extension: ExistingSources, folder: Path) -> Path:
    if source.text is not None or source.path is None:
        return folder / source.name
    if not source.path.is_relative_to(extension.root):
        raise ArgumentError(f"{source.path} is outside {extension.root}, so it cannot be translated for ROCm")
    return folder / source.path.relative_to(extension.root)


def _moved(path: Path, root: Path, folder: Path) -> Path:
    return folder / path.relative_to(root) if path.is_relative_to(root) else path


def _write(target: Path, data: bytes, store: Store) -> None:
    """Write a file that has other bytes or is not there; one that fits keeps its time, by which ninja goes."""
    with explain_os_errors(store.root):
        if not target.is_file() or target.read_bytes() != data:
            write_atomic(target, data, scratch=store.layout.staging, durable=False)
