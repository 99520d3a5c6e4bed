"""Keeps a candidate in a process of its own, and has it called there: inputs go in, results come out, as bytes.

The judge believes two things of what happens there: the bytes of results that arrive, and its own clocks.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.memory.available import available_memory_bytes
from opsmith.judging.answers import Batch, CellError, Returned, charge_of, charge_of_cache, returned, signs_of
from opsmith.judging.candidate import Candidate, Entry
from opsmith.judging.candidate_process import CandidateProcess
from opsmith.judging.launch import Limits
from opsmith.judging.memory import Area, describe
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge, Sign, Walls
from opsmith.judging.scaled import bytes_of

__all__ = ["Batch", "Cell", "CellError", "Limits", "Returned"]

_MOST_PATIENCE = 4
_TIMES_RESULTS = 3
_LEAST_BYTES = 1 << 20


class Cell:
    """A candidate's process; as a context manager it ends with the block."""

    def __init__(
        self,
        candidate: Candidate | None,
        device: str,
        limits: Limits | None = None,
        process: CandidateProcess | None = None,
    ) -> None:
        """Start the process, if there is none that was started for the candidate before; the candidate is not opened.

        Raises CellError where it does not start.
        """
        self.candidate, self.device, self.limits = candidate, device, limits or Limits()
        self._areas: dict[str, Area] = {}
        self._is_new = True
        self._spans: list[tuple[int, Tensor]] = []
        self._end, self._margin = 0, 0
        self.process = process or CandidateProcess(candidate, device, self.limits)
        try:
            self.process.wait_until_ready()
        except CellError:
            self.close()
            raise

    def __enter__(self) -> Cell:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process that the judge has started, see `CandidateProcess`."""
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can be called."""
        return self.process.is_alive

    @property
    def walls(self) -> Walls:
        """What keeps the process apart."""
        return self.process.walls

    def open(self, entry: Entry) -> None:
        """Have the candidate imported and built; raises CellError with what it raised."""
        assert self.candidate is not None
        self._is_new = True
        path = self.process.folder / "candidate" / self.candidate.main
        found = self.process.ask("open", self.limits.load_s, path=str(path), entry=asdict(entry))
        if (charge := charge_of(found, Refusal.NOT_LOADED)) is not None:
            raise CellError(charge)

    def open_empty(self) -> None:
        """Have a function that returns its first argument in the candidate's place: what a call costs by itself."""
        self.process.ask("open", self.limits.load_s, path="", entry={})

    def load(
        self,
        slots: Sequence[Sequence[Any]],
        *,
        keep: bool = False,
        margin: int = 0xFF,
        versioned: Sequence[int] = (),
        copies: Sequence[tuple[int, float]] = (),
    ) -> None:
        """Give inputs to the process, a list of arguments for each slot; behind these come `copies`, see `Inputs`.

        `margin` is the byte between and around tensors. With `keep` the tensors are the same objects in the same memory
        as before, if their shapes are, with new contents; of arguments at the places `versioned` these have new versions.
        """
        described, spans, end = [], [], 0
        for slot in slots:
            one, of_one, end = describe(slot, end)
            described.append(one)
            spans += of_one
        area = self._area("inputs", end)
        self._spans, self._end, self._margin = spans, end, margin
        for gap in self._gaps():
            gap.fill_(margin)
        for at, flat in spans:
            area.part(at, flat.numel(), flat.dtype).copy_(flat)
        copied = sum(bytes_of(list(slots[source])) for source, _ in copies)
        self.process.copied_bytes = max(self.process.copied_bytes, copied)
        self.process.ask(
            "load", self.limits.call_s, slots=described, keep=keep, versioned=list(versioned), copies=list(copies)
        )

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
        found = self.process.ask("run", patience_s, **message)
        wall_s = time.perf_counter() - begun
        if self.device == "cuda":  # memory that is given back soon is seen by the allocator's limit alone
            self.process.hold_to_limits()
        missing = found.get("not_differentiable", [])
        lacking = tuple(one for one in missing if isinstance(one, int)) if isinstance(missing, list) else ()
        return Batch(wall_s, charge_of(found, Refusal.RAISED) or charge_of_cache(found), lacking)

    def soil(self, byte: int) -> None:
        """Fill freed memory of the sizes of the last results, which the next ones may get, with a byte."""
        self.process.ask("soil", self.limits.call_s, byte=byte)

    def give(self, which: Sequence[int], *, is_snapshot: bool = False) -> list[list[Returned | None]]:
        """Return the results of some calls of the last batch, as copies; None where a gradient is None.

        With `is_snapshot` they are copies that the last call's were given at once.
        """
        area = self._area("results", _LEAST_BYTES)
        found = self.process.ask("give", self.limits.call_s, which=list(which), is_snapshot=is_snapshot)
        needs = found.get("needs")
        if type(needs) is int:
            # They are copied, and lie in memory twice.
            most = min(self.limits.memory_bytes, (available_memory_bytes("cpu") or 1 << 62) // _TIMES_RESULTS)
            if not 0 < needs <= most:
                raise CellError(Charge(Refusal.OVER_MEMORY, f"its results take {needs} bytes, and may take {most}"))
            area = self._area("results", needs + 4096)
            found = self.process.ask("give", self.limits.call_s, which=list(which), is_snapshot=is_snapshot)
        if (charge := charge_of(found, Refusal.RAISED)) is not None:
            raise CellError(charge)
        return returned(found.get("results"), area, len(which))

    def caught(self) -> tuple[Sign, ...]:
        """Make one call with the first slot, and return a sign for each exception that the candidate catches in it."""
        return signs_of(self.process.ask("catch", self.limits.call_s, slot=0))

    def changed_files(self) -> list[str]:
        """Return the names of the candidate's files that are not as they were copied."""
        assert self.candidate is not None
        folder = self.process.folder / "candidate"
        return [name for name, content in self.candidate.text.items() if _differs(folder / name, content)]

    def changed_inputs(self) -> str:
        """Return what the calls have changed of the inputs since `load`: "", "inputs" or "margins"."""
        self.process.ask("back", self.limits.call_s)
        area = self._areas["inputs"]
        for at, flat in self._spans:
            if not torch.equal(area.part(at, flat.numel(), flat.dtype).view(torch.uint8), flat.view(torch.uint8)):
                return "inputs"
        return "margins" if any(bool((gap != self._margin).any()) for gap in self._gaps()) else ""

    def _gaps(self) -> list[Tensor]:
        """Return the memory around inputs and between them."""
        content, begin, found = self._areas["inputs"].bytes, 0, []
        for at, flat in self._spans:
            found.append(content[begin:at])
            begin = at + flat.numel() * flat.element_size()
        return [*found, content[begin : self._end]]

    def _area(self, name: str, size: int) -> Area:
        """Return the memory of a name, as large as it must be at least."""
        area = self._areas.get(name)
        if area is None or area.size < size:
            if area is not None:
                area.close()
            area = self._areas[name] = Area(max(size + size // 4, 1 << 16))
            self.process.shared_bytes = sum(one.size for one in self._areas.values())
            self.process.shared_files = {one.file for one in self._areas.values()}
            self.process.ask("map", self.limits.call_s, (area.descriptor,), name=name, size=area.size)
        return area

    def kill(self) -> None:
        """End the process and all that it has started."""
        self.process.kill()

    def close(self) -> None:
        """End the process and remove its files."""
        self.process.close()
        for area in self._areas.values():
            area.close()


def _differs(path: Path, content: bytes) -> bool:
    """Whether a file has another content; what is not a file of that size is not read, as it may have no end."""
    try:
        found = path.lstat()
        return not stat.S_ISREG(found.st_mode) or found.st_size != len(content) or path.read_bytes() != content
    except OSError:
        return True
