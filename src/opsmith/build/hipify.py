"""Translates CUDA sources for ROCm with the hipify that comes with torch, in a separate folder.

PyTorch's cpp_extension writes the translation next to the user's files; nothing is written there by opsmith.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from opsmith.errors import ArgumentError
from opsmith.spec.extension import ExistingSources, Source
from opsmith.store import default_root, digest, digest_file

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

    originals = _translatable(extension)
    texts = {source.name: source.text for source in extension.sources if source.text is not None}
    state = digest(*(f"{path} {digest_file(path)}" for path in originals), *map(repr, sorted(texts.items())))
    folder = default_root() / "hipified" / state[:32]
    for path in originals:
        _copy(path, folder / path.relative_to(extension.root))
    for name, text in texts.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    paths = [_translated_path(source, extension, folder) for source in extension.sources]
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


def _copy(path: Path, target: Path) -> None:
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
