"""Headers are named so that two checkouts can share an artefact, and compared as they are now."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsmith.store.headers import (
    HeaderDigests,
    digest_headers,
    is_portable_name,
    portable_name,
)
from opsmith.store.keys import digest_file


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/usr/include/x.h", "/usr/include/x.h"),
        ("/src/x.h", "<source>/x.h"),
        ("/src/torch/include/x.h", "<torch>/include/x.h"),  # the innermost root
        ("/srcery/x.h", "/srcery/x.h"),
    ],
)
def test_a_header_below_a_root_is_named_by_it(path, name):
    assert portable_name(path, {"source": Path("/src"), "torch": Path("/src/torch")}) == name


def test_a_header_is_looked_up_below_the_root_of_the_one_who_asks(tmp_path: Path):
    for checkout in "ab":
        (tmp_path / checkout).mkdir()
        (tmp_path / checkout / "x.h").write_text(checkout)
    assert HeaderDigests({"source": tmp_path / "b"}).now("<source>/x.h") == digest_file(tmp_path / "b/x.h")


@pytest.mark.parametrize("name", ["<torch>/x.h", "/nowhere/x.h", "/nul\0.h", "<torch"])
def test_what_cannot_be_read_has_no_digest(name):
    assert HeaderDigests({}).now(name) is None


def test_a_header_is_read_once(tmp_path: Path):
    header = tmp_path / "x.h"
    header.write_text("1")
    digests = HeaderDigests({})
    before = digests.now(str(header))
    header.write_text("2")
    assert digests.now(str(header)) == before


def test_headers_are_digested_by_path(tmp_path: Path):
    header = tmp_path / "x.h"
    header.touch()
    assert digest_headers([header]) == {str(header): digest_file(header)}


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("<project>/../common.h", True), ("/usr/a.h", True), ("/usr/../a.h", False), ("../a.h", False), ("", False)],
)
def test_names_that_a_header_can_have(name: str, is_one: bool) -> None:
    assert is_portable_name(name) == is_one
