"""Keeps the keys that this user trusts and the one he signs with.

Keys are ed25519, of `cryptography`. They lie in the user's configuration folder, not in the store, which is handed on:

    signing.key     the private key, which no one else may read
    trusted_keys    a line for each public key: ed25519:<base64> <comment>
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from opsmith import _env
from opsmith.errors import ArgumentError, StoreError
from opsmith.store.files import write_atomic
from opsmith.store.safety import find_danger, make_folder

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = [
    "check_public_key",
    "config_folder",
    "fingerprint",
    "forget_key",
    "has_signing_key",
    "is_signed_by",
    "new_signing_key",
    "public_key",
    "sign",
    "trust_key",
    "trusted_keys",
]

_PREFIX = "ed25519:"
_RAW_BYTES = 32


def config_folder() -> Path:
    """Return the folder of the keys. Nothing is created. Raises ArgumentError if there is no home for it."""
    if chosen := _env.read_path("OPSMITH_CONFIG_DIR"):
        return chosen
    from platformdirs import user_config_path

    try:
        folder = user_config_path("opsmith", appauthor=False)
    except RuntimeError:  # older versions return a path that begins with a tilde
        folder = Path("~")
    if not folder.is_absolute():
        raise ArgumentError(
            "this user has no home folder for keys. Set OPSMITH_CONFIG_DIR to one that only you can write"
        )
    return folder


def trusted_keys() -> dict[str, str]:
    """Return the public keys that this user trusts, with their comments.

    Raises StoreError if others could write to the list: they would decide whose code is run.
    """
    file = config_folder() / "trusted_keys"
    if not file.is_file():
        return {}
    if (danger := find_danger(config_folder(), file)) is not None:
        raise StoreError(
            f"the list of trusted keys is not used: {danger}. Anyone who can write there can run code as you"
        )
    lines = (line.partition(" ") for line in file.read_text(encoding="utf-8").splitlines())
    return {key: comment.strip() for key, _, comment in lines if key.startswith(_PREFIX)}


def trust_key(key: str, comment: str) -> None:
    """Trust a public key: what it has signed is loaded. Raises ArgumentError if it is not one, or StoreError."""
    _write_trusted({**trusted_keys(), check_public_key(key): " ".join(comment.split())})


def forget_key(key: str) -> None:
    """Trust a public key no longer. What was fetched already stays. Raises ArgumentError if it is not trusted."""
    known = trusted_keys()
    if key not in known:
        raise ArgumentError(f"{key} is not trusted; `opsmith cache key list` shows which are")
    _write_trusted({name: comment for name, comment in known.items() if name != key})


def new_signing_key(comment: str) -> str:
    """Make the key that signs what goes to the shared store, trust it, and return its public part.

    Raises StoreError if there is one already: what it signed would no longer be ours.
    """
    _require_cryptography()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    file = config_folder() / "signing.key"
    made = Ed25519PrivateKey.generate()
    data = made.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        make_folder(file.parent)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(data)
    except FileExistsError:
        raise StoreError(f"a signing key already exists, {file}; move it away before creating a new one") from None
    except OSError as error:
        raise StoreError(f"the signing key {file} cannot be written: {error.strerror or error}") from error
    public = _public_text(made)
    trust_key(public, comment)
    return public


def has_signing_key() -> bool:
    """Tell whether something would sign what goes to the shared store."""
    return _signing_file().is_file()


def public_key() -> str:
    """Return the public part of the signing key; raises StoreError if there is none."""
    return _public_text(_load_signing_key())


def sign(message: bytes) -> str:
    """Return the signature of a message by the signing key, as base64. Raises StoreError if there is no key."""
    return _encode(_load_signing_key().sign(message))


def is_signed_by(key: str, signature: str, message: bytes) -> bool:
    """Tell whether a signature is that of a public key over a message. Raises StoreError without `cryptography`."""
    _require_cryptography()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(_raw(key)).verify(_decode(signature), message)
    except (InvalidSignature, ValueError, ArgumentError):
        return False
    return True


def fingerprint(key: str) -> str:
    """Return what people compare of a public key: 128 bits of its digest in groups of four."""
    digits = hashlib.sha256(_raw(key)).hexdigest()[:32]
    return ":".join(digits[start : start + 4] for start in range(0, len(digits), 4))


def check_public_key(key: str) -> str:
    """Return a public key as it is; raises ArgumentError if it is not one."""
    _raw(key)
    return key


def _write_trusted(known: dict[str, str]) -> None:
    folder = config_folder()
    text = "".join(f"{key} {comment}".rstrip() + "\n" for key, comment in known.items())
    try:
        write_atomic(folder / "trusted_keys", text.encode(), scratch=folder)
    except OSError as error:
        raise StoreError(f"{folder / 'trusted_keys'} cannot be written: {error.strerror or error}") from error


def _signing_file() -> Path:
    return _env.read_path("OPSMITH_SIGNING_KEY") or config_folder() / "signing.key"


def _load_signing_key() -> Ed25519PrivateKey:
    _require_cryptography()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    file = _signing_file()
    try:
        if file.stat().st_mode & stat.S_IROTH:
            raise StoreError(f"everyone can read the signing key {file}; fix it with `chmod go-rwx {file}`")
        key = serialization.load_pem_private_key(file.read_bytes(), password=None)
    except FileNotFoundError:
        raise StoreError(f"no signing key {file}; `opsmith cache key new` creates one") from None
    except (OSError, ValueError, TypeError) as error:
        raise StoreError(f"the signing key {file} cannot be read: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise StoreError(f"{file} is not an ed25519 key; `opsmith cache key new` creates one")
    return key


def _public_text(key: Ed25519PrivateKey) -> str:
    return _PREFIX + _encode(key.public_key().public_bytes_raw())


def _raw(key: str) -> bytes:
    raw = b""
    if key.startswith(_PREFIX):
        try:
            raw = _decode(key.removeprefix(_PREFIX))
        except ValueError:
            raw = b""
    if len(raw) != _RAW_BYTES:
        raise ArgumentError(f"{key!r} is not a public key; `opsmith cache key list` prints them as {_PREFIX}...")
    return raw


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(text) from error


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise StoreError("signatures need the package cryptography: `pip install opsmith[remote]`") from None
