"""Serves a candidate's process on the device it is judged on: the CPU's part, and the choice of a GPU's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from opsmith.judging.inside.mirror import Mirror
from opsmith.judging.memory import Area, Parts, sum_of_words

__all__ = ["Cpu", "Device", "device_named"]


class Device(Protocol):
    """A device in a candidate's process; it has a mirror where inputs are not used where the judge writes them."""

    name: str

    @property
    def held(self) -> Mirror | None:
        """The mirror."""
        ...

    def mirror(self, area: Area, size: int, keep: bool, leave: bool) -> Parts:
        """Return the area's first `size` bytes on the device, where `keep` and `leave` say (see `Mirror.place`)."""
        ...

    def place(self, size: int, keep: bool, leave: bool) -> None:
        """Have memory in the mirror for inputs that are copied there from elsewhere."""
        ...

    def make_room(self, inputs_bytes: int) -> None:
        """Let the candidate have its memory beside inputs of that size."""
        ...

    def write_back(self, area: Area) -> None:
        """Copy what is on the device now into the area, where it came from."""
        ...

    def touch(self, area: Area, nbytes: int | None = None) -> int:
        """Read the inputs once, as one who has made them has: those in the first bytes, all by default.

        Return what shows that: the sum of their words (see `memory.sum_of_words`), or 0 where they lie elsewhere.
        """
        ...

    def before_calls(self) -> None:
        """Bring the device into the state in which calls are made."""
        ...

    def stay_ready(self, is_over: Callable[[], bool]) -> None:
        """Keep the device in that state until it `is_over`, or for some time."""
        ...

    def arrive_late(self) -> None:
        """Have the inputs come when the current stream gets there, some time after the call."""
        ...

    def wait(self) -> None:
        """Wait for everything that is queued, on every stream."""
        ...

    def set_aside_bytes(self) -> int:
        """Return how much of the cache calls have set aside since `before_calls`."""
        ...


class Cpu:
    """The CPU, where inputs are used where they are."""

    name = "cpu"
    held: Mirror | None = None

    def mirror(self, area: Area, size: int, keep: bool, leave: bool) -> Parts:
        """Return the area itself."""
        return area

    def place(self, size: int, keep: bool, leave: bool) -> None:
        """Do nothing: there is no mirror."""

    def make_room(self, inputs_bytes: int) -> None:
        """Do nothing: the judge watches the process's memory."""

    def write_back(self, area: Area) -> None:
        """Do nothing: it is the memory that the candidate has seen."""

    def touch(self, area: Area, nbytes: int | None = None) -> int:
        """Read the area: another process has written it, and its pages and lines are not here yet."""
        return sum_of_words(area.bytes if nbytes is None else area.bytes[:nbytes])

    def before_calls(self) -> None:
        """Do nothing."""

    def stay_ready(self, is_over: Callable[[], bool]) -> None:
        """Do nothing: what waits for a message takes no processor from others."""

    def arrive_late(self) -> None:
        """Do nothing."""

    def wait(self) -> None:
        """Do nothing: calls of the CPU are over when they return."""

    def set_aside_bytes(self) -> int:
        """Return 0: nothing of a CPU's cache can be set aside from here."""
        return 0


def device_named(name: str, gpu_bytes: int) -> Device:
    """Return the device, on which a candidate may take so much memory; that of a GPU is imported there alone."""
    if name == "cpu":
        return Cpu()
    from opsmith.judging.inside.devices_cuda import Cuda

    return Cuda(gpu_bytes)
