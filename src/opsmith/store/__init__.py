"""Where do finished artefacts live, and which of them still fits its inputs? (The store's public names.)"""

from __future__ import annotations

from opsmith.store.depfile import parse_depfile, read_depfile
from opsmith.store.explain import Change, Miss, explain_miss
from opsmith.store.headers import digest_headers, edited_since
from opsmith.store.keys import artifact_key, digest, digest_file, source_key
from opsmith.store.locate import Layout, default_root
from opsmith.store.manifest import Manifest
from opsmith.store.store import Artifact, Store

__all__ = [
    "Artifact",
    "Change",
    "Layout",
    "Manifest",
    "Miss",
    "Store",
    "artifact_key",
    "default_root",
    "digest",
    "digest_file",
    "digest_headers",
    "edited_since",
    "explain_miss",
    "parse_depfile",
    "read_depfile",
    "source_key",
]
