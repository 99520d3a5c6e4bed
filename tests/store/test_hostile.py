"""What others put into a shared store or an archive costs a bounded time, memory and disk, whatever it is."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import itertools
import json
import os
import signal
import socket
import struct
import threading
import time
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from opsmith.errors import StoreError
from opsmith.store import Store, archive, digest_file, keyring, keys, shared, source_key, transport
from opsmith.store.archive import export_archive, import_archive
from opsmith.store.index import Record
from opsmith.store.machine import platform_name
from opsmith.store.shared import fetch_shared, pull
from opsmith.store.transport import Limit, open_transport

SPARSE_BYTES = 40 << 30


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path) -> Iterator[None]:
    """Give every test a process that knows no shared store, a user with a key, and an end."""
    monkeypatch.setattr(shared, "_given_up", set())
    monkeypatch.setattr(shared, "_refused", set())
    monkeypatch.setenv("OPSMITH_CONFIG_DIR", str(tmp_path / "user"))
    monkeypatch.setenv("OPSMITH_STORE", str(tmp_path / "shared"))

    def end(*_):
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, 20)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def elsewhere(tmp_path) -> Store:
    return Store(tmp_path / "elsewhere")


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "shared"


@pytest.fixture
def put(store, publish, inputs, folder, tmp_path):
    """Put an artefact into the shared store whose record names a header, signed by somebody; return the bundle's file."""

    def do(header: str | None, *, trusted: bool) -> Path:
        key = keyring.new_signing_key("")
        artifact = publish(content=b"binary")
        source = source_key(inputs)
        names = {header: "0" * 64} if header else {}
        record = Record(names, keys.artifact_key(source, names))
        bundle = shared.write_bundle((artifact.folder / "manifest.json").read_bytes(), record, platform_name())
        file = folder / shared._folder(source) / f"{record.artifact}{shared._ending(key)}"
        blob = file.parent / record.artifact / artifact.manifest.sha256
        blob.parent.mkdir(parents=True)
        blob.write_bytes(b"binary")
        file.write_bytes(bundle)
        if not trusted:
            keyring.forget_key(key)
        return file

    return do


def make_irregular(kind: str, path: Path) -> str:
    """Make something that reading hangs on, or never ends, and return its path."""
    if kind == "device":
        return "/dev/zero"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif kind == "folder":
        path.mkdir()
    else:
        sparse(path)
    return str(path)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(SPARSE_BYTES)


KINDS = ["device", "fifo", "socket", "folder", "sparse"]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_opened_that_an_untrusted_bundle_names(put, elsewhere, inputs, tmp_path, kind, monkeypatch):
    put(make_irregular(kind, tmp_path / "x"), trusted=False)
    monkeypatch.setattr("opsmith.store.headers.digest_file", lambda *_, **__: pytest.fail("it was opened"))
    with pytest.warns(RuntimeWarning, match="signed by a key that you do not trust"):
        assert fetch_shared(elsewhere, source_key(inputs)) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_header_is_a_regular_file_of_a_possible_size(put, elsewhere, inputs, tmp_path, kind):
    put(make_irregular(kind, tmp_path / "x"), trusted=True)
    assert fetch_shared(elsewhere, source_key(inputs)) is None


@pytest.mark.parametrize("kind", ["device", "fifo", "socket", "folder"])
def test_only_regular_files_are_digested(tmp_path, kind):
    with pytest.raises(OSError, match="not a regular file"):
        digest_file(Path(make_irregular(kind, tmp_path / "x")))


def test_a_bundle_of_40_gb_is_not_read(put, elsewhere, inputs):
    sparse(put(None, trusted=True))
    with pytest.warns(RuntimeWarning, match="more than the .* bytes that it may have"):
        assert fetch_shared(elsewhere, source_key(inputs)) is None


@pytest.mark.parametrize(
    ("kind", "reason"), [("sparse", "more than the 6 bytes that it may have"), ("fifo", "is not a regular file")]
)
def test_no_more_is_copied_than_a_manifest_promises(put, elsewhere, inputs, kind, reason):
    bundle = put(None, trusted=True)
    (blob,) = (path for path in bundle.parent.rglob("*") if path.is_file() and path != bundle)
    blob.unlink()
    make_irregular(kind, blob)
    with pytest.warns(RuntimeWarning, match=reason):
        assert fetch_shared(elsewhere, source_key(inputs)) is None
    assert list(elsewhere.layout.staging.iterdir()) == []


@pytest.fixture
def slow(monkeypatch):
    """Make every file of a shared folder take a tenth of a second to open, and a question end after one."""
    really = transport._Folder.open

    def wait(self, name):
        time.sleep(0.1)
        return really(self, name)

    monkeypatch.setattr(transport._Folder, "open", wait)
    monkeypatch.setattr(shared, "_ASK_TIMEOUT_S", 1.0)


def test_70_slow_bundles_take_no_longer_than_one(put, slow, elsewhere, inputs):
    bundle = put("/no/such/header", trusted=True)
    for number in range(70):
        bundle.with_name(f"{number:02}{bundle.name}").write_bytes(bundle.read_bytes())
    start_s = time.monotonic()
    with pytest.warns(RuntimeWarning, match="not used in this process: .*no answer in time"):
        fetch_shared(elsewhere, source_key(inputs))
    assert time.monotonic() - start_s < 3


def test_bundles_of_strangers_do_not_hide_a_trusted_one(put, slow, elsewhere, inputs):
    bundle = put(None, trusted=True)
    for number in range(70):
        bundle.with_name(f"{number:02}.{'0' * 16}.json").write_bytes(b"{")
    assert fetch_shared(elsewhere, source_key(inputs)) is not None


def test_a_pull_has_an_end_too(put, slow, elsewhere, inputs, monkeypatch):
    bundle = put("/no/such/header", trusted=True)
    for number in range(70):
        bundle.with_name(f"{number:02}{bundle.name}").write_bytes(b"{")
    monkeypatch.setattr(shared, "_PULL_S_PER_BUNDLE", 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(StoreError, match="no answer in time"):
            pull(elsewhere)


class Entry:
    """One of endlessly many that a folder of somebody's file system lists."""

    def __init__(self, number: int, *, is_file: bool) -> None:
        self.path, self._is_file = f"/shared/{number}.json", is_file

    def is_file(self) -> bool:
        return self._is_file


@pytest.mark.parametrize("is_file", [True, False])
def test_a_listing_that_never_ends_is_cut(monkeypatch, is_file):
    entries = (Entry(number, is_file=is_file) for number in itertools.count())
    monkeypatch.setattr("os.scandir", lambda _: contextlib.nullcontext(entries))
    limit = Limit(100, time.monotonic() + 0.5)
    if is_file:
        assert len(open_transport("/shared").list("", limit)) == 100
    else:
        with pytest.raises(TimeoutError):
            open_transport("/shared").list("", limit)


def test_a_listing_over_a_network_does_not_go_on_behind_our_back():
    fsspec_asyn = pytest.importorskip("fsspec.asyn")
    ended = threading.Event()

    class Endless(fsspec_asyn.AsyncFileSystem):
        async def _find(self, *_, **__):
            try:
                while True:
                    await asyncio.sleep(0.01)
            finally:
                ended.set()

    with pytest.raises(TimeoutError):
        transport._Fsspec(Endless(), "").list("", Limit(100, time.monotonic() + 0.5))
    assert ended.wait(5)


class Flood(http.server.BaseHTTPRequestHandler):
    """Answers every request with a page that never ends."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b"." * 65536)

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def flood() -> Iterator[str]:
    pytest.importorskip("aiohttp")
    pytest.importorskip("fsspec")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Flood)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/store"
    server.shutdown()
    server.server_close()


def test_a_body_that_never_ends_is_cut(flood, tmp_path):
    way = open_transport(flood)
    limit = Limit(1 << 20, time.monotonic() + 15)
    with pytest.raises(StoreError, match="more than the 1048576 bytes"):
        transport.read(way, "x.json", limit)
    with pytest.raises(StoreError, match="more than the 1048576 bytes"):
        transport.fetch(way, "x", tmp_path / "x", limit)
    assert (tmp_path / "x").stat().st_size <= 1 << 20
    with pytest.raises(Exception, match="has more than 16777216 bytes"):
        way.list("", limit)


@pytest.fixture
def packed(store, publish, tmp_path) -> Path:
    publish(content=b"\0" * (100 << 20))
    export_archive(store, tmp_path / "a.zip", store.artifacts())
    return tmp_path / "a.zip"


def test_an_archive_that_grows_a_thousandfold_is_not_unpacked(packed, elsewhere):
    assert packed.stat().st_size < 1 << 20
    with pytest.raises(StoreError, match=r"would grow from \d+ to 1048\d+ bytes"):
        import_archive(elsewhere, packed)
    assert not elsewhere.root.exists()


def test_an_archive_cannot_ask_for_memory(tmp_path, elsewhere):
    with (tmp_path / "a.zip").open("wb") as file:
        file.truncate(1 << 30)
        file.seek(1 << 30)
        file.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 512 << 20, 0, 0))
    with pytest.raises(StoreError, match="its directory has 536870912 bytes"):
        import_archive(elsewhere, tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_LZMA) as file:
        file.writestr(archive._HEAD, json.dumps({"format": 1, "platform": platform_name()}))
    with pytest.raises(StoreError, match="compressed in another way"):
        import_archive(elsewhere, tmp_path / "b.zip")


def test_an_archive_is_a_regular_file(tmp_path, elsewhere):
    os.mkfifo(tmp_path / "a.zip")
    with pytest.raises(StoreError, match=r"a\.zip cannot be read: is not a regular file"):
        import_archive(elsewhere, tmp_path / "a.zip")
