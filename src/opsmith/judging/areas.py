"""Owns the memory that the judge shares with a candidate's process: the host's, and for what is large on a GPU the GPU's."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from opsmith.checker.memory.available import available_memory_bytes
from opsmith.judging.answers import CellError, charge_of
from opsmith.judging.candidate_process import CandidateProcess
from opsmith.judging.gpu_area import Passage, new_gpu_area
from opsmith.judging.memory import Area, Shared
from opsmith.judging.refusals import Refusal
from opsmith.judging.result import Charge
from opsmith.judging.staging import Staging

__all__ = ["Areas"]

_log = logging.getLogger("opsmith.judging")
# With less there is little to gain: each piece takes a message, and a wait on both sides.
_STAGED_FROM_BYTES = 16 << 20
# Results that do not go by a GPU's memory are held so often.
_TIMES_RESULTS = 3


class Areas:
    """The memory for inputs and for results of one candidate's process."""

    def __init__(
        self, process: CandidateProcess, patience_s: float, new_passage: Callable[[], Passage | None] | None
    ) -> None:
        """Share nothing yet; `new_passage` makes memory of a GPU that both have, or returns None where it cannot."""
        self._process, self._patience_s, self._new_passage = process, patience_s, new_passage
        self._named: dict[str, Area] = {}
        self._staging: Staging | None = None
        self._staged_bytes: dict[str, int] = {}

    @classmethod
    def on(cls, device: str, process: CandidateProcess, patience_s: float) -> Areas:
        """Return those for a device."""
        return cls(process, patience_s, new_gpu_area if device == "cuda" else None)

    def named(self, name: str, size: int) -> Area:
        """Return the host's memory of a name, as large as it must be at least."""
        area = self._named.get(name)
        if area is None or area.size < size:
            if area is not None:
                area.close()
            area = self._named[name] = Area(max(size + size // 4, 1 << 16))
            self._process.shared_bytes = sum(one.size for one in self._named.values())
            self._process.shared_files = {one.file for one in self._named.values()}
            self._process.ask("map", self._patience_s, (area.descriptor,), name=name, size=area.size)
        return area

    def staging(self, nbytes: int) -> Staging | None:
        """Return the GPU's memory for so many bytes to go through; None for few, and where it cannot be shared."""
        if nbytes < _STAGED_FROM_BYTES:
            return None
        if self._staging is None and self._new_passage is not None:
            self._staging = self._shared(self._new_passage())
            if self._staging is None:
                self._new_passage = None  # it is not tried again
        return self._staging

    def for_results(self, needs: int, most_bytes: int) -> Shared:
        """Return memory for results of so many bytes; raises CellError for more than there is, or `most_bytes`."""
        staging = self.staging(needs)
        if staging is not None:
            most = staging.room_bytes()
        else:  # they are copied, and lie in memory twice
            most = min(most_bytes, (available_memory_bytes("cpu") or 1 << 62) // _TIMES_RESULTS)
        if not 0 < needs <= most:
            text = f"its results take {needs / 2**20:.1f} MiB, and may take {most / 2**20:.1f} (--memory-gib)"
            raise CellError(Charge(Refusal.OVER_MEMORY, text))
        if staging is None:
            return self.named("results", needs + 4096)
        self.count_staged("results", needs)
        return staging.results(needs)

    def count_staged(self, name: str, nbytes: int) -> None:
        """Let the process have so many bytes of a GPU for the inputs or results that it is given or gives."""
        self._staged_bytes[name] = max(nbytes, self._staged_bytes.get(name, 0))
        self._process.staged_bytes = sum(self._staged_bytes.values())

    def close(self) -> None:
        """Give all of it back."""
        for area in self._named.values():
            area.close()
        if self._staging is not None:
            self._staging.close()

    def _shared(self, passage: Passage | None) -> Staging | None:
        if passage is None:
            return None
        self._process.passage_bytes = passage.size
        try:
            self._ask("share", (passage.descriptor,), size=passage.size)
        except CellError as error:
            _log.debug("tensors cross by the host's memory: %s", error)
            self._process.passage_bytes = 0
            passage.close()
            if not self._process.is_alive:
                raise
            return None
        return Staging(passage, self._ask)

    def _ask(self, do: str, descriptors: tuple[int, ...] = (), **more: Any) -> dict[str, Any]:
        found = self._process.ask(do, self._patience_s, descriptors, **more)
        if (charge := charge_of(found, Refusal.RAISED)) is not None:
            raise CellError(charge)
        return found
