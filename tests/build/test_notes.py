"""A note gives what a plan would find, and nothing where something that decides it is another now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from opsmith.build.notes import find_noted, write_note
from opsmith.store import Artifact, Manifest, Store, digest, source_key
from opsmith.toolchain import processor


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def publish(store: Store) -> Callable[..., Artifact]:
    """Publish a binary that was made from these inputs."""

    def do(**inputs: str) -> Artifact:
        with store.staging() as staging:
            (staging / "x.so").write_bytes(b"binary")
            manifest = Manifest.describe(
                staging / "x.so",
                name="x",
                inputs=inputs,
                devices=("cpu",),
                archs=(),
                toolchain={},
                torch_version=None,
                opsmith_version="0",
            )
            return store.publish(source_key(inputs), staging, manifest=manifest, headers={})

    return do


@pytest.mark.parametrize("is_native", [True, False])
def test_native_code_is_not_given_to_another_processor(store, publish, monkeypatch, is_native):
    artifact = publish(**({"processor": digest(processor.processor_identity())} if is_native else {"flags": "1"}))
    write_note(store, ["request"], [], artifact, {})
    assert find_noted(store, ["request"], []) == artifact
    monkeypatch.setattr(processor, "processor_identity", lambda: "another")
    assert find_noted(store, ["request"], []) == (None if is_native else artifact)
