"""Keeps a candidate in a process of its own, and has it called there: inputs go in, results come out, as bytes.

The judge believes two things of what happens there: the bytes of results that arrive, and its own clocks.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.answers import Batch, CellError, Returned, charge_of, charge_of_cache, place_in, returned, signs_in
from opsmith.judging.areas import Areas
from opsmith.judging.candidate import Candidate, Entry
from opsmith.judging.candidate_process import CandidateProcess
from opsmith.judging.gpu_claims import Claim
from opsmith.judging.image import Image
from opsmith.judging.launch import Limits
from opsmith.judging.memory import Shared, describe, sum_of_words
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge, Sign, Walls
from opsmith.judging.scaled import bytes_of
from opsmith.judging.scratch import differs
from opsmith.judging.staging import StagedResults

__all__ = ["Batch", "Cell", "CellError", "Limits", "Returned"]

# A batch of many calls may take as long as so many that hang.
_MOST_PATIENCE = 4
_LEAST_BYTES = 1 << 20


class Cell:
    """A candidate's process; as a context manager it ends with the block."""

    def __init__(
        self,
        candidate: Candidate | None,
        device: str,
        limits: Limits | None = None,
        process: CandidateProcess | None = None,
        claim: Claim | None = None,
    ) -> None:
        """Start the process, unless one was started for the candidate before, with the judgement's claim on a GPU's memory.

        The candidate is not opened. Raises CellError where it does not start.
        """
        self.candidate, self.device, self.limits = candidate, device, limits or Limits()
        self._loaded: Image | None = None
        self._bytes = torch.empty(0, dtype=torch.uint8)
        self._is_new, self._is_hidden, self._is_staged = True, False, False
        self.process = process or CandidateProcess(device, self.limits)
        self.process.claim = claim
        self._areas = Areas.on(device, self.process, self.limits.call_s)
        try:
            self.process.wait_until_ready()
        except BaseException:
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
    def is_exact(self) -> bool:
        """Whether timed calls have inputs that nobody has seen, and results that are there at the end (see `standstill`)."""
        return self.process.memory is not None

    @property
    def walls(self) -> Walls:
        """What keeps the process apart."""
        return self.process.walls

    def open(self, entry: Entry) -> None:
        """Have the candidate imported and built; raises CellError with what it raised."""
        assert self.candidate is not None
        self._is_new = True
        self.process.give_files(self.candidate)
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
        hidden_from: int | None = None,
    ) -> None:
        """Give inputs to the process, a list of arguments for each slot; behind these come `copies`, see `Inputs`.

        From the slot `hidden_from` on there are numbers only when the next timed run begins, where that `is_exact`. `margin`
        is the byte between and around tensors. With `keep` the tensors are the same objects in the same memory
        as before, if their shapes are, with new contents; of arguments at the places `versioned` these have new versions.
        """
        described, spans, end, shown = [], [], 0, 0
        hidden_from = hidden_from if hidden_from is not None and self.is_exact else len(slots)
        for number, slot in enumerate(slots):
            one, of_one, end = describe(slot, end)
            described.append(one)
            spans += of_one
            shown = end if number < hidden_from else shown
        self._loaded, self._is_hidden = Image(spans, end, margin), shown < end
        staging = self._areas.staging(end)
        self._is_staged = staging is not None
        if staging is not None:
            self._areas.count_staged("inputs", end)
            staging.put(self._image, keep=keep, leave=len(slots) > 1)
        else:
            self._write(shown)
        copied = sum(bytes_of(list(slots[source])) for source, _ in copies)
        self.process.copied_bytes = max(self.process.copied_bytes, copied)
        message: dict[str, Any] = {"slots": described, "size": end, "keep": keep, "versioned": list(versioned)}
        self.process.ask("load", self.limits.call_s, **message, copies=list(copies), is_staged=self._is_staged)

    @property
    def _image(self) -> Image:
        assert self._loaded is not None
        return self._loaded

    def _write(self, shown: int) -> None:
        """Write the inputs to the memory that both processes have; those behind the bytes that are shown come later."""
        self._bytes = torch.empty(self._image.size, dtype=torch.uint8)
        self._image.write(self._bytes)
        area = self._areas.named("inputs", self._image.size)
        area.bytes[:shown].copy_(self._bytes[:shown])
        area.bytes[shown : self._image.size].fill_(self._image.margin)

    def run(
        self,
        order: Sequence[int],
        gradients: Mapping[str, Any] | None = None,
        *,
        is_watched: bool = False,
        is_lead_in: bool = False,
        is_aside: bool = False,
        is_timed: bool = False,
    ) -> Batch:
        """Make a batch of calls, one for each slot in the order, and return the time that it took here.

        Where it `is_timed` and that `is_exact`, the process stands still until the clock runs, and from the answer on until
        it is asked again; hidden inputs are written just before. What more threads than it has been given did is added.

        Where it `is_watched`, inputs arrive late on a GPU, and copies of the last call's results are made behind it on
        the current stream (see `give`). Those of a lead-in are dropped before the answer. Those of calls aside are, too, and
        the results of the batch before stay.
        """
        # Of many calls at once the candidate is known not to be slow (see `Trial.slowest_s`).
        patience_s = self.limits.call_s * min(len(order), _MOST_PATIENCE)
        if self._is_new:
            # Triton, torch.compile and others build at the first call.
            patience_s = max(patience_s, self.limits.load_s)
            self._is_new = False
        message: dict[str, Any] = {"order": list(order), "gradients": gradients}
        message |= {"is_watched": is_watched, "is_lead_in": is_lead_in, "is_aside": is_aside}
        if self.device == "cuda":
            self.process.ask("prepare", self.limits.call_s)
        is_exact = is_timed and self.is_exact
        if is_exact:
            self.process.stand_still()
            self._show_hidden()
            self.process.hold_still()
            message["read_bytes"] = self._image.size
        begun = time.perf_counter()
        found = self.process.ask("run", patience_s, **message)
        wall_s, shared_s = time.perf_counter() - begun, 0.0
        if is_exact:
            self.process.stand_still()
            shared_s = max(0.0, self.process.standstill.used_s / self.limits.threads - (time.perf_counter() - begun))
            self._hold_to_reading(found)
        if self.device == "cuda":  # memory that is given back soon is seen by the allocator's limit alone
            self.process.hold_to_limits()
        missing = found.get("not_differentiable", [])
        lacking = tuple(one for one in missing if isinstance(one, int)) if isinstance(missing, list) else ()
        charge = charge_of(found, Refusal.RAISED) or charge_of_cache(found)
        return Batch(wall_s + shared_s, charge, lacking, found.get("places"), shared_s)

    def _show_hidden(self) -> None:
        used = self._image.size
        if self._is_hidden:
            self._areas.named("inputs", used).bytes[:used].copy_(self._bytes)
            self._is_hidden = False

    def _hold_to_reading(self, found: Mapping[str, Any]) -> None:
        """Raise CellError where the process has not read the inputs in the time of the calls, which is taken off."""
        if "error" not in found and found.get("read") != sum_of_words(self._bytes):
            text = "its process does not read its inputs before the calls"
            raise CellError(Charge(Refusal.REACHES_OUTSIDE, text))

    def seen(self, done: Batch, number: int, like: Sequence[Tensor]) -> list[Tensor] | None:
        """Return the results of a call of an exact batch as they lie in the process's memory, which stands still.

        They are read as tensors of the shapes and types of `like`; None where there are no such results. Raises SpreadError
        for what is not read.
        """
        memory = self.process.memory
        try:
            places = [place_in(one) for one in done.places[number]]
            if memory is None or len(places) != len(like):
                return None
            return [memory.tensor(at, strides, one) for (at, strides), one in zip(places, like, strict=True)]
        except (TypeError, ValueError, LookupError, OSError):
            return None

    def soil(self, byte: int) -> None:
        """Fill freed memory of the sizes of the last results, which the next ones may get, with a byte."""
        self.process.ask("soil", self.limits.call_s, byte=byte)

    def write_over_results(self) -> None:
        """Have the process change the results of the last batch in its memory, as a caller may who owns them."""
        self.process.ask("write_over", self.limits.call_s)

    def give(self, which: Sequence[int], *, is_snapshot: bool = False) -> list[list[Returned | None]]:
        """Return the results of some calls of the last batch, as copies on the device; None where a gradient is None.

        With `is_snapshot` they are copies that the last call's were given at once.
        """
        message: dict[str, Any] = {"which": list(which), "is_snapshot": is_snapshot}
        memory: Shared = self._areas.named("results", _LEAST_BYTES)
        found = self.process.ask("give", self.limits.call_s, **message)
        needs = found.get("needs")
        if type(needs) is int:
            memory = self._areas.for_results(needs, self.limits.memory_bytes)
            is_staged = isinstance(memory, StagedResults)
            found = self.process.ask("give", self.limits.call_s, **message, is_staged=is_staged)
        if (charge := charge_of(found, Refusal.RAISED)) is not None:
            raise CellError(charge)
        return returned(found.get("results"), memory, len(which), self.device)

    def caught(self) -> tuple[Sign, ...]:
        """Make one call with the first slot, and return a sign for each exception that the candidate catches in it."""
        return signs_in(self.process.ask("catch", self.limits.call_s, slot=0))

    def changed_files(self) -> list[str]:
        """Return the names of the candidate's files that are not as they were copied."""
        assert self.candidate is not None
        folder = self.process.folder / "candidate"
        return [name for name, content in self.candidate.files.items() if differs(folder / name, content)]

    def changed_inputs(self) -> str:
        """Return what the calls have changed of the inputs since `load`: "", "inputs" or "margins"."""
        if self._is_staged and (staging := self._areas.staging(self._image.size)) is not None:
            return staging.changed(self._image)
        if self.device != "cpu":  # whose memory is another
            self.process.ask("back", self.limits.call_s)
        now = self._areas.named("inputs", self._image.size).bytes[: self._image.size]
        return "" if torch.equal(now, self._bytes) else self._image.changed_part(now != self._bytes)

    def overwrite_inputs(self) -> None:
        """Change every byte of the inputs where an exact candidate has them, until others are loaded."""
        self._areas.named("inputs", self._image.size).bytes[: self._image.size].bitwise_not_()

    def release_inputs(self) -> None:
        """Hold large inputs no more, which are not asked about again: there may be no room for the next ones beside them."""
        if self._is_staged:
            self._loaded = None

    def kill(self) -> None:
        """End the process and all that it has started."""
        self.process.kill()

    def close(self) -> None:
        """End the process and remove its files."""
        self.process.close()
        self._areas.close()
