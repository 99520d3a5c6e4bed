"""A miss is explained by what differs from the nearest artefact."""

from __future__ import annotations

import pytest

from opsmith.errors import StoreError
from opsmith.store import Change, Miss, explain_miss
from opsmith.store.staging import move_aside


def test_a_hit_needs_no_explanation(store, publish, inputs):
    publish()
    assert explain_miss(store, "scale", inputs) is None


def test_an_unknown_name_is_new(store, publish, inputs):
    assert explain_miss(store, "scale", inputs) == Miss("new")
    publish(name="other")
    assert explain_miss(store, "scale", {**inputs, "flags": "O0"}) == Miss("new")


def test_the_inputs_that_differ_from_the_nearest_artefact_are_named(store, publish, inputs):
    publish(inputs=dict.fromkeys(inputs, "far"))
    near = publish(inputs=inputs)
    wanted = {"sources": "11", "flags": "O0", "torch": "2.13"}
    changes = (Change("flags", "changed"), Change("torch", "added"), Change("host compiler", "removed"))
    assert explain_miss(store, "scale", wanted) == Miss("inputs", changes, near)


def test_the_headers_that_changed_are_named(store, publish, inputs, tmp_path):
    same, changed = tmp_path / "same.h", tmp_path / "changed.h"
    same.write_text("1")
    changed.write_text("1")
    near = publish(same, changed, roots={"source": tmp_path})
    changed.write_text("2")
    miss = explain_miss(store, "scale", inputs, roots={"source": tmp_path})
    assert miss == Miss("headers", (Change("<source>/changed.h", "changed", line=1),), near)


def test_an_artefact_that_is_damaged_or_gone_is_lost(store, publish, inputs):
    published = publish()
    published.library.write_bytes(b"")
    assert explain_miss(store, "scale", inputs) == Miss("lost")
    move_aside(published.folder, store.layout.staging)
    assert explain_miss(store, "scale", inputs) == Miss("lost")
    store.remove(published)
    assert explain_miss(store, "scale", inputs) == Miss("new")


def test_a_store_that_others_can_write_to_is_not_explained_but_refused(store, publish, inputs):
    publish()
    store.root.chmod(0o777)
    with pytest.raises(StoreError, match="everyone can write"):
        explain_miss(store, "scale", inputs)
