"""Damages a store and its archives in one to three ways: what it gives is what was put in, or nothing, or a StoreError.

Afterwards the same artefact can be published again and is found, so damage never stops a build.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from hypothesis import strategies as st
from outcomes import Raised, attempt

from opsmith.store import Artifact, Manifest, Store, digest_headers, source_key
from opsmith.store.archive import export_archive, import_archive
from opsmith.store.explain import explain_miss
from opsmith.store.verify import remove_damaged, verify_store

_INPUTS = {"sources": "11", "flags": "22", "host compiler": "33"}
_CONTENT = b"\x7fELF binary" * 50

_TEXTS = (
    *(b"", b"\0", b"{}", b"[]", b"null", b"NaN", b"\xff\xfe", b'"\\ud800"', b"[" * 100_000, b'{"a":' * 50_000),
    *(b"9" * 5000, b'{"format": 1}', b"1e999", b"\n" * 10_000, b"../../../etc/passwd\n", b"\x1b[31m"),
)


def _write(data: bytes) -> Callable[[Path], None]:
    return lambda path: _replace(path, lambda: path.write_bytes(data))


def _replace(path: Path, make: Callable[[], object]) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    make()


def _change_bytes(path: Path) -> None:
    if path.is_file():
        data = bytearray(path.read_bytes())
        for position in range(0, len(data), 7):
            data[position] ^= 1
        path.chmod(0o644)
        path.write_bytes(data)


def _halve(path: Path) -> None:
    if path.is_file():
        os.truncate(path, path.stat().st_size // 2)


def _make_unreadable(path: Path) -> None:
    if path.exists():  # and is no link to nothing, or to itself
        path.chmod(0)


_DAMAGE: dict[str, Callable[[Path], object]] = {
    "changed": _change_bytes,
    "cut in half": _halve,
    "gone": lambda path: _replace(path, lambda: None),
    "a folder": lambda path: _replace(path, path.mkdir),
    "a full folder": lambda path: _replace(path, lambda: (path.mkdir(), (path / "x").touch())),
    "a pipe": lambda path: _replace(path, lambda: os.mkfifo(path)),
    "/dev/zero": lambda path: _replace(path, lambda: path.symlink_to("/dev/zero")),
    "/dev/full": lambda path: _replace(path, lambda: path.symlink_to("/dev/full")),
    "a loop": lambda path: _replace(path, lambda: path.symlink_to(path)),
    "a link to nothing": lambda path: _replace(path, lambda: path.symlink_to("/nothing/here")),
    "writable by all": lambda path: path.exists() and path.chmod(0o777),
    "unreadable": _make_unreadable,
    "another file": lambda path: _replace(path, lambda: path.write_bytes(Path(__file__).read_bytes())),
    "40 GB": lambda path: _replace(path, lambda: (path.touch(), os.truncate(path, 40 << 30))),
    **{f"text {number}": _write(text) for number, text in enumerate(_TEXTS)},
}

# What is damaged, by its number among the files and folders of a store, and how.
_damages = st.lists(st.tuples(st.integers(0, 60), st.sampled_from(sorted(_DAMAGE))), min_size=1, max_size=3)


def test_any_damage(fuzz: Callable[..., None], tmp_path: Path) -> None:
    header = tmp_path / "header.h"
    header.write_text("int x;\n")
    whole = tmp_path / "whole"
    _publish(Store(whole), header)

    def test(damages: list[tuple[int, str]]) -> None:
        root = tmp_path / "root"
        _restore(whole, root)
        for number, how in damages:
            if paths := sorted(
                path for path in root.rglob("*") if path.parent.is_dir() and not path.parent.is_symlink()
            ):
                _DAMAGE[how](paths[number % len(paths)])
        found = attempt(lambda: list(_use(Store(root), header)))
        if isinstance(found, Raised):
            assert found.is_ours, f"{found.kind}: {found.text}"
        else:
            assert set(found) <= {"", "found"}, found
            assert found[-1] == "found"

    fuzz(_damages, test, examples=60, together=True)


def test_any_archive(fuzz: Callable[..., None], tmp_path: Path) -> None:
    header = tmp_path / "header.h"
    header.write_text("int x;\n")
    store = Store(tmp_path / "whole")
    file = tmp_path / "whole.zip"
    export_archive(store, file, [_publish(store, header)])
    data = file.read_bytes()
    changes = st.lists(st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)), min_size=1, max_size=4)

    def test(changes: list[tuple[int, int]]) -> None:
        changed = bytearray(data)
        for position, value in changes:
            changed[position] = value
        archive = tmp_path / "changed.zip"
        archive.write_bytes(changed)
        root = tmp_path / "root"
        shutil.rmtree(root, ignore_errors=True)

        def work() -> str:
            import_archive(Store(root), archive)
            return _content(Store(root).find(source_key(_INPUTS)))

        found = attempt(work)
        if isinstance(found, Raised):
            assert found.is_ours, f"{found.kind}: {found.text}"
        else:
            assert found in {"", "found"}, found

    fuzz(changes, test, examples=60, together=True)


def _use(store: Store, header: Path) -> Iterator[str]:
    """Ask a store all that it can be asked, then publish; yield what it gives, which is "found" for what was put in."""
    key = source_key(_INPUTS)
    yield _content(store.find(key))
    for artifact in store.artifacts():
        yield _content(store.get(artifact.key))
    explain_miss(store, "fuzzed", _INPUTS)
    for checked in list(verify_store(store)):
        if checked.damage is not None:
            remove_damaged(store, checked)
    yield _content(_publish(store, header))
    yield _content(store.find(key))


def _publish(store: Store, header: Path) -> Artifact:
    with store.staging() as staging:
        library = staging / "fuzzed.so"
        library.write_bytes(_CONTENT)
        manifest = Manifest.describe(
            library,
            name="fuzzed",
            inputs=_INPUTS,
            devices=("cpu",),
            archs=(),
            toolchain={"host": "gcc"},
            torch_version=None,
            opsmith_version="0",
        )
        return store.publish(source_key(_INPUTS), staging, manifest=manifest, headers=digest_headers([header]))


def _content(artifact: Artifact | None) -> str:
    if artifact is None:
        return ""
    return "found" if artifact.library.read_bytes() == _CONTENT else "something else"


def _restore(whole: Path, root: Path) -> None:
    for path in [root, *root.rglob("*")] if root.is_dir() else []:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(whole, root)
