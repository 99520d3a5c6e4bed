"""A user signs with his own key and decides whose signatures count."""

from __future__ import annotations

import pytest

from opsmith.errors import ArgumentError, StoreError
from opsmith.store import keyring


@pytest.fixture(autouse=True)
def config(monkeypatch, tmp_path):
    folder = tmp_path / "config"
    monkeypatch.setenv("OPSMITH_CONFIG_DIR", str(folder))
    monkeypatch.delenv("OPSMITH_SIGNING_KEY", raising=False)
    return folder


def test_a_new_key_signs_is_trusted_and_is_read_by_its_owner_alone(config):
    assert not keyring.has_signing_key()
    key = keyring.new_signing_key("me@here")
    assert (config / "signing.key").stat().st_mode & 0o777 == 0o600
    assert keyring.trusted_keys() == {key: "me@here"}
    assert keyring.public_key() == key
    assert keyring.is_signed_by(key, keyring.sign(b"text"), b"text")


def test_a_key_is_never_replaced(config):
    keyring.new_signing_key("")
    before = (config / "signing.key").read_bytes()
    with pytest.raises(StoreError, match="a signing key already exists"):
        keyring.new_signing_key("")
    assert (config / "signing.key").read_bytes() == before


def test_another_text_key_or_signature_does_not_pass(config, monkeypatch):
    key = keyring.new_signing_key("")
    signature = keyring.sign(b"text")
    monkeypatch.setenv("OPSMITH_CONFIG_DIR", str(config / "other"))
    other = keyring.new_signing_key("")
    assert not keyring.is_signed_by(key, signature, b"texT")
    assert not keyring.is_signed_by(other, signature, b"text")
    for wrong in ("", "A" * len(signature), signature[:-2], "\u00e9"):
        assert not keyring.is_signed_by(key, wrong, b"text")
    assert not keyring.is_signed_by("ed25519:short", signature, b"text")


def test_keys_are_trusted_and_forgotten():
    own = keyring.new_signing_key("own")
    other = "ed25519:" + "A" * 43
    keyring.trust_key(other, "two\nlines")
    assert keyring.trusted_keys() == {own: "own", other: "two lines"}
    keyring.forget_key(own)
    assert keyring.trusted_keys() == {other: "two lines"}
    with pytest.raises(ArgumentError, match="is not trusted"):
        keyring.forget_key(own)


@pytest.mark.parametrize("text", ["", "ed25519:", "ed25519:AAAA", "rsa:" + "A" * 43, "ed25519:" + "?" * 43])
def test_what_is_no_key_is_not_trusted(text):
    with pytest.raises(ArgumentError, match="is not a public key"):
        keyring.trust_key(text, "")


def test_a_list_that_others_can_write_to_is_refused(config):
    keyring.new_signing_key("")
    (config / "trusted_keys").chmod(0o666)
    with pytest.raises(StoreError, match="the list of trusted keys is not used: everyone can write to"):
        keyring.trusted_keys()


def test_a_signing_key_that_everybody_can_read_is_refused(config):
    keyring.new_signing_key("")
    (config / "signing.key").chmod(0o644)
    with pytest.raises(StoreError, match=r"everyone can read the signing key .*chmod go-rwx"):
        keyring.sign(b"text")


def test_the_environment_names_the_key(config, monkeypatch, tmp_path):
    key = keyring.new_signing_key("")
    moved = (config / "signing.key").rename(tmp_path / "ci.pem")
    assert not keyring.has_signing_key()
    with pytest.raises(StoreError, match=r"no signing key .*opsmith cache key new"):
        keyring.public_key()
    monkeypatch.setenv("OPSMITH_SIGNING_KEY", str(moved))
    assert keyring.public_key() == key
    moved.write_bytes(b"no key")
    with pytest.raises(StoreError, match="cannot be read"):
        keyring.public_key()


def test_a_fingerprint_is_short_enough_to_be_read_out():
    assert keyring.fingerprint("ed25519:" + "A" * 43) == "6668:7aad:f862:bd77:6c8f:c18b:8e9f:8e20"
