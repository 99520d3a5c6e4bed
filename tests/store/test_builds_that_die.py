"""Real builds: killed at any point, raced for, and on disks that are full; the next one is correct and prompt."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from opsmith.errors import BuildError, OpsmithError, StoreError
from opsmith.store import Store, source_key
from opsmith.store.verify import verify_store

KIT = Path(__file__).with_name("kit_builds.py")


def run_kit(what: str, root: Path, count: int, seed: int) -> dict[str, float]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPSMITH_CACHE_DIR": str(root)}
    done = subprocess.run(
        [sys.executable, KIT, what, root, str(count), str(seed)], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


@pytest.mark.compile
@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(5, id="5", marks=pytest.mark.slow("5 builds are killed; test_races.py has one")),
        pytest.param(100, id="100", marks=pytest.mark.nightly("100 builds are killed")),
    ],
)
def test_a_build_that_is_killed_at_a_random_point_is_built_again_at_once(tmp_path, rounds):
    answer = run_kit("kill", tmp_path / "root", rounds, seed=rounds)
    assert answer["survived"] == rounds
    assert answer["struck"] > 0
    store = Store(tmp_path / "root")
    assert [item.damage for item in verify_store(store) if item.damage] == []
    assert len(list(store.artifacts())) == rounds + 5  # none twice, and none for nothing
    with store.staging() as mine:
        assert list(store.layout.staging.iterdir()) == [mine], "what a killed build left was not swept"


@pytest.mark.all_cores
@pytest.mark.compile
@pytest.mark.slow("16 processes")
def test_of_16_processes_one_builds(tmp_path):
    answer = run_kit("race", tmp_path / "root", 16, seed=1)
    assert (answer["builds"], answer["failures"]) == (1, 0)
    assert answer["took_s"] < 1.3 * answer["usual_s"] + 2  # of an uneven machine; measured alone it is 1.3 and less


# Everything through which the store changes the disk.
WRITES = [
    (Path, "mkdir"), (Path, "rename"), (Path, "replace"), (Path, "chmod"), (Path, "write_text"), (Path, "write_bytes"),
    (os, "open"), (os, "fsync"),
]  # fmt: skip


OPEN = os.open


class Disk:
    """A disk that is full from a certain write on, or for that one alone."""

    def __init__(self, monkeypatch, error: int) -> None:
        self.writes, self.full_from, self.lasts, self._error = 0, sys.maxsize, False, error
        for owner, name in WRITES:
            monkeypatch.setattr(owner, name, self._guard(getattr(owner, name)))

    def _guard(self, really):
        def write(*args, **kwargs):
            if really is OPEN and not args[1] & (os.O_WRONLY | os.O_RDWR):
                return really(*args, **kwargs)  # what removes a tree opens folders
            self.writes += 1
            if self.writes == self.full_from or (self.lasts and self.writes > self.full_from):
                raise OSError(self._error, os.strerror(self._error), "/some/file")
            return really(*args, **kwargs)

        return write

    def fill(self, at: int, *, lasts: bool) -> None:
        self.writes, self.full_from, self.lasts = 0, at, lasts

    def empty(self) -> int:
        self.full_from = sys.maxsize
        return self.writes


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("lasts", [True, False])
def test_a_disk_that_is_full_at_any_write_of_a_publication_spoils_nothing(
    store, publish, inputs, monkeypatch, tmp_path, error, lasts
):
    header = tmp_path / "x.h"
    header.write_text("1")
    disk = Disk(monkeypatch, error)
    at, failures = 0, 0
    while True:
        at += 1
        wanted = {**inputs, "round": str(at)}
        disk.fill(at, lasts=lasts)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # published, but the store could not be kept small
                publish(header, content=b"binary" * 100, inputs=wanted, roots={"source": tmp_path})
        except (StoreError, OSError) as raised:
            failures += 1
            assert isinstance(raised, StoreError) or raised.filename == "/some/file"
        if disk.empty() < at:
            break
        assert [item.damage for item in verify_store(store) if item.damage] == []
        published = publish(header, content=b"binary" * 100, inputs=wanted, roots={"source": tmp_path})
        assert store.find(source_key(wanted), roots={"source": tmp_path}) == published
    assert failures > 10
    with store.staging() as mine:
        assert list(store.layout.staging.iterdir()) == [mine]


@pytest.fixture
def small_disk(tmp_path: Path):
    """Return a folder on a file system of 300 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k,mode=0755", "none", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a file system can be mounted by root alone")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.compile
def test_a_disk_that_is_really_full_fails_the_build_with_a_reason(small_disk, monkeypatch):
    sys.path.insert(0, str(KIT.parent))
    try:
        from kit_builds import build, check
    finally:
        sys.path.remove(str(KIT.parent))
    monkeypatch.setenv("OPSMITH_CACHE_SIZE", "none")
    store = Store(small_disk / "root")
    check(store, 1)
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space"):
        ballast.write_bytes(bytes(10**6))
    for number, free in enumerate([0, 4_096, 8_192, 16_384, 32_768, 65_536, 131_072], start=2):
        size = ballast.stat().st_size
        os.truncate(ballast, max(0, size - free))
        try:
            build(store, number)
        except OpsmithError as error:
            assert isinstance(error, StoreError | BuildError)
            assert re.search("is full|No space left|quota", str(error))
        assert [item.damage for item in verify_store(store) if item.damage] == []
        with ballast.open("ab") as file, pytest.raises(OSError, match="No space"):
            file.write(bytes(10**6))
            file.flush()
    ballast.unlink()
    check(store, 100)
