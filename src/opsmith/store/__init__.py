"""Stores finished artefacts by content and finds those that still fit their inputs: the store's public names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opsmith._lazy import lazy_names

if TYPE_CHECKING:
    from opsmith.store.artifact_store import Store
    from opsmith.store.depfile import parse_depfile, read_depfile
    from opsmith.store.edits import edited_since, outlive_edits, versions_ahead
    from opsmith.store.explain import Change, Miss, compare_inputs, explain_miss
    from opsmith.store.headers import digest_headers
    from opsmith.store.intact import Artifact, find_damage
    from opsmith.store.keys import artifact_key, digest, digest_file, source_key
    from opsmith.store.locate import Layout, default_root
    from opsmith.store.manifest import Kind, Manifest

__all__ = [
    "Artifact",
    "Change",
    "Kind",
    "Layout",
    "Manifest",
    "Miss",
    "Store",
    "artifact_key",
    "compare_inputs",
    "default_root",
    "digest",
    "digest_file",
    "digest_headers",
    "edited_since",
    "explain_miss",
    "find_damage",
    "outlive_edits",
    "parse_depfile",
    "read_depfile",
    "source_key",
    "versions_ahead",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Artifact": "intact",
        "Change": "explain",
        "Kind": "manifest",
        "Layout": "locate",
        "Manifest": "manifest",
        "Miss": "explain",
        "Store": "artifact_store",
        "artifact_key": "keys",
        "compare_inputs": "explain",
        "default_root": "locate",
        "digest": "keys",
        "digest_file": "keys",
        "digest_headers": "headers",
        "edited_since": "edits",
        "outlive_edits": "edits",
        "explain_miss": "explain",
        "find_damage": "intact",
        "parse_depfile": "depfile",
        "read_depfile": "depfile",
        "source_key": "keys",
        "versions_ahead": "edits",
    },
)
