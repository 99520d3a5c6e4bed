"""Turns a plan into an artefact: finds it in the store, or builds and publishes it there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from opsmith import _env
from opsmith.build.key import key_inputs
from opsmith.build.plan import Plan, Target
from opsmith.build.record import describe_build, digests_for_record, read_headers
from opsmith.build.watcher import Watcher, watched
from opsmith.errors import BuildError
from opsmith.store import (
    Artifact,
    Store,
    default_root,
    edited_since,
    outlive_edits,
    source_key,
    versions_ahead,
)

if TYPE_CHECKING:
    from opsmith.toolchain import Toolchain

__all__ = ["build_into", "obtain_artifact"]

# A source that is saved while it compiles is compiled again; after so many attempts the user must decide.
_ATTEMPTS = 3


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
        sources = [user for step in plan.steps for user in step.users]
        # Of the attempt before: only the compiler can tell.
        headers: tuple[Path, ...] = ()
        edited: tuple[Path, ...] = ()
        for _ in range(_ATTEMPTS):
            with store.staging() as scratch:
                outlive_edits(sources)
                ahead = versions_ahead([*headers, *sources])
                started_ns = time.time_ns()
                library = build_into(
                    plan, toolchain, target, scratch, jobs=jobs, watcher=watcher, is_lasting=is_lasting
                )
                headers = read_headers(plan, toolchain, scratch)
                # Before the question: what is saved after it must not be what is recorded. One that is gone is edited.
                digests = digests_for_record(plan, scratch, [header for header in headers if header.is_file()])
                edited = edited_since([*headers, *sources], started_ns, ahead)
                # The second question is for what was saved while this process waited for the lock.
                if edited or key_inputs(plan, toolchain, target) != inputs:
                    inputs = key_inputs(plan, toolchain, target)
                    key = source_key(inputs)
                    continue
                published = scratch / "artifact"
                published.mkdir()
                library = library.rename(published / plan.library)
                manifest = describe_build(plan, toolchain, target, library, inputs)
                artifact = store.publish(key, published, manifest=manifest, headers=digests, roots=roots)
                share(store, artifact)
                return artifact
    names = ", ".join(dict.fromkeys(path.name for path in edited)) or "a source or linked file"
    raise BuildError(
        f"{plan.extension.name}: {names} changed during each of {_ATTEMPTS} builds; save the last version and try again"
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
    reuse: bool = True,
) -> Path:
    """Run a plan in a folder and return the library; the machine's store gives and takes what makes it faster.

    `is_lasting` says that more builds with this torch and this compiler are to be expected, so that headers are
    precompiled for them. Without `reuse` every source is compiled, whatever the store has of it.
    """
    from opsmith.build.fast.run import run_fast  # not needed where an artefact is found

    watcher = watcher or Watcher()
    with watched(plan, watcher):
        return run_fast(
            plan,
            toolchain,
            target,
            Store(default_root()),
            folder,
            jobs=jobs,
            watcher=watcher,
            is_lasting=is_lasting,
            reuse=reuse,
        )


def _tell_editors(plan: Plan, store: Store) -> None:
    from opsmith.build.editor import note_for_editors  # not needed where an artefact is found

    note_for_editors(plan, store)


def _found(artifact: Artifact, watcher: Watcher) -> Artifact:
    if watcher.on_found is not None:
        watcher.on_found(artifact)
    return artifact
