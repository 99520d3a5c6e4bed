"""Every byte of the store is compared with its manifests, and what is damaged can be removed."""

from __future__ import annotations

import pytest

from opsmith.store import source_key
from opsmith.store.manifest import MANIFEST_NAME
from opsmith.store.verify import remove_damaged, verify_store


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("scale.so", b"binarY", "scale.so has been altered"),
        ("scale.so", b"bin", "scale.so has 3 bytes instead of 6"),
        ("scale.so", None, "scale.so cannot be read: No such file"),
        (MANIFEST_NAME, b"{", "manifest is missing or damaged"),
        (MANIFEST_NAME, None, "manifest is missing or damaged"),
    ],
)
def test_what_is_damaged_is_named_and_removed(store, publish, inputs, file, content, reason):
    publish(inputs={"sound": "1"}, name="sound")
    path = publish().folder / file
    path.unlink() if content is None else path.write_bytes(content)
    (damaged,) = [item for item in verify_store(store) if item.damage]
    assert reason in damaged.damage
    remove_damaged(store, damaged)
    assert [item.damage for item in verify_store(store)] == [None]
    assert store.find(source_key({"sound": "1"})) is not None
    assert publish().library.read_bytes() == b"binary"
