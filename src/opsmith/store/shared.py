"""Shares artefacts between machines through OPSMITH_STORE: one builds and signs, the others fetch and verify.

    v1/<platform>/<2 digits>/<source key>/<artefact key>.<signer>.json    a bundle, put there last
    v1/<platform>/<2 digits>/<source key>/<artefact key>/<sha256>         the binary and what is next to it

What is fetched is verified, put into the local store and loaded from there. A build never fails for the shared store,
and never waits for long: what goes wrong with it is one warning, and this process asks it no more.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from opsmith import _env
from opsmith._printable import printable
from opsmith.errors import OpsmithError, StoreError
from opsmith.store.archive import find_record
from opsmith.store.artifact_store import NO_ROOTS, Store
from opsmith.store.bundle import Bundle, read_bundle, write_bundle
from opsmith.store.files import DISK_FULL, explain_os_errors
from opsmith.store.headers import HeaderDigests
from opsmith.store.index import is_current
from opsmith.store.intact import Artifact, find_damage
from opsmith.store.keyring import fingerprint, has_signing_key, public_key, trusted_keys
from opsmith.store.machine import platform_name
from opsmith.store.manifest import MANIFEST_NAME
from opsmith.store.safety import seal_tree
from opsmith.store.transport import Limit, Transport, fetch, open_transport, read, until

__all__ = ["Pulled", "fetch_shared", "pull", "push", "share"]

_T = TypeVar("_T")

# Finding an artefact, however many questions that takes, and moving its files. A build takes as long, so waiting longer
# would be a loss. `opsmith cache pull` asks for very many bundles, and has a second more for each.
_ASK_TIMEOUT_S = 10.0
_MOVE_TIMEOUT_S = 120.0
_PULL_S_PER_BUNDLE = 1.0

# No user has so many variants of the headers of one source; a folder that anyone can fill may. Bundles whose names are
# of no trusted key are only read to tell whose they are.
_MAX_BUNDLES = 64
_MAX_STRANGERS = 4
_MAX_NAMES = 10_000
_MAX_PULLED_NAMES = 1_000_000

# A record of thousands of headers is a few hundred KB, and what is next to a binary are stubs and digests of lines.
_MAX_BUNDLE_BYTES = 8 << 20
_MAX_BESIDE_BYTES = 64 << 20

_given_up: set[str] = set()
_refused: set[tuple[str, str]] = set()


@dataclass(frozen=True)
class Pulled:
    """What `pull` did: what is new here, what was already here, and the keys that signed rejected artefacts."""

    added: tuple[Artifact, ...]
    present: int
    refused: Mapping[str, int]


def fetch_shared(store: Store, source_key: str, roots: Mapping[str, Path] = NO_ROOTS) -> Artifact | None:
    """Return an artefact from the shared store, that is now in the local one, or None.

    What goes wrong with the shared store is a warning. Raises StoreError if the local one cannot be written.
    """
    url = _env.read("OPSMITH_STORE")
    if url is None or url in _given_up:
        return None

    def find() -> tuple[Transport, Bundle, str] | None:
        end_s = time.monotonic() + _ASK_TIMEOUT_S
        transport = until(end_s, lambda: open_transport(url))
        folder = _folder(source_key)
        names = until(end_s, lambda: transport.list(folder, Limit(_MAX_NAMES, end_s)))
        trusted, digests = trusted_keys(), HeaderDigests(roots)
        for name in _choose(_bundles(names), trusted):
            bundle = _examine(transport, url, name, end_s)
            if bundle is None or bundle.source_key != source_key:
                continue
            # Trust comes first: a record names files of this machine, and reading them may be what its author is after.
            if bundle.signer not in trusted:
                _refuse(url, bundle)
            elif is_current(bundle.record, digests):
                return transport, bundle, f"{url}/{printable(name)}"
        return None

    if (found := _guarded(url, find)) is None:
        return None
    transport, bundle, where = found
    with store.staging() as staging:
        # Nothing is written there, so a full disk is the one here.
        folder = _guarded(url, lambda: _download(transport, bundle, where, staging), ours=DISK_FULL)
        return None if folder is None else _admit(store, folder, bundle)


def share(store: Store, artifact: Artifact) -> None:
    """Push what was just built, where there are a shared store and a signing key. Raises nothing: it warns."""
    url = _env.read("OPSMITH_STORE")
    if url is None or url in _given_up or not has_signing_key():
        return
    _guarded(url, lambda: _push_one(store, _open(url), artifact))


def push(store: Store, artifacts: Sequence[Artifact]) -> int:
    """Sign artefacts and put them into the shared store; return how many it did not have from this key.

    Raises StoreError if there is no shared store, no signing key, or something goes wrong with either.
    """
    url = _shared_url()
    public_key()
    return _explained(url, lambda: sum(_push_one(store, _open(url), artifact) for artifact in artifacts))


def pull(store: Store, names: Sequence[str] = ()) -> Pulled:
    """Fetch what trusted keys have signed for this kind of machine: all, or the artefacts of these names.

    Raises StoreError if there is no shared store, or something goes wrong with it.
    """
    url = _shared_url()
    return _explained(url, lambda: _pull(store, _open(url), url, names))


def _pull(store: Store, transport: Transport, url: str, names: Sequence[str]) -> Pulled:
    trusted = trusted_keys()
    added: list[Artifact] = []
    present = 0
    refused: dict[str, int] = {}
    end_s = time.monotonic() + _MOVE_TIMEOUT_S
    folder = f"v1/{platform_name()}"
    found = _bundles(until(end_s, lambda: transport.list(folder, Limit(_MAX_PULLED_NAMES, end_s), deep=True)))
    left_s = _ASK_TIMEOUT_S + len(found) * _PULL_S_PER_BUNDLE
    for name in found:
        start_s = time.monotonic()
        bundle = _examine(transport, url, name, start_s + min(left_s, _ASK_TIMEOUT_S))
        left_s -= time.monotonic() - start_s
        if bundle is None or (names and bundle.manifest.name not in names):
            continue
        if bundle.signer not in trusted:
            refused[bundle.signer] = refused.get(bundle.signer, 0) + 1
        elif store.get(bundle.record.artifact) is not None:
            present += 1
        else:
            with store.staging() as staging:
                fetched = _download(transport, bundle, f"{url}/{printable(name)}", staging)
                added.append(_admit(store, fetched, bundle))
    return Pulled(tuple(added), present, refused)


def _push_one(store: Store, transport: Transport, artifact: Artifact) -> bool:
    record = find_record(store, artifact)
    manifest_bytes = (artifact.folder / MANIFEST_NAME).read_bytes()
    if (damage := find_damage(artifact.folder, artifact.manifest)) is not None:
        raise StoreError(f"{artifact.manifest.name} is damaged and not shared: {damage}")
    base = f"{_folder(_source_of(artifact))}/{artifact.key}"
    name = f"{base}{_ending(public_key())}"
    if until(time.monotonic() + _ASK_TIMEOUT_S, lambda: transport.exists(name)):
        return False
    for file, sha256 in _files(artifact.manifest.library, artifact.manifest.sha256, artifact.manifest.files).items():
        end_s = time.monotonic() + _MOVE_TIMEOUT_S
        until(end_s, lambda file=file, sha=sha256: transport.put(artifact.folder / file, f"{base}/{sha}"))  # type: ignore[misc]
    bundle = write_bundle(manifest_bytes, record, platform_name())
    until(time.monotonic() + _ASK_TIMEOUT_S, lambda: transport.write(name, bundle))
    return True


def _download(transport: Transport, bundle: Bundle, where: str, staging: Path) -> Path:
    """Put the files of a bundle that is trusted into a folder below `staging`, verified, and return it."""
    manifest = bundle.manifest
    base = f"{_folder(bundle.source_key)}/{bundle.record.artifact}"
    end_s = time.monotonic() + _MOVE_TIMEOUT_S
    folder = staging / "artifact"
    folder.mkdir()
    (folder / MANIFEST_NAME).write_bytes(bundle.manifest_bytes)
    for name, sha256 in _files(manifest.library, manifest.sha256, manifest.files).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        limit = Limit(manifest.size_bytes if name == manifest.library else _MAX_BESIDE_BYTES, end_s)
        until(end_s, partial(fetch, transport, f"{base}/{sha256}", folder / name, limit))
    seal_tree(folder, staging.stat().st_mode)
    if (damage := find_damage(folder, manifest)) is not None:
        raise StoreError(f"{where}: {damage}; none of it is used")
    return folder


def _admit(store: Store, folder: Path, bundle: Bundle) -> Artifact:
    with explain_os_errors(store.root):
        return store.admit(bundle.source_key, folder, bundle.record)


def _examine(transport: Transport, url: str, name: str, end_s: float) -> Bundle | None:
    try:
        data = until(end_s, lambda: read(transport, name, Limit(_MAX_BUNDLE_BYTES, end_s)))
        return read_bundle(data, f"{url}/{printable(name)}", platform_name())
    except StoreError as error:
        _warn(f"{error}")
        return None


def _choose(names: Sequence[str], trusted: Mapping[str, str]) -> list[str]:
    """Return the bundles to read: those that are named as trusted keys name theirs, then some of the others."""
    endings = tuple(_ending(key) for key in trusted)
    ours = [name for name in names if name.endswith(endings)]
    others = [name for name in names if not name.endswith(endings)]
    return ours[:_MAX_BUNDLES] + others[:_MAX_STRANGERS]


def _refuse(url: str, bundle: Bundle) -> None:
    if (url, bundle.signer) in _refused:
        return
    _refused.add((url, bundle.signer))
    _warn(
        f"the shared store {url} has {bundle.manifest.name}, but signed by a key that you do not trust. It is NOT "
        f"loaded but built here.\n  fingerprint of the key: {fingerprint(bundle.signer)}\n  If its owner tells you the "
        f"same: opsmith cache key trust {bundle.signer}"
    )


def _guarded(url: str, action: Callable[[], _T], *, ours: Collection[int] = ()) -> _T | None:
    """Do something with the shared store; what goes wrong is one warning, and the end of asking it.

    An OSError whose errno is one of `ours` is not the shared store's, and is raised.
    """
    try:
        return action()
    except Exception as error:  # every kind of storage has its own exceptions
        if isinstance(error, OSError) and error.errno in ours:
            raise
        _given_up.add(url)
        _warn(f"the shared store {url} is not used in this process: {_tell(error)}")
        return None


def _explained(url: str, action: Callable[[], _T]) -> _T:
    try:
        return action()
    except OpsmithError:
        raise
    except Exception as error:  # as above
        raise StoreError(f"the shared store {url} cannot be used: {_tell(error)}") from error


def _open(url: str) -> Transport:
    return until(time.monotonic() + _ASK_TIMEOUT_S, lambda: open_transport(url))


def _ending(key: str) -> str:
    """Return how the names of the bundles end that a key has signed."""
    return f".{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _bundles(names: Sequence[str]) -> list[str]:
    return [name for name in names if name.endswith(".json")]


def _files(library: str, sha256: str, files: Mapping[str, str]) -> dict[str, str]:
    return {library: sha256, **files}


def _source_of(artifact: Artifact) -> str:
    from opsmith.store import keys

    return keys.source_key(artifact.manifest.inputs)


def _folder(source_key: str) -> str:
    return f"v1/{platform_name()}/{source_key[:2]}/{source_key}"


def _shared_url() -> str:
    url = _env.read("OPSMITH_STORE")
    if url is None:
        raise StoreError("no shared store: set OPSMITH_STORE to a folder or a URL such as s3://bucket/opsmith")
    return url


def _tell(error: BaseException) -> str:
    # A storage tells what its server answered.
    text = f"{error}" if isinstance(error, OpsmithError) else f"{type(error).__name__}: {error}"
    return printable(text, lines=isinstance(error, OpsmithError))


def _warn(text: str) -> None:
    warnings.warn(printable(text, lines=True), RuntimeWarning, stacklevel=2)
