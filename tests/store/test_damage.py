"""What is damaged in the store is built anew: no file that lies there stops a load."""

from __future__ import annotations

import json
import os

import pytest

from opsmith.cli import main
from opsmith.store import Manifest, source_key
from opsmith.store.reading import parse_json

BRACKETS = b"[" * 100_000


def with_field(**fields):
    return lambda data: json.dumps({**json.loads(data), **fields}).encode()


DAMAGES = {
    "brackets": lambda data: BRACKETS,
    "no text": lambda data: b"\xff\xfe\x00",
    "a byte that is not UTF-8": lambda data: data.replace(b"scale", b"sc\xe9le"),
    "a surrogate in UTF-8": lambda data: data.replace(b"scale", b"sc\xed\xa0\x80le"),
    "an integer of 10,000 digits": lambda data: data.replace(b": 1", b": 1" + b"0" * 10_000),
}


@pytest.mark.parametrize("damage", [*DAMAGES.values(), with_field(name="\ud800")], ids=[*DAMAGES, "a lone surrogate"])
@pytest.mark.parametrize("what", ["manifest", "record", "both"])
def test_a_damaged_file_is_replaced(store, publish, inputs, what, damage):
    published = publish()
    (record,) = store.layout.records.rglob("*.json")
    chosen = {"manifest": published.folder / "manifest.json", "record": record}
    for file in chosen.values() if what == "both" else [chosen[what]]:
        file.write_bytes(damage(file.read_bytes()))
    list(store.artifacts())
    store.find(source_key(inputs))
    assert publish().library.read_bytes() == b"binary"
    assert store.find(source_key(inputs)) is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", "\ud800"),
        ("name", "a\x1b[2Jb"),
        ("name", "a\nb"),
        ("name", "a\u202eb"),
        ("devices", ["cpu\r"]),
        ("created", "\x07"),
        ("library", "a\n.so"),
        ("sha256", "../../x"),
        ("files", {"types.pyi": "../x"}),
        ("size_bytes", 10**400),
        ("size_bytes", -1),
        ("size_bytes", True),
        ("inputs", {"\ud800": "0"}),
    ],
)
def test_a_manifest_with_an_impossible_field_is_none(publish, name, value):
    text = (publish().folder / "manifest.json").read_text()
    assert Manifest.from_json(text) is not None
    assert Manifest.from_json(with_field(**{name: value})(text)) is None


def test_a_path_that_is_not_utf_8_is_as_good_as_any(publish):
    name = os.fsdecode(b"/src/\xff.h")
    assert parse_json(json.dumps([name])) == [name]
    text = with_field(inputs={name: "0"})((publish().folder / "manifest.json").read_text())
    assert Manifest.from_json(text).inputs == {name: "0"}


@pytest.mark.parametrize("place", ["artifacts", "records"])
@pytest.mark.parametrize("damage", ["everyone can write", "a file"])
def test_a_shard_that_cannot_be_used_is_replaced(store, publish, inputs, place, damage):
    publish()
    (shard,) = getattr(store.layout, place).iterdir()
    if damage == "a file":
        shard.rename(store.root / "elsewhere")
        shard.touch()
    else:
        shard.chmod(0o777)
        (shard / "planted").touch()
    assert store.find(source_key(inputs)) is None
    publish()
    assert store.find(source_key(inputs)) is not None
    assert shard.stat().st_mode & 0o022 == 0
    assert not (shard / "planted").exists()


@pytest.mark.parametrize("kind", ["fifo", "folder"])
@pytest.mark.parametrize("name", ["manifest.json", "scale.so"])
def test_an_irregular_file_is_replaced(store, publish, inputs, kind, name):
    file = publish().folder / name
    file.unlink()
    os.mkfifo(file) if kind == "fifo" else file.mkdir()
    assert store.find(source_key(inputs)) is None
    assert publish().library.read_bytes() == b"binary"


def test_the_commands_survive_a_damaged_store(store, publish, monkeypatch, capfd):
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(store.root))
    for number, damage in enumerate([*DAMAGES.values(), with_field(name="a\x1b]0;b\x07")]):
        file = publish(name="scale", inputs={"n": str(number)}).folder / "manifest.json"
        file.write_bytes(damage(file.read_bytes()))
    publish(name="whole", inputs={"n": "whole"})
    for command in (["ls"], ["ls", "--json"], ["verify", "--fix"], ["verify"], ["prune"]):
        with pytest.raises(SystemExit) as ended:
            main(["cache", *command])
        assert ended.value.code in (0, None)
    out, err = capfd.readouterr()
    assert "whole" in out
    assert "\x1b" not in out + err
