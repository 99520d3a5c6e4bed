"""Answers a call of `load` or `load_inline`: from an earlier process's notes, from the store, or by a build."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

from opsmith._env import absolute_path
from opsmith.build.linked import linked_files
from opsmith.build.notes import find_noted, note_version, write_note
from opsmith.cpp_extension.arguments import Flags, Paths, as_flags, as_link_flags, as_paths
from opsmith.cpp_extension.homes import assigned, assigned_homes, assigned_nvcc_flags, store_root
from opsmith.cpp_extension.names import current
from opsmith.errors import MissingToolkitError, StoreError
from opsmith.runtime.existing import bring_in
from opsmith.store import Artifact, Store, digest

if TYPE_CHECKING:
    from opsmith.build.target import Prepared
    from opsmith.build.watcher import Watcher
    from opsmith.spec.extension import ExistingSources, Source

__all__ = ["Asked", "Call", "answer"]

# After so long a process that waits for another says so.
_PATIENCE_S = 1.0


class Call(NamedTuple):
    """What the arguments of a call say, but for the sources."""

    name: str
    kind: Literal["module", "library", "program"]
    cxx_flags: list[str]
    gpu_flags: list[str]
    sycl_flags: list[str]
    link_flags: list[str]
    include_dirs: list[str]
    folder: Path | None
    with_cuda: bool | None
    with_sycl: bool

    @classmethod
    def of(
        cls,
        name: str,
        kind: Literal["module", "library", "program"],
        flags: tuple[Flags, Flags, Flags, Flags],
        include_paths: Paths | None,
        build_directory: str | PathLike[str] | None,
        with_cuda: bool | None,
        with_sycl: bool | None,
    ) -> Call:
        """Return the call of these arguments; `flags` are for the C++ compiler, nvcc, icpx and the linker."""
        cxx, nvcc, sycl, link = flags
        return cls(
            name,
            kind,
            as_flags(cxx, "extra_cflags"),
            as_flags(nvcc, "extra_cuda_cflags"),
            as_flags(sycl, "extra_sycl_cflags"),
            as_link_flags(link),
            as_paths(include_paths, "extra_include_paths"),
            None if build_directory is None else absolute_path(build_directory, "build_directory"),
            with_cuda,
            bool(with_sycl),
        )


class Asked(NamedTuple):
    """The sources of a call: `words` tell them from others, `files` are those of the user's on disk.

    `texts` gives what is in them, and `sources` makes them what a plan is made of; both only where they are needed.
    """

    words: tuple[str, ...]
    texts: Callable[[], Iterable[str]]
    sources: Callable[[], tuple[Source, ...]]
    has_gpu: bool
    files: tuple[Path, ...] = ()


def answer(call: Call, asked: Asked, *, verbose: bool) -> Any:
    """Return the module, or the path of the library or program, built now where it was not before."""
    store = Store(call.folder or store_root())
    # Relative paths in flags are taken from the current folder.
    request = [*asked.words, repr(call), str(Path.cwd()), repr(assigned()), repr(assigned_nvcc_flags())]
    with_gpu = asked.has_gpu or bool(call.with_cuda)

    def known() -> Artifact | None:
        return None if verbose else find_noted(store, request, asked.files, linked=linked(), with_gpu=with_gpu)

    def linked() -> tuple[Path, ...]:
        return linked_files(call.link_flags, Path(torch.__file__).parent)

    before = note_version(store, request)
    artifact = known()
    if is_new := artifact is None:
        # One process plans and builds; the others wait here, where it costs nothing, for what it finds.
        with _one_at_a_time(store, request, call.name, lambda: note_version(store, request) != before) as told:
            artifact = known()
            if artifact is not None:
                told(artifact)
            else:
                artifact, prepared = _build(call, asked, store, verbose=verbose)
                roots = prepared.plan.roots
                write_note(store, request, asked.files, artifact, roots, linked=linked(), with_gpu=with_gpu)
    library = artifact.library
    shown = _put_into_build_folder(library, call) if call.folder is not None else library
    if call.kind == "program":
        return str(shown)
    name = call.name.rpartition(".")[2]
    loaded = bring_in(name, library, asked.texts(), is_python_module=call.kind == "module")
    if is_new:
        _note_operators(name, asked.texts(), store)
    return loaded


@contextmanager
def _one_at_a_time(
    store: Store, request: Iterable[str], name: str, is_noted: Callable[[], bool]
) -> Iterator[Callable[[Artifact], None]]:
    """Hold the lock of a request until another has noted an answer, and give whom to tell of what that has built.

    A store that has no locks to give is the build's to complain of.
    """
    key = f"request-{digest(*request)}"
    told: list[Watcher] = []

    def wait(seconds: float) -> None:
        if seconds < _PATIENCE_S:
            return
        if not told:
            from opsmith.build.announce import announcer

            told.append(announcer(name))
            if told[0].on_lock is not None:
                told[0].on_lock(store.layout.lock(key))
        if told[0].on_wait is not None:
            told[0].on_wait(seconds)

    def found(artifact: Artifact) -> None:
        if told and told[0].on_found is not None:
            told[0].on_found(artifact)

    with ExitStack() as stack:
        with suppress(StoreError):
            stack.enter_context(store.lock(key, wait, is_noted))
        yield found


def _note_operators(name: str, texts: Iterable[str], store: Store) -> None:
    """Write stubs of the operators that some sources have registered, for type checkers."""
    from opsmith.build.typings import note_typings, registered_schemas
    from opsmith.runtime.registrations import find_namespaces

    if namespaces := find_namespaces(texts, name):
        note_typings(registered_schemas(namespaces), store)


def _build(call: Call, asked: Asked, store: Store, *, verbose: bool) -> tuple[Artifact, Prepared]:
    """Return the artefact and what it is planned from; the store may have it."""
    from opsmith.build.announce import announcer
    from opsmith.build.artifact import obtain_artifact
    from opsmith.build.existing import prepare_existing

    extension = _keep_texts(_assemble(call, asked.sources()), store)
    gpu = extension.needs_gpu_compiler if call.with_cuda is None else call.with_cuda
    with assigned_homes():
        if gpu:
            _check_gpu(extension)
        prepared = prepare_existing(extension, with_gpu=call.with_cuda, check_cuda=False)
    watcher = announcer(extension.name, verbose=verbose)
    return obtain_artifact(prepared.plan, prepared.toolchain, prepared.target, store, watcher=watcher), prepared


def _assemble(call: Call, sources: tuple[Source, ...]) -> ExistingSources:
    from opsmith.build.existing import assemble_sources
    from opsmith.runtime.registrations import Registrations, find_registrations, source_texts
    from opsmith.toolchain import find_python_headers

    # What registers operators can be replaced by its next version, in a notebook for instance.
    reloadable = call.kind != "program" and find_registrations(source_texts(sources), call.name) != Registrations()
    suffix = {"module": find_python_headers().extension_suffix, "library": ".so", "program": ""}[call.kind]
    return assemble_sources(
        call.name,
        sources,
        library=f"{call.name.rpartition('.')[2]}{suffix}",
        include_dirs=call.include_dirs,
        cxx_flags=call.cxx_flags,
        gpu_flags=call.gpu_flags,
        sycl_flags=tuple(call.sycl_flags),
        link_flags=call.link_flags,
        kind=call.kind,
        nvcc_flags=tuple(current("COMMON_NVCC_FLAGS")),
        with_sycl=call.with_sycl,
        reloadable=reloadable,
    )


def _keep_texts(extension: ExistingSources, store: Store) -> ExistingSources:
    """Keep the sources that are given as text in files, as PyTorch does, and return the extension that names them.

    Files of texts do not change. A store that cannot be written is the build's to complain of.
    """
    from dataclasses import replace

    from opsmith.store.files import write_atomic
    from opsmith.store.safety import make_folder

    texts = {source.name: source.text for source in extension.sources if source.text is not None}
    if not texts:
        return extension
    folder = store.layout.texts / digest(*(part for item in sorted(texts.items()) for part in item))
    with suppress(OSError, StoreError):
        make_folder(folder)
        for name, text in texts.items():
            if not (folder / name).is_file():
                write_atomic(folder / name, text.encode(), scratch=store.layout.staging, durable=False)
    return replace(extension, texts_dir=folder)


def _check_gpu(extension: ExistingSources) -> None:
    from opsmith.toolchain import find_torch

    torch = find_torch()
    if torch.cuda is None and torch.hip is None:
        needs = "has CUDA sources" if extension.needs_gpu_compiler else "is to be built with CUDA (with_cuda=True)"
        raise MissingToolkitError(
            f"{extension.name} {needs}, but torch {torch.version} is built without CUDA: it cannot run CUDA code and "
            "lacks headers that such code may include. Install a CUDA build as "
            "https://pytorch.org/get-started/locally says"
        )
    if torch.cuda is not None:
        compiler = current("get_cxx_compiler")()
        _, version = current("get_compiler_abi_compatibility_and_version")(compiler)
        current("_check_cuda_version")(compiler, version)


def _put_into_build_folder(library: Path, call: Call) -> Path:
    """Put a library where a build by PyTorch would leave it in its build directory."""
    import shutil
    import tempfile

    assert call.folder is not None
    target = call.folder / (call.name.rpartition(".")[2] + ("" if call.kind == "program" else ".so"))
    if (
        target.is_file()
        and target.stat().st_size == library.stat().st_size
        and target.read_bytes() == library.read_bytes()
    ):
        return target
    # Whole or not at all, and never into a file that another process has loaded.
    descriptor, part = tempfile.mkstemp(prefix=f".{target.name}.", dir=call.folder)
    os.close(descriptor)
    try:
        shutil.copyfile(library, part)
        Path(part).chmod(0o755)
        Path(part).replace(target)
    finally:
        Path(part).unlink(missing_ok=True)
    return target
