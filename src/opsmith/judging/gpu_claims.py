"""Lets judgements of one user on one GPU know what the others may take of its memory, so that none is refused for another's.

The driver tells no process what another one has where they have namespaces of their own: the judge sees what is in use on
the whole GPU. So each judgement holds a file with a number while it lasts, and waits at first until there is room for it.
The operating system's lock on that file says whether its judgement goes on, however that ended.
"""

from __future__ import annotations

import fcntl
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

__all__ = ["Claim", "claimed"]

_TICK_S = 0.2
_LOCKED_S = 60.0
# Bound before a candidate is imported.
_empty_cache = torch.cuda.empty_cache
_log = logging.getLogger("opsmith.judging")


class Claim:
    """What a judgement may take of a GPU's memory, in a file that it has locked."""

    def __init__(self, folder: Path, nbytes: int) -> None:
        self._folder = folder
        self._file, name = tempfile.mkstemp(prefix="claim-", dir=folder)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._path = Path(name)
        self._nbytes = -1
        self.set(nbytes)

    def set(self, nbytes: int) -> None:
        """Say how many bytes are in use or may be."""
        if nbytes != self._nbytes:
            os.pwrite(self._file, b"%020d" % nbytes, 0)
            self._nbytes = nbytes

    def others_bytes(self) -> int:
        """Return what the other judgements may take that go on."""
        return _claimed_bytes(self._folder, own=self._path)

    def close(self) -> None:
        """Take it back."""
        self._path.unlink(missing_ok=True)
        os.close(self._file)


@contextmanager
def claimed(
    nbytes: int, wait: Callable[[], object], folder: Path | None = None, total_bytes: int | None = None
) -> Iterator[Claim | None]:
    """Claim memory of the current GPU for the block, as soon as the claims of other judgements leave so much of it.

    Args:
        nbytes: what the judgement's candidate may take; 0, without a GPU, claims nothing.
        wait: called once where it has to be waited for.
        folder, total_bytes: where the claims on that GPU are, and how much it has; by default what the driver says.

    Yields:
        The claim; None without a GPU, and where no file can be written.
    """
    claim = None
    if nbytes:
        try:
            folder = folder or _folder()
            claim = _wait_for(nbytes, wait, folder, total_bytes or torch.cuda.mem_get_info()[1])
        except OSError as error:
            _log.warning("judgements on this GPU do not know of each other: %s", error)
    try:
        yield claim
    finally:
        if claim is not None:
            # What PyTorch keeps of this judgement would be nobody's otherwise, until the next one or this process's end.
            _empty_cache()
            claim.close()


def _wait_for(nbytes: int, wait: Callable[[], object], folder: Path, total_bytes: int) -> Claim:
    claim = _taken(nbytes, folder, total_bytes)
    if claim is None:
        wait()
    while claim is None:
        time.sleep(_TICK_S)
        claim = _taken(nbytes, folder, total_bytes)
    return claim


def _taken(nbytes: int, folder: Path, total_bytes: int) -> Claim | None:
    """Return a claim, or None where others leave too little. One that is alone has what it asks for."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(lock)
        others = _claimed_bytes(folder, removes=True)
        return Claim(folder, nbytes) if not others or others + nbytes <= total_bytes else None
    finally:
        os.close(lock)


def _lock(descriptor: int) -> None:
    """Lock a file; raises OSError where somebody has it for longer than any judgement does."""
    until_s = time.monotonic() + _LOCKED_S
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until_s:
                raise OSError(0, "another process keeps the lock of their claims") from None
            time.sleep(_TICK_S / 10)


def _claimed_bytes(folder: Path, *, own: Path | None = None, removes: bool = False) -> int:
    """Return the sum of the claims whose judgements go on.

    Who has the folder's lock may remove the files of those that have ended: without it, a new one is not locked yet.
    """
    found = 0
    for path in folder.glob("claim-*"):
        if path == own:
            continue
        with suppress(OSError, ValueError):  # gone meanwhile, or written by something else
            file = os.open(path, os.O_RDWR)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if removes:
                    path.unlink(missing_ok=True)
            except BlockingIOError:
                found += max(int(os.read(file, 20)), 0)
            finally:
                os.close(file)
    return found


def _folder() -> Path:
    """Return where the claims on the current GPU are: the same folder for each of a user's processes on this machine."""
    number = torch.cuda.current_device()
    gpu = getattr(torch.cuda.get_device_properties(number), "uuid", number)
    folder = Path(f"/dev/shm/opsmith-judge-{os.getuid()}") / str(gpu)
    folder.mkdir(parents=True, exist_ok=True)
    folder.parent.chmod(0o700)  # raises for a folder of somebody else's
    return folder
