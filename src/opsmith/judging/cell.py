"""Keeps a candidate in a process of its own and talks to it; ends it when it takes too long or too much.

The judge believes two things of what happens there: the bytes of results that arrive, and its own clocks.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.answers import Batch, CellError, Returned, charge_of, charge_of_cache, returned, signs_of
from opsmith.judging.candidate import Candidate, Entry
from opsmith.judging.launch import Limits, start_process
from opsmith.judging.memory import Area, describe
from opsmith.judging.messages import MessageError, receive, send
from opsmith.judging.processes import disk_bytes, family, memory_bytes
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge, Sign, Walls

__all__ = ["Batch", "Cell", "CellError", "Limits", "Returned"]

_START_S = 60.0
_TICK_S = 0.1
_MOST_PATIENCE = 4
_TAIL_BYTES = 3000
_LEAST_BYTES = 1 << 20


class Cell:
    """A candidate's process; as a context manager it ends with the block."""

    def __init__(self, candidate: Candidate | None, device: str, limits: Limits | None = None) -> None:
        """Start the process; `candidate` is copied for it but not opened. Raises CellError where it does not start."""
        self.candidate, self.device, self.limits = candidate, device, limits or Limits()
        self.walls = Walls()
        self._folder = Path(tempfile.mkdtemp(prefix="opsmith-judge-"))
        self._areas: dict[str, Area] = {}
        self._number = 0
        self._is_new = True
        self._used = 0
        self._before: Tensor | None = None
        self._start()

    def _start(self) -> None:
        self._output = (self._folder / "output").open("wb")
        self._process, self._link = start_process(self._folder, self.candidate, self.device, self.limits, self._output)
        found = self._answer(None, _START_S)
        self.walls = Walls(tuple(map(str, found.get("walls", ()))), tuple(map(str, found.get("missing", ()))))

    def __enter__(self) -> Cell:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process that the judge has started; the candidate's is its child where it has a namespace of its own."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can be called."""
        return self._process.poll() is None and self._link.fileno() >= 0

    def open(self, entry: Entry) -> None:
        """Have the candidate imported and built; raises CellError with what it raised."""
        assert self.candidate is not None
        self._is_new = True
        path = self._folder / "candidate" / self.candidate.main
        found = self._ask("open", self.limits.load_s, path=str(path), entry=asdict(entry))
        if (charge := charge_of(found, Refusal.NOT_LOADED)) is not None:
            raise CellError(charge)

    def open_empty(self) -> None:
        """Have a function that returns its first argument in the candidate's place: what a call costs by itself."""
        self._ask("open", self.limits.load_s, path="", entry={})

    def load(self, slots: Sequence[Sequence[Any]], *, keep: bool = False, margin: int = 0xFF) -> None:
        """Give inputs to the process, a list of arguments for each slot.

        `margin` is the byte between and around tensors. With `keep` the tensors are the same objects in the same memory
        as before, if their shapes are, with new contents.
        """
        described, copies, end = [], [], 0
        for slot in slots:
            one, of_one, end = describe(slot, end)
            described.append(one)
            copies += of_one
        area = self._area("inputs", end)
        area.bytes[:end].fill_(margin)
        for at, flat in copies:
            area.part(at, flat.numel(), flat.dtype).copy_(flat)
        self._used = end
        self._before = area.bytes[:end].clone()
        self._spans = copies
        self._ask("load", self.limits.call_s, slots=described, keep=keep)

    def run(
        self,
        order: Sequence[int],
        gradients: Mapping[str, Any] | None = None,
        *,
        is_watched: bool = False,
        is_lead_in: bool = False,
    ) -> Batch:
        """Make a batch of calls, one for each slot in the order, and return the time that it took here.

        Where it `is_watched`, inputs arrive late on a GPU, and copies of the last call's results are made behind it on
        the current stream (see `give`). Those of a lead-in are dropped before the answer.
        """
        # Of many calls at once the candidate is known not to be slow (see `Trial.slowest_s`).
        patience_s = self.limits.call_s * min(len(order), _MOST_PATIENCE)
        if self._is_new:
            # Triton, torch.compile and others build at the first call.
            patience_s = max(patience_s, self.limits.load_s)
            self._is_new = False
        begun = time.perf_counter()
        message: dict[str, Any] = {"order": list(order), "gradients": gradients, "is_watched": is_watched}
        message["is_lead_in"] = is_lead_in
        found = self._ask("run", patience_s, **message)
        wall_s = time.perf_counter() - begun
        missing = found.get("not_differentiable", [])
        lacking = tuple(one for one in missing if isinstance(one, int)) if isinstance(missing, list) else ()
        return Batch(wall_s, charge_of(found, Refusal.RAISED) or charge_of_cache(found), lacking)

    def soil(self, byte: int) -> None:
        """Fill freed memory of the sizes of the last results, which the next ones may get, with a byte."""
        self._ask("soil", self.limits.call_s, byte=byte)

    def give(self, which: Sequence[int], *, is_snapshot: bool = False) -> list[list[Returned | None]]:
        """Return the results of some calls of the last batch, as copies; None where a gradient is None.

        With `is_snapshot` they are copies that the last call's were given at once.
        """
        area = self._area("results", _LEAST_BYTES)
        found = self._ask("give", self.limits.call_s, which=list(which), is_snapshot=is_snapshot)
        needs = found.get("needs")
        if type(needs) is int:
            if not 0 < needs <= self.limits.memory_bytes:
                raise CellError(Charge(Refusal.OVER_MEMORY, f"its results take {needs} bytes"))
            area = self._area("results", needs + 4096)
            found = self._ask("give", self.limits.call_s, which=list(which), is_snapshot=is_snapshot)
        if (charge := charge_of(found, Refusal.RAISED)) is not None:
            raise CellError(charge)
        return returned(found.get("results"), area, len(which))

    def caught(self) -> tuple[Sign, ...]:
        """Make one call with the first slot, and return a sign for each exception that the candidate catches in it."""
        return signs_of(self._ask("catch", self.limits.call_s, slot=0))

    def changed_files(self) -> list[str]:
        """Return the names of the candidate's files that are not as they were copied."""
        assert self.candidate is not None
        folder = self._folder / "candidate"
        return [name for name, content in self.candidate.text.items() if _content(folder / name) != content]

    def changed_inputs(self) -> str:
        """Return what the calls have changed of the inputs since `load`: "", "inputs" or "margins"."""
        self._ask("back", self.limits.call_s)
        assert self._before is not None
        now = self._areas["inputs"].bytes[: self._used]
        if torch.equal(now, self._before):
            return ""
        different = now != self._before
        for at, flat in self._spans:
            if bool(different[at : at + flat.numel() * flat.element_size()].any()):
                return "inputs"
        return "margins"

    def _area(self, name: str, size: int) -> Area:
        """Return the memory of a name, as large as it must be at least."""
        area = self._areas.get(name)
        if area is None or area.size < size:
            if area is not None:
                area.close()
            area = self._areas[name] = Area(max(size + size // 4, 1 << 16))
            self._ask("map", self.limits.call_s, (area.descriptor,), name=name, size=area.size)
        return area

    def _ask(self, do: str, patience_s: float, descriptors: tuple[int, ...] = (), **more: Any) -> dict[str, Any]:
        self._number += 1
        try:
            send(self._link, {"number": self._number, "do": do, **more}, descriptors)
        except OSError:
            raise CellError(self._end()) from None
        return self._answer(self._number, patience_s)

    def _answer(self, number: int | None, patience_s: float) -> dict[str, Any]:
        """Return the answer to a message; raises CellError for a process that ends, hangs or takes too much."""
        until_s = time.monotonic() + patience_s
        while not select.select([self._link], [], [], _TICK_S)[0]:
            if (charge := self._excess()) is not None or time.monotonic() > until_s:
                self.kill()
                raise CellError(charge or Charge(Refusal.HUNG, f"no answer within {patience_s:.0f} s"))
        try:
            self._link.settimeout(patience_s)
            found, _ = receive(self._link)
        except (EOFError, OSError):
            raise CellError(self._end()) from None
        except MessageError as error:
            self.kill()
            raise CellError(Charge(Refusal.REACHES_OUTSIDE, f"it sent {error}")) from None
        if found.get("number") != number:
            self.kill()
            raise CellError(Charge(Refusal.REACHES_OUTSIDE, "it sent a message of its own in the name of its process"))
        return found

    def _excess(self) -> Charge | None:
        """Return the charge for a process that has taken more than it may."""
        members = family(self.pid)
        taken = sum(map(memory_bytes, members)) - sum(area.size for area in self._areas.values())
        if taken > self.limits.memory_bytes:
            return Charge(
                Refusal.OVER_MEMORY, f"it took {taken >> 20} MiB, and may take {self.limits.memory_bytes >> 20}"
            )
        written = disk_bytes(self._folder)
        if written > self.limits.disk_bytes:
            text = f"it wrote {written >> 20} MiB to files, and may write {self.limits.disk_bytes >> 20}"
            return Charge(Refusal.OVER_MEMORY, text)
        if len(members) > self.limits.processes:
            return Charge(
                Refusal.OVER_MEMORY, f"it started {len(members)} processes, and may have {self.limits.processes}"
            )
        return None

    def _end(self) -> Charge:
        """Return how a process ended that does not answer any more."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)
        status = self._process.poll()
        self.kill()
        tail = self.output()
        last = f": {tail.splitlines()[-1][:200]}" if tail else ""
        if status is not None and status < 0:
            return Charge(Refusal.CRASHED, f"its process was ended by {signal.Signals(-status).name}{last}")
        return Charge(Refusal.CRASHED, f"its process ended with status {status}{last}")

    def output(self) -> str:
        """Return the end of what the process has printed."""
        with suppress(OSError):
            return (self._folder / "output").read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()
        return ""

    def kill(self) -> None:
        """End the process and all that it has started."""
        for one in reversed(family(self.pid)):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self._link.close()

    def close(self) -> None:
        """End the process and remove its files."""
        self.kill()
        self._output.close()
        for area in self._areas.values():
            area.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
