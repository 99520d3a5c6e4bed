"""Owns the process of a candidate: asks it and waits for its answer, and ends it when it takes too long or too much."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from opsmith._printable import printable
from opsmith.judging.answers import CellError
from opsmith.judging.candidate import Candidate
from opsmith.judging.fork_server import Forked
from opsmith.judging.gpu_claims import Claim
from opsmith.judging.gpu_memory import GpuMemory
from opsmith.judging.launch import Limits, start_process
from opsmith.judging.messages import MessageError, receive, send
from opsmith.judging.other_memory import OtherMemory
from opsmith.judging.patience import OverTotal, Patient
from opsmith.judging.processes import begun_at, family, memory_bytes
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge, Walls
from opsmith.judging.scratch import nameless_bytes, remove_folder, written_to
from opsmith.judging.standstill import Standstill

__all__ = ["CandidateProcess"]

_START_S = 60.0
_TICK_S = 0.1
_TAIL_BYTES = 3000
# Last words of Python, C++ and the loader of libraries.
_NO_MEMORY = ("MemoryError", "bad_alloc", "cannot allocate memory", "failed to map segment")


class CandidateProcess:
    """A candidate's process with the folder of its files; `shared_bytes` is the judge's memory that it has mapped too.

    `shared_files` are that memory's files, by device and number. On a GPU the judge has it hold more: `copied_bytes` of
    inputs (see `scaled.Inputs`), and `staged_bytes` of inputs and results that come through memory of `passage_bytes`
    (see `staging`).

    It starts while the judge does something else, until `wait_until_ready`. Whatever it answers is a dictionary of plain
    data, and nothing in that is believed here but the message's number.
    """

    def __init__(self, device: str, limits: Limits) -> None:
        """Start the process; a candidate's files come later (see `give_files`)."""
        self.device, self.limits, self.walls = device, limits, Walls()
        self.folder = Path(tempfile.mkdtemp(prefix="opsmith-judge-"))
        self.shared_bytes, self.copied_bytes, self.staged_bytes, self.passage_bytes = 0, 0, 0, 0
        self.shared_files: set[tuple[int, int]] = set()
        self._looked_s = time.monotonic()
        self._until_s, self._total_s = float("inf"), 0.0
        self._number = 0
        self._seen: dict[int, int | None] = {}  # what it has started, and when each began
        self._waits_outside = False
        self.claim: Claim | None = None
        self._gpu: GpuMemory | None = None
        self.memory: OtherMemory | None = None
        with ExitStack() as undone:
            undone.callback(remove_folder, self.folder)
            self._output = undone.enter_context((self.folder / "output").open("wb"))
            self._process, self._link = start_process(self.folder, device, limits, self._output)
            undone.pop_all()

    def wait_until_ready(self) -> None:
        """Wait until its walls stand and it can be asked; raises CellError where it does not start."""
        try:
            found = self._first_answer()
        except CellError:
            if not isinstance(self._process, Forked):
                raise
            # Nothing of a candidate's has run. What became of the process that forks is none of its doing.
            self.kill()
            self._process, self._link = start_process(self.folder, self.device, self.limits, self._output, forks=False)
            found = self._first_answer()
        missing = list(map(str, found.get("missing", ())))
        # The first process of a namespace has its number, and a parent that waits, with memory of the one that forks.
        self._waits_outside = found.get("pid") == 1
        if self.device == "cuda":
            self._gpu = GpuMemory(self.limits.gpu_bytes, claim=self.claim)
        else:
            try:
                self.memory = OtherMemory(family(self.pid)[-1])
            except OSError as error:
                missing.append(f"results that are read where they lie, and not as they are given ({error.strerror})")
        self.walls = Walls(tuple(map(str, found.get("walls", ()))), tuple(missing))

    def give_files(self, candidate: Candidate) -> None:
        """Copy a candidate's files to its folder: as late as when it is opened, for others that run could read them."""
        for name, content in candidate.files.items():
            path = self.folder / "candidate" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def _first_answer(self) -> dict[str, Any]:
        try:
            found = self._answer(None, _START_S)
            self.hold_to_limits()
        except CellError as error:
            lacks_memory = any(words in error.charge.message for words in _NO_MEMORY)
            if error.charge.refusal is not Refusal.OVER_MEMORY and not lacks_memory:
                raise
            allowed = f"the {self.limits.memory_bytes >> 20} MiB that a candidate may take"
            raise CellError(_over(f"PyTorch alone does not fit into {allowed}: allow more (--memory-gib)")) from None
        return found

    @cached_property
    def standstill(self) -> Standstill:
        """Stops the process and what it has started."""
        return Standstill(self.pid)

    @property
    def pid(self) -> int:
        """The process that the judge has started; the candidate's is its child where it has a namespace of its own."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None and self._link.fileno() >= 0

    def ask(self, do: str, patience_s: float, descriptors: tuple[int, ...] = (), **more: Any) -> dict[str, Any]:
        """Return the answer to a message; raises CellError for a process that ends, hangs or takes too much.

        A process that stands still goes on. Raises OverTotal where `limit_total` is over, and ends the process.
        """
        if time.monotonic() > self._until_s:
            raise self._over_total()
        if do != "run":  # which is short: it is there when the process goes on
            self.hold_still()
            self.standstill.end()
        if do != "run" and time.monotonic() - self._looked_s > _TICK_S:  # between what is timed
            self.hold_to_limits()
        self._number += 1
        self._link.settimeout(patience_s)
        try:
            send(self._link, {"number": self._number, "do": do, **more}, descriptors)
        except OSError:
            raise CellError(self._end()) from None
        self.standstill.end()
        return self._answer(self._number, patience_s)

    def limit_total(self, seconds: float) -> None:
        """Limit what all answers take together with what is done between them, from now on."""
        self._until_s, self._total_s = time.monotonic() + seconds, seconds

    def _over_total(self) -> OverTotal:
        self.kill()
        return OverTotal(
            f"it was stopped after {self._total_s:.0f} s, and had not come to its end: allow more (--seconds)"
        )

    def stand_still(self) -> None:
        """Stop the process and all that it has started until it is asked again; raises CellError if they do not stop."""
        if not self.standstill.begin():
            self.kill()
            raise CellError(Charge(Refusal.REACHES_OUTSIDE, "its processes do not stop when they have to"))

    def hold_still(self) -> None:
        """Raise CellError, and end the process, where it has run although it was stopped."""
        if not self.standstill.has_held():
            self.kill()
            raise CellError(Charge(Refusal.REACHES_OUTSIDE, "it ran while it had to stand still"))

    def go_on_for(self, seconds: float) -> None:
        """Let a process that stands still go on for a while."""
        self.hold_still()
        self.standstill.end()
        time.sleep(seconds)
        self.stand_still()

    def hold_to_limits(self) -> None:
        """Raise CellError, and end the process, where it has taken more than it may."""
        if (charge := self._excess()) is not None:
            self.kill()
            raise CellError(charge)

    def _answer(self, number: int | None, patience_s: float) -> dict[str, Any]:
        try:
            left_s = max(0.0, self._until_s - time.monotonic())
            found, _ = receive(Patient(self._link, min(patience_s, left_s), self.hold_to_limits))
        except TimeoutError as error:
            if left_s < patience_s:
                raise self._over_total() from None
            self.kill()
            raise CellError(Charge(Refusal.HUNG, str(error))) from None
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
        self._looked_s = time.monotonic()
        limits, members = self.limits, self._members()
        # CUDA maps much that it does not use.
        nameless = nameless_bytes(members, self.shared_files, are_sizes_taken=self.device == "cpu")
        own = members[1:] if self._waits_outside else members
        taken = sum(map(memory_bytes, own)) + nameless - self.shared_bytes
        if taken > limits.memory_bytes:
            return _over(f"it took {taken >> 20} MiB, and may take {limits.memory_bytes >> 20} (--memory-gib)")
        written = written_to(self.folder)
        if written.nbytes > limits.disk_bytes:
            return _over(f"it wrote {written.nbytes >> 20} MiB to files, and may write {limits.disk_bytes >> 20}")
        if written.uncounted:
            return _over(f"it made {written.uncounted}")
        if len(members) > limits.processes:
            return _over(f"it started {len(members)} processes, and may have {limits.processes}")
        if self._gpu is None:
            return None
        _go_first(members)
        return self._gpu.excess(self.shared_bytes + self.copied_bytes + self.staged_bytes, self.passage_bytes)

    def _end(self) -> Charge:
        """Return how a process ended that does not answer any more."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)
        status = self._process.poll()
        self.kill()
        if status is None:
            return Charge(Refusal.HUNG, "it does not read what it is asked")
        tail = self._printed()
        last = f": {tail.splitlines()[-1][:200]}" if tail else ""
        if status < 0:
            return Charge(Refusal.CRASHED, f"its process was ended by {_signal_name(-status)}{last}")
        return Charge(Refusal.CRASHED, f"its process ended with status {status}{last}")

    def _printed(self) -> str:
        """Return the end of what the process has printed."""
        with suppress(OSError), (self.folder / "output").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return printable(file.read(_TAIL_BYTES).decode(errors="replace").strip(), lines=True)
        return ""

    def kill(self) -> None:
        """End the process and all that it has started, also what has lost its parent."""
        if not self._waits_outside and self._process.poll() is None:
            # So that none starts others meanwhile; those of a namespace end with its first one.
            with suppress(ProcessLookupError):
                Standstill(self.pid).begin()
        members = self._members()
        others = [one for one, begun in self._seen.items() if one not in members and begun == begun_at(one) is not None]
        for one in (*reversed(members), *others):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        self._link.close()

    def _members(self) -> list[int]:
        """Return the process and what it has started, as long as it is there."""
        if self._process.poll() is None:  # the number of one that was waited for may be another's by now
            with suppress(ProcessLookupError):
                found = family(self.pid)
                self._seen |= {one: begun_at(one) for one in found if one not in self._seen}
                return found
        return []

    def close(self) -> None:
        """End the process and remove its files."""
        self.kill()
        if self.memory is not None:
            self.memory.close()
        self._output.close()
        remove_folder(self.folder)


def _go_first(pids: Iterable[int]) -> None:
    """Have Linux end these first where memory runs out: beside a GPU they can write to what says so."""
    for pid in pids:
        with suppress(OSError):
            Path(f"/proc/{pid}/oom_score_adj").write_text("1000")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # those of real time have no names
        return f"signal {number}"


def _over(text: str) -> Charge:
    return Charge(Refusal.OVER_MEMORY, text)
