"""One builds and the others fetch; only what a trusted key has signed is loaded, and no build fails for it."""

from __future__ import annotations

import errno
import json
import os
import socket
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from opsmith.errors import StoreError
from opsmith.store import Store, keyring, shared, source_key
from opsmith.store.shared import fetch_shared, pull, push, share


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path) -> None:
    """Give every test a process that has not heard of any shared store, and a user with a key of his own."""
    monkeypatch.setattr(shared, "_given_up", set())
    monkeypatch.setattr(shared, "_refused", set())
    monkeypatch.delenv("OPSMITH_SIGNING_KEY", raising=False)
    monkeypatch.setenv("OPSMITH_CONFIG_DIR", str(tmp_path / "builder"))


@pytest.fixture(params=["folder", "file", "memory"])
def url(request, monkeypatch, tmp_path) -> Iterator[str]:
    places = {"folder": tmp_path / "shared", "file": f"file://{tmp_path}/shared", "memory": f"memory://{tmp_path}"}
    monkeypatch.setenv("OPSMITH_STORE", str(places[request.param]))
    yield str(places[request.param])
    if request.param == "memory":
        import fsspec

        fsspec.filesystem("memory").store.clear()


@pytest.fixture
def folder(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("OPSMITH_STORE", str(tmp_path / "shared"))
    return tmp_path / "shared"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Store:
    return Store(tmp_path / "elsewhere")


@pytest.fixture
def built(publish, tmp_path):
    """Publish an artefact with a header in the builder's store."""
    header = tmp_path / "x.h"
    header.write_text("1")
    return publish(header, content=b"binary", roots={"source": tmp_path})


def become(monkeypatch, tmp_path, name: str) -> None:
    monkeypatch.setenv("OPSMITH_CONFIG_DIR", str(tmp_path / name))


def test_what_one_has_built_another_fetches(url, store, built, elsewhere, inputs, tmp_path, monkeypatch):
    key = keyring.new_signing_key("builder")
    share(store, built)
    become(monkeypatch, tmp_path, "user")
    keyring.trust_key(key, "builder")
    fetched = fetch_shared(elsewhere, source_key(inputs), {"source": tmp_path})
    assert fetched is not None
    assert fetched.library.read_bytes() == b"binary"
    assert elsewhere.find(source_key(inputs), roots={"source": tmp_path}) == fetched


def test_a_header_decides_here_too(folder, store, built, elsewhere, inputs, tmp_path):
    keyring.new_signing_key("")
    share(store, built)
    (tmp_path / "x.h").write_text("2")
    assert fetch_shared(elsewhere, source_key(inputs), {"source": tmp_path}) is None
    assert not elsewhere.root.exists()


def test_without_a_shared_store_or_a_key_nothing_happens(store, built, elsewhere, inputs, tmp_path, monkeypatch):
    monkeypatch.delenv("OPSMITH_STORE", raising=False)
    share(store, built)
    assert fetch_shared(elsewhere, source_key(inputs)) is None
    monkeypatch.setenv("OPSMITH_STORE", str(tmp_path / "shared"))
    share(store, built)
    assert not (tmp_path / "shared").exists()


def test_what_an_unknown_key_has_signed_is_refused_loudly_and_once(
    url, store, built, elsewhere, inputs, tmp_path, monkeypatch
):
    key = keyring.new_signing_key("builder")
    share(store, built)
    become(monkeypatch, tmp_path, "user")
    with pytest.warns(RuntimeWarning, match="NOT loaded") as caught:
        assert fetch_shared(elsewhere, source_key(inputs), {"source": tmp_path}) is None
    (warning,) = caught
    assert keyring.fingerprint(key) in str(warning.message)
    assert f"opsmith cache key trust {key}" in str(warning.message)
    assert list(elsewhere.artifacts()) == []
    assert fetch_shared(elsewhere, source_key(inputs), {"source": tmp_path}) is None  # warnings are errors


def rewrite_bundle(folder: Path, change) -> None:
    (bundle,) = folder.rglob("*.json")
    bundle.write_text(json.dumps(change(json.loads(bundle.read_text()))))


def replace_binary(folder: Path) -> None:
    for blob in folder.rglob("*"):
        if blob.is_file() and blob.suffix != ".json":
            blob.write_bytes(b"evil!!")


def other_manifest(content):
    return {**content, "manifest": content["manifest"].replace('"scale"', '"other"')}


def other_record(content):
    return {**content, "record": content["record"].replace("x.h", "y.h")}


def signed_by_nobody(content):
    return {**content, "signature": "A" * 86}


def signed_by_another(content):
    return {**content, "signer": "ed25519:" + "A" * 43}


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (replace_binary, "has been altered; none of it is used"),
        (lambda folder: rewrite_bundle(folder, other_manifest), "signature is wrong"),
        (lambda folder: rewrite_bundle(folder, other_record), "signature is wrong"),
        (lambda folder: rewrite_bundle(folder, signed_by_nobody), "signature is wrong"),
        (lambda folder: rewrite_bundle(folder, signed_by_another), "signature is wrong"),
        (lambda folder: rewrite_bundle(folder, lambda content: []), "damaged"),
        (lambda folder: rewrite_bundle(folder, lambda content: {**content, "manifest": 1}), "damaged"),
        (lambda folder: next(folder.rglob("*.json")).write_text("{"), "damaged"),
    ],
)
def test_what_was_altered_there_is_not_loaded(folder, store, built, elsewhere, inputs, tmp_path, damage, reason):
    keyring.new_signing_key("")
    share(store, built)
    damage(folder)
    with pytest.warns(RuntimeWarning, match=reason):
        assert fetch_shared(elsewhere, source_key(inputs), {"source": tmp_path}) is None
    assert list(elsewhere.artifacts()) == []
    assert list(elsewhere.layout.staging.glob("*")) == []


@pytest.mark.parametrize("place", ["opsmith.store.artifact_store.make_staging", "opsmith.store.shared.fetch"])
def test_a_full_disk_here_is_not_blamed_on_the_shared_store(
    folder, store, built, elsewhere, inputs, tmp_path, monkeypatch, place
):
    def refuse(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    keyring.new_signing_key("")
    share(store, built)
    with monkeypatch.context() as full:
        full.setattr(place, refuse)
        with pytest.raises(StoreError, match=f"{elsewhere.root}: the disk is full"):  # warnings are errors
            fetch_shared(elsewhere, source_key(inputs), {"source": tmp_path})
    assert fetch_shared(elsewhere, source_key(inputs), {"source": tmp_path}) is not None


def test_a_store_here_that_others_can_write_to_is_not_blamed_on_the_shared_store(
    folder, store, built, elsewhere, inputs, tmp_path
):
    keyring.new_signing_key("")
    share(store, built)
    elsewhere.root.mkdir()
    elsewhere.root.chmod(0o777)
    with pytest.raises(StoreError, match=f"everyone can write to {elsewhere.root}"):
        fetch_shared(elsewhere, source_key(inputs), {"source": tmp_path})
    assert shared._given_up == set()


def test_a_signed_artefact_cannot_be_put_under_another_key(folder, store, publish, elsewhere, inputs):
    keyring.new_signing_key("")
    share(store, publish(content=b"what was asked for", name="other", inputs={"asked": "1"}))
    (bundle,) = folder.rglob("*.json")
    wanted = folder / shared._folder(source_key(inputs))
    wanted.mkdir(parents=True)
    bundle.rename(wanted / bundle.name)
    assert fetch_shared(elsewhere, source_key(inputs)) is None


def test_a_signature_for_another_platform_is_none(folder, store, publish, elsewhere, inputs, monkeypatch):
    keyring.new_signing_key("")
    monkeypatch.setattr(shared, "platform_name", lambda: "linux-arm64-glibc2.36")
    share(store, publish())
    (bundle,) = folder.rglob("*.json")
    monkeypatch.undo()
    monkeypatch.setenv("OPSMITH_STORE", str(folder))
    monkeypatch.setenv("OPSMITH_CONFIG_DIR", str(folder.parent / "builder"))
    assert fetch_shared(elsewhere, source_key(inputs)) is None
    wanted = folder / shared._folder(source_key(inputs))
    wanted.mkdir(parents=True)
    bundle.rename(wanted / bundle.name)
    with pytest.warns(RuntimeWarning, match="signature is wrong"):
        assert fetch_shared(elsewhere, source_key(inputs)) is None


def test_one_trusted_signature_is_enough(folder, store, built, elsewhere, inputs, tmp_path, monkeypatch):
    keyring.new_signing_key("a stranger")
    share(store, built)
    become(monkeypatch, tmp_path, "friend")
    friend = keyring.new_signing_key("friend")
    assert push(store, [built]) == 1
    become(monkeypatch, tmp_path, "user")
    keyring.trust_key(friend, "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the stranger's may come first
        assert fetch_shared(elsewhere, source_key(inputs), {"source": tmp_path}) is not None


def test_pushing_again_does_nothing(url, store, built, publish):
    keyring.new_signing_key("")
    assert push(store, [built]) == 1
    assert push(store, [built, publish(name="other", inputs={"b": "1"})]) == 1


def test_pull_fetches_all_that_is_trusted(url, store, built, publish, elsewhere, tmp_path, monkeypatch):
    key = keyring.new_signing_key("")
    push(store, [built, publish(name="other", inputs={"b": "1"})])
    become(monkeypatch, tmp_path, "user")
    pulled = pull(elsewhere)
    assert (pulled.added, pulled.present, pulled.refused) == ((), 0, {key: 2})
    keyring.trust_key(key, "")
    assert [item.manifest.name for item in pull(elsewhere, ["other"]).added] == ["other"]
    pulled = pull(elsewhere)
    assert ([item.manifest.name for item in pulled.added], pulled.present) == (["scale"], 1)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("nothing://here", "an address that fsspec does not support"),
        ("/dev/null/folder", "NotADirectoryError"),
    ],
)
def test_a_shared_store_that_cannot_be_reached_is_one_warning(store, built, inputs, monkeypatch, url, reason):
    keyring.new_signing_key("")
    monkeypatch.setenv("OPSMITH_STORE", url)
    with pytest.warns(RuntimeWarning, match=f"{url} is not used in this process: .*{reason}"):
        share(store, built)
    share(store, built)  # warnings are errors
    assert fetch_shared(store, source_key(inputs)) is None
    with pytest.raises(StoreError, match=reason):
        push(store, [built])


def test_a_server_that_never_answers_is_not_waited_for(store, elsewhere, inputs, monkeypatch):
    monkeypatch.setattr(shared, "_ASK_TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("OPSMITH_STORE", f"http://127.0.0.1:{server.getsockname()[1]}/store")
        start_s = time.monotonic()
        with pytest.warns(RuntimeWarning, match=r"not used in this process: (TimeoutError: no answer|.*aiohttp)"):
            assert fetch_shared(elsewhere, source_key(inputs)) is None
        assert fetch_shared(elsewhere, source_key(inputs)) is None
        assert time.monotonic() - start_s < 10


@pytest.mark.slow("starts an S3 server; the folder and HTTP are in make test")
def test_an_s3_server_serves_a_cluster(store, built, elsewhere, inputs, tmp_path, monkeypatch):
    pytest.importorskip("s3fs")
    server_module = pytest.importorskip("moto.server")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the server's and of botocore's own
        server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        try:
            for name, value in {
                "AWS_ENDPOINT_URL": f"http://{host}:{port}",
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
                "AWS_DEFAULT_REGION": "us-east-1",
                "OPSMITH_STORE": "s3://cluster/opsmith",
            }.items():
                monkeypatch.setenv(name, value)
            import boto3

            boto3.client("s3").create_bucket(Bucket="cluster")
            key = keyring.new_signing_key("builder")
            share(store, built)
            assert shared._given_up == set()
            names = {item["Key"] for item in boto3.client("s3").list_objects_v2(Bucket="cluster")["Contents"]}
            assert len(names) == 3  # the bundle, the binary, and the digests of lines
            become(monkeypatch, tmp_path, "user")
            assert fetch_shared(elsewhere, source_key(inputs), {"source": tmp_path}) is None
            keyring.trust_key(key, "builder")
            fetched = fetch_shared(elsewhere, source_key(inputs), {"source": tmp_path})
            assert fetched is not None
            assert fetched.library.read_bytes() == b"binary"
            for name in names:
                if not name.endswith(".json"):
                    boto3.client("s3").put_object(Bucket="cluster", Key=name, Body=b"evil!!")
            other = Store(tmp_path / "other")
            assert fetch_shared(other, source_key(inputs), {"source": tmp_path}) is None
            assert list(other.artifacts()) == []
        finally:
            server.stop()
