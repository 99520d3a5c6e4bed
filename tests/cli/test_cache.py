"""`opsmith cache` shows and keeps the store; its exit codes are 0, 1 and 2 as everywhere."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from opsmith.cli import main
from opsmith.store import Artifact, Manifest, Store, source_key
from opsmith.store.manifest import MANIFEST_NAME

DEFINITION = """
import opsmith
from jaxtyping import Float
from torch import Tensor


@opsmith.op(cpu="{name}.cpp")
def {name}(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x * 2
"""
KERNEL = """#include <opsmith/kernel.h>

template <class T>
void {name}(opsmith::View<const T, 1> x, opsmith::View<T, 1> y) {{
  for (int64_t i = 0; i < x.size[0]; ++i) y(i) = T(float(x(i)) * 2.0f);
}}
"""


@pytest.fixture
def store(monkeypatch, tmp_path: Path) -> Store:
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.setenv("OPSMITH_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("OPSMITH_BRIDGE", "off")
    monkeypatch.delenv("OPSMITH_STORE", raising=False)
    return Store(tmp_path / "store")


@pytest.fixture
def publish(store: Store) -> Callable[..., Artifact]:
    def do(name: str, hours_ago: float = 0, kind: str = "library", **inputs: str) -> Artifact:
        inputs = inputs or {"name": name}
        with store.staging() as staging:
            library = staging / f"{name}.so"
            library.write_bytes(b"x" * 2000)
            manifest = Manifest.describe(
                library,
                name=name,
                inputs=inputs,
                devices=("cpu",),
                archs=(),
                toolchain={},
                torch_version=None,
                opsmith_version="0",
                kind=kind,
            )
            artifact = store.publish(source_key(inputs), staging, manifest=manifest, headers={})
        then_s = time.time() - hours_ago * 3600
        os.utime(artifact.folder / MANIFEST_NAME, (then_s, then_s))
        return artifact

    return do


@pytest.fixture
def cache(capsys) -> Callable[..., str]:
    """Run the command and return what it says on stdout; with `status`, on both."""

    def do(*arguments: str, status: int = 0) -> str:
        with pytest.raises(SystemExit) as caught:
            main(["cache", *arguments])
        said = capsys.readouterr()
        assert (caught.value.code or 0) == status, said.out + said.err
        return said.out if status == 0 else said.out + said.err

    return do


def test_where_it_is(cache, store):
    assert cache("where") == f"{store.root}\n"


def test_the_list_has_the_last_used_first(cache, publish):
    publish("old", hours_ago=50)
    publish("torch.pch", hours_ago=3, kind="header")
    lines = cache("ls").splitlines()
    assert lines[0].split() == ["name", "kind", "devices", "size", "built", "used", "torch", "key"]
    assert lines[1].split()[:5] == ["torch.pch", "header", "cpu", "2.0", "KB"]
    assert "3 hours ago" in lines[1]
    assert "2 days ago" in lines[2]
    assert lines[3].startswith("2 artefacts, 4.0 KB, in ")
    (entry,) = json.loads(cache("ls", "old", "--json"))
    assert (entry["name"], entry["kind"], entry["size_bytes"]) == ("old", "library", 2000)
    assert "1 artefact," in cache("ls", entry["key"][:8])


def test_pruning(cache, publish, store):
    publish("old", hours_ago=50)
    publish("new")
    assert cache("prune").startswith("removed 0 (0 bytes)")
    assert cache("prune", "--older-than", "1d").startswith("removed 1 (")
    assert "kept 1 used within the last 15 minutes" in cache("prune", "--max-size", "1 KB")
    assert cache("prune", "--all").endswith("0 bytes left\n")
    assert list(store.artifacts()) == []


@pytest.mark.parametrize("arguments", [("--older-than", "x"), ("--max-size", "much"), ("--nothing",)])
def test_a_wrong_command_line_is_2(cache, arguments):
    assert "Usage" in cache("prune", *arguments, status=2)


def test_verify_names_and_fixes_what_is_damaged(cache, publish):
    publish("sound")
    assert cache("verify") == "1 checked, all match their manifests\n"
    damaged = publish("damaged")
    damaged.library.write_bytes(b"y" * 2000)
    said = cache("verify", status=1)
    assert f"damaged  {damaged.key[:12]}  damaged.so has been altered\n2 checked, 1 damaged\n" in said
    assert json.loads(cache("verify", "--json", status=1)) == {
        "checked": 2,
        "damaged": [{"key": damaged.key, "name": "damaged", "damage": "damaged.so has been altered", "removed": False}],
    }
    assert "; removed" in cache("verify", "--fix")
    assert cache("verify") == "1 checked, all match their manifests\n"


def test_export_and_import(cache, publish, store, tmp_path, monkeypatch):
    publish("one")
    publish("two")
    archive = str(tmp_path / "a.zip")
    assert "holds nothing named three" in cache("export", archive, "three", status=1)
    assert cache("export", archive, "one").startswith(f"{archive}: 1 artefacts, ")
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(tmp_path / "other"))
    assert cache("import", archive) == "1 added, 0 already present\n"
    assert cache("import", archive) == "0 added, 1 already present\n"
    (tmp_path / "a.zip").write_bytes(b"no archive")
    assert "not an opsmith archive" in cache("import", archive, status=1)
    assert "does not exist" in cache("import", str(tmp_path / "b.zip"), status=2)


def test_keys_and_sharing(cache, publish, tmp_path, monkeypatch):
    publish("one")
    assert "set OPSMITH_STORE" in cache("push", status=1)
    monkeypatch.setenv("OPSMITH_STORE", str(tmp_path / "shared"))
    assert "no signing key" in cache("push", status=1)
    assert "no key is trusted" in cache("key", "list")
    key = cache("key", "new", "--name", "me@here").split()[-1]
    assert f"me@here  (signs here)\n  {key}" in cache("key", "list")
    assert cache("push") == "1 pushed, 0 already present\n"
    monkeypatch.setenv("OPSMITH_CONFIG_DIR", str(tmp_path / "other config"))
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(tmp_path / "other"))
    assert cache("pull") == "0 fetched, 0 already present\n"
    cache("key", "trust", key)
    assert cache("pull", "one") == "1 fetched, 0 already present\n"
    cache("key", "forget", key)
    assert "is not trusted" in cache("key", "forget", key, status=1)
    assert "is not a public key" in cache("key", "trust", "ed25519:x", status=1)


def test_an_extension_is_explained_by_its_past(cache, publish):
    publish("ext", **{"source /a.cpp": "1", "torch": "1"})
    assert "built once" in cache("explain", "ext")
    publish("ext", **{"source /a.cpp": "1", "torch": "2"})
    assert "torch changed, everything else as in the build of" in cache("explain", "ext")
    assert json.loads(cache("explain", "ext", "--json"))[0]["hit"] is None
    assert "no module or folder nothing_of_that_name" in cache("explain", "nothing_of_that_name", status=1)


@pytest.mark.compile
def test_a_module_is_explained_before_and_after_a_build(cache, store, tmp_path):
    name = "explained_by_the_cache_command"
    module = tmp_path / f"{name}.py"
    module.write_text(DEFINITION.format(name=name))
    kernel = tmp_path / f"{name}.cpp"
    kernel.write_text(KERNEL.format(name=name))
    assert cache("explain", str(module)) == "  missed: the store has nothing of this name\n"
    with pytest.raises(SystemExit) as caught:
        main(["build", str(module)])
    assert not caught.value.code
    assert cache("explain", str(module)).endswith("found: loaded without a build\n")
    kernel.write_text(kernel.read_text().replace("2.0f", "4.0f * 0.5f"))
    assert f"missed: {name}.cpp changed (line 5), everything else as in the build of " in cache("explain", str(module))
