"""How an extension becomes an artefact: found in the store, or built, checked and published there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opsmith import _env
from opsmith._version import __version__
from opsmith.build.plan import Plan, Target
from opsmith.errors import BuildError
from opsmith.store import (
    Artifact,
    Layout,
    Manifest,
    Store,
    default_root,
    digest,
    digest_file,
    digest_headers,
    edited_since,
    read_depfile,
    source_key,
)
from opsmith.toolchain.processor import asks_for_native, processor_identity

if TYPE_CHECKING:
    from opsmith.build.ninja import Progress
    from opsmith.store import Kind
    from opsmith.toolchain import Toolchain

__all__ = [
    "COMPILER_VARIABLES",
    "Watcher",
    "build_into",
    "describe_build",
    "key_inputs",
    "obtain_artifact",
    "read_headers",
    "watched",
]

# A source that is saved while it compiles is compiled again; after so many times somebody else must decide.
_ATTEMPTS = 3


@dataclass(frozen=True)
class Watcher:
    """Who wants to know how a build goes; each may be None. A build that starts ends, or fails."""

    on_start: Callable[[Plan], None] | None = None
    on_progress: Callable[[Progress], None] | None = None
    on_output: Callable[[str], None] | None = None
    on_wait: Callable[[float], None] | None = None
    on_end: Callable[[Plan, float], None] | None = None
    on_fail: Callable[[Plan, float], None] | None = None
    on_found: Callable[[Artifact], None] | None = None  # in the store; after waiting, another process has built it
    on_lock: Callable[[Path], None] | None = None  # the file whose holder builds, where this process has to wait


# What compilers read from the environment by themselves.
COMPILER_VARIABLES = (
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "HIPCC_COMPILE_FLAGS_APPEND",
)


def key_inputs(plan: Plan, toolchain: Toolchain, target: Target) -> dict[str, str]:
    """Return what the source key covers: a name and a digest for everything known before compiling."""
    inputs = {f"generated {name}": digest(text) for name, text in sorted(plan.files.items())}
    for user in sorted({user for step in plan.steps for user in step.users}):
        inputs[f"source {_portable(str(user), plan.roots)}"] = digest_file(user)
    for step in plan.steps:
        inputs[f"command {step.output}"] = digest(*_portable_command(step.argv, plan.roots, toolchain))
    for role, identity in toolchain.compilers.items():
        inputs[f"compiler {role}"] = digest(identity)
    if asks_for_native(word for step in plan.steps for word in step.argv):
        inputs["processor"] = digest(processor_identity())
    if variables := [f"{name}={value}" for name in COMPILER_VARIABLES if (value := _env.read(name))]:
        inputs["environment"] = digest(*variables)
    inputs["archs"] = digest(*target.archs)
    inputs["library"] = digest(plan.library)
    if plan.extension.api == "full":
        # Only such a binary depends on torch's version; a stable one is the same for every torch.
        inputs["torch"] = digest(toolchain.torch.version, toolchain.torch.git_version)
        inputs["python"] = digest(plan.python_abi or "")
    for flag in plan.extension.link_flags:
        if (file := Path(flag)).is_absolute() and file.is_file():
            inputs[f"linked {_portable(flag, plan.roots)}"] = digest_file(file)
    return inputs


def obtain_artifact(
    plan: Plan,
    toolchain: Toolchain,
    target: Target,
    store: Store,
    *,
    jobs: int | None = None,
    watcher: Watcher | None = None,
    is_lasting: bool = True,
) -> Artifact:
    """Return the artefact of a plan: from the store where it is there, else built and published.

    `is_lasting` as for `build_into`.

    Raises CompileError, SignatureError, ToolchainError or StoreError.
    """
    watcher = watcher or Watcher()
    inputs = key_inputs(plan, toolchain, target)
    key = source_key(inputs)
    roots = plan.roots
    if (found := store.find(key, roots=roots)) is not None:
        if _env.read("OPSMITH_COMPILE_COMMANDS") is not None:
            _tell_editors(plan, store)
        return _found(found, watcher)
    _tell_editors(plan, store)
    if watcher.on_lock is not None:
        watcher.on_lock(store.layout.lock(key))
    with store.lock(key, watcher.on_wait):
        # Another process may have built it while this one waited.
        if (found := store.find(key, roots=roots)) is not None:
            return _found(found, watcher)
        from opsmith.store.shared import fetch_shared, share  # not needed where an artefact is found

        if (fetched := fetch_shared(store, key, roots)) is not None:
            return _found(fetched, watcher)
        for _ in range(_ATTEMPTS):
            with store.staging() as scratch:
                started_ns = time.time_ns()
                library = build_into(
                    plan, toolchain, target, scratch, jobs=jobs, watcher=watcher, is_lasting=is_lasting
                )
                headers = read_headers(plan, toolchain, scratch)
                sources = [user for step in plan.steps for user in step.users]
                # The second question is for what was saved while this process waited for the lock.
                if edited_since([*headers, *sources], started_ns) or key_inputs(plan, toolchain, target) != inputs:
                    inputs = key_inputs(plan, toolchain, target)
                    key = source_key(inputs)
                    continue
                published = scratch / "artifact"
                published.mkdir()
                library = library.rename(published / plan.library)
                manifest = describe_build(plan, toolchain, target, library, inputs)
                digests = digest_headers(headers)
                artifact = store.publish(key, published, manifest=manifest, headers=digests, roots=roots)
                share(store, artifact)
                return artifact
    raise BuildError(
        f"{plan.extension.name}: a source or header changed during each of {_ATTEMPTS} builds; save it once and try again"
    )


def build_into(
    plan: Plan,
    toolchain: Toolchain,
    target: Target,
    folder: Path,
    *,
    jobs: int | None = None,
    watcher: Watcher | None = None,
    is_lasting: bool = True,
) -> Path:
    """Run a plan in a folder and return the library; the machine's store gives and takes what makes it faster.

    `is_lasting` says that more builds with this torch and this compiler are to be expected, so that headers are
    precompiled for them.
    """
    from opsmith.build.fast.run import run_fast  # not needed where an artefact is found

    watcher = watcher or Watcher()
    with watched(plan, watcher):
        return run_fast(
            plan, toolchain, target, Store(default_root()), folder, jobs=jobs, watcher=watcher, is_lasting=is_lasting
        )


@contextmanager
def watched(plan: Plan, watcher: Watcher) -> Iterator[None]:
    """Tell a watcher of the start and of the end of what is done in the block; an exception, Ctrl-C too, is a failure."""
    if watcher.on_start is not None:
        watcher.on_start(plan)
    started = time.perf_counter()
    try:
        yield
    except BaseException:
        if watcher.on_fail is not None:
            watcher.on_fail(plan, time.perf_counter() - started)
        raise
    if watcher.on_end is not None:
        watcher.on_end(plan, time.perf_counter() - started)


def _tell_editors(plan: Plan, store: Store) -> None:
    from opsmith.build.editor import note_for_editors  # not needed where an artefact is found

    note_for_editors(plan, store)


def _found(artifact: Artifact, watcher: Watcher) -> Artifact:
    if watcher.on_found is not None:
        watcher.on_found(artifact)
    return artifact


def describe_build(
    plan: Plan,
    toolchain: Toolchain,
    target: Target,
    library: Path,
    inputs: Mapping[str, str],
    *,
    kind: Kind = "library",
) -> Manifest:
    """Return the manifest of a library that was just built."""
    return Manifest.describe(
        library,
        name=plan.extension.name,
        inputs=inputs,
        devices=plan.extension.devices,
        archs=target.archs,
        toolchain=toolchain.compilers,
        torch_version=toolchain.torch.version if plan.extension.api == "full" else None,
        opsmith_version=__version__,
        kind=kind,
    )


def read_headers(plan: Plan, toolchain: Toolchain, folder: Path) -> tuple[Path, ...]:
    """Return the headers that the compilers read, but for those that come with a compiler, with torch, or of the store.

    Those are covered by the compiler's identity and by torch's version, and there are thousands of them.
    """
    covered = [toolchain.torch.root, Path("/usr/include"), Path("/usr/lib"), Path("/usr/lib64")]
    # Not its root: conda's is a whole environment, with the headers of other packages.
    covered += toolchain.cuda.include_dirs if toolchain.cuda else []
    covered += [toolchain.rocm.root] if toolchain.rocm and toolchain.rocm.root != Path("/usr") else []
    covered += [folder, Layout(default_root()).artifacts]
    # As the compiler names them, and as they really are: most headers are dropped by name, without a look at the disk.
    skip = tuple(f"{place}/" for place in covered)
    really = tuple(place.resolve() for place in covered)
    found: dict[Path, None] = {}
    for step in plan.steps:
        if step.depfile is not None:
            for header in read_depfile(folder / step.depfile, cwd=folder, skip=skip):
                resolved = header.resolve()
                if not any(map(resolved.is_relative_to, really)):
                    found[resolved] = None
    return tuple(found)


def _portable(text: str, roots: Mapping[str, Path]) -> str:
    for name, root in sorted(roots.items(), key=lambda item: -len(str(item[1]))):
        text = text.replace(str(root), f"<{name}>")
    return text


def _portable_command(argv: tuple[str, ...], roots: Mapping[str, Path], toolchain: Toolchain) -> list[str]:
    """Return a command without the places where its tools and folders happen to lie on this machine."""
    places = dict(roots)
    tools = {"host": toolchain.host.path}
    if toolchain.cuda is not None:
        tools |= {"nvcc": toolchain.cuda.nvcc, "cuda host": toolchain.cuda.host.path}
        places["cuda"] = toolchain.cuda.root
    if toolchain.rocm is not None:
        tools["hipcc"] = toolchain.rocm.hipcc
        places["rocm"] = toolchain.rocm.root
    named = {str(path): f"<{name}>" for name, path in tools.items()}
    return [named.get(word) or _portable(word, places) for word in argv]
