"""Keys tell different inputs apart and equal ones together."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from opsmith.store.keys import artifact_key, digest, digest_file, source_key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", "c"), ("a", "bc")),
        (("ab",), ("a", "b")),
        (("a",), ("a", "")),
        ((), ("",)),
        (("a", "b"), ("b", "a")),
    ],
)
def test_a_digest_depends_on_where_its_parts_end(one, other):
    assert digest(*one) != digest(*other)


def test_a_text_counts_as_its_utf8_bytes():
    assert digest("ä") == digest("ä".encode())


def test_a_file_name_that_is_no_utf8_has_a_digest():
    assert digest(b"\xff".decode("utf-8", "surrogateescape")) == digest(b"\xff")


def test_a_file_has_the_digest_that_sha256sum_prints(tmp_path: Path):
    content = bytes(range(256)) * 10_000  # more than one chunk
    path = tmp_path / "binary"
    path.write_bytes(content)
    assert digest_file(path) == hashlib.sha256(content).hexdigest()


def test_the_order_of_inputs_does_not_matter_but_their_names_do():
    assert source_key({"a": "1", "b": "2"}) == source_key({"b": "2", "a": "1"})
    assert source_key({"a": "1", "b": "2"}) != source_key({"a": "2", "b": "1"})


def test_an_artefact_key_depends_on_the_headers():
    assert artifact_key("s", {}) != artifact_key("s", {"a.h": "1"}) != artifact_key("s", {"a.h": "2"})
    assert artifact_key("s", {}) != source_key({})
