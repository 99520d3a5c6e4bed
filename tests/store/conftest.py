"""What the store's tests share: a store, artefacts to put in it, and other processes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from opsmith.store import Artifact, Manifest, Store, digest_headers, source_key


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "root")


@pytest.fixture
def inputs() -> dict[str, str]:
    return {"sources": "11", "flags": "22", "host compiler": "33"}


@pytest.fixture
def describe(inputs: dict[str, str]) -> Callable[..., Manifest]:
    """Return the manifest of a binary, with plausible fields."""

    def do(library: Path, *, name: str = "scale", inputs: Mapping[str, str] = inputs) -> Manifest:
        return Manifest.describe(
            library,
            name=name,
            inputs=inputs,
            devices=("cpu",),
            archs=(),
            toolchain={"host": "gcc 12.2.0"},
            torch_version=None,
            opsmith_version="0",
        )

    return do


@pytest.fixture
def publish(store: Store, inputs: dict[str, str], describe: Callable[..., Manifest]) -> Callable[..., Artifact]:
    """Publish a small binary, made from these headers, and return its artefact."""

    def do(
        *headers: Path,
        content: bytes = b"binary",
        name: str = "scale",
        inputs: Mapping[str, str] = inputs,
        roots: Mapping[str, Path] | None = None,
    ) -> Artifact:
        with store.staging() as staging:
            library = staging / f"{name}.so"
            library.write_bytes(content)
            return store.publish(
                source_key(inputs),
                staging,
                manifest=describe(library, name=name, inputs=inputs),
                headers=digest_headers(headers),
                roots=roots or {},
            )

    return do


@pytest.fixture
def python(store: Store) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start another Python with `store` and `KEY` at hand; it is killed at the end of the test."""
    started: list[subprocess.Popen[str]] = []
    prologue = f"""
from pathlib import Path
from opsmith.store import Manifest, Store, digest, source_key
store = Store(Path({str(store.root)!r}))
"""

    def do(code: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", prologue + textwrap.dedent(code)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        started.append(process)
        return process

    yield do
    for process in started:
        process.kill()
        process.communicate()
