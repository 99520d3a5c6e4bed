"""Describes an artefact in a shared store, with the signature that vouches for it.

A bundle is a small JSON file with the artefact's manifest, its record and a signature. The signature covers, each with its
length, the artefact's key, the platform, the manifest and the record, byte for byte; the manifest has the digests of the
binary and of all files next to it. So nothing can be put under another key, and no part be exchanged for one from elsewhere.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from opsmith.errors import StoreError
from opsmith.store import keys
from opsmith.store.archive import check_identity
from opsmith.store.index import Record, record_bytes
from opsmith.store.keyring import is_signed_by, public_key, sign
from opsmith.store.manifest import Manifest
from opsmith.store.reading import parse_json

__all__ = ["Bundle", "read_bundle", "write_bundle"]

_FORMAT_VERSION = 1


@dataclass(frozen=True)
class Bundle:
    """A bundle whose signature is that of `signer` and whose key is that of its inputs; not yet one that is trusted."""

    manifest: Manifest
    manifest_bytes: bytes
    record: Record
    source_key: str
    signer: str


def write_bundle(manifest_bytes: bytes, record: Record, platform: str) -> bytes:
    """Return the bundle of an artefact, signed. Raises StoreError if there is no signing key."""
    text = record_bytes(record)
    content = {
        "format": _FORMAT_VERSION,
        "manifest": manifest_bytes.decode(),
        "record": text.decode(),
        "signer": public_key(),
        "signature": sign(_message(record.artifact, platform, manifest_bytes, text)),
    }
    return json.dumps(content).encode()


def read_bundle(data: bytes, where: str, platform: str) -> Bundle:
    """Return a bundle; raises StoreError, that names `where` it lies, for one that is not what it says."""
    try:
        content = parse_json(data)
        fields = {name: content[name] for name in ("manifest", "record", "signer", "signature")}
        if content["format"] != _FORMAT_VERSION or not all(isinstance(value, str) for value in fields.values()):
            raise ValueError(content["format"])
        manifest_bytes, text = fields["manifest"].encode(), fields["record"].encode()
        manifest, record = Manifest.from_json(manifest_bytes), Record.from_json(text)
        if manifest is None or record is None:
            raise ValueError(where)
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{where} is damaged or of another version of opsmith") from error
    if not is_signed_by(
        fields["signer"], fields["signature"], _message(record.artifact, platform, manifest_bytes, text)
    ):
        raise StoreError(f"{where}: the signature is wrong, so it was altered; none of it is used")
    source = check_identity(record.artifact, manifest, record, where)
    return Bundle(manifest, manifest_bytes, record, source, fields["signer"])


def _message(key: str, platform: str, manifest: bytes, record: bytes) -> bytes:
    return keys.digest("opsmith signed artefact", str(_FORMAT_VERSION), key, platform, manifest, record).encode()
