"""Makes the calls of a candidate, in its own process: loads inputs, runs a batch, gives results back as plain tensors."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opsmith.judging.candidate import Entry
from opsmith.judging.inside.caught import caught_in
from opsmith.judging.inside.devices import Device, device_named
from opsmith.judging.inside.opening import OpeningError, open_candidate
from opsmith.judging.inside.results import Flat, description, listed, oddness, place_of, resolved
from opsmith.judging.inside.soiling import sizes_of, soil, write_over
from opsmith.judging.memory import Area, Parts, view_of
from opsmith.judging.scaled import bytes_of, scaled

__all__ = ["Calls"]

# Bound before a candidate is imported.
_copy, _clone, _detach, _contiguous, _empty = Tensor.copy_, Tensor.clone, Tensor.detach, Tensor.contiguous, torch.empty
_storage_of, _requires_grad_ = Tensor.untyped_storage, Tensor.requires_grad_
_pointer = Tensor.data_ptr
_storage_pointer, _storage_bytes = torch.UntypedStorage.data_ptr, torch.UntypedStorage.nbytes
_backward = torch.autograd.backward
_gradient_of = vars(torch._C.TensorBase)["grad"].__get__
_Tensor = torch.Tensor
_uint8 = torch.uint8
_collect_no_more, _collect_again = gc.disable, gc.enable
_increment_version = torch.autograd.graph.increment_version
_ALIGNMENT, _MOST_SLOTS = 64, 512


class Calls:
    """The candidate, the slots that hold inputs, and the results of the last batch."""

    def __init__(self, device: str, gpu_bytes: int) -> None:
        self.device: Device = device_named(device, gpu_bytes)
        self.function: Callable[[Sequence[Any]], Any] | None = None
        self.slots: list[list[Any]] = []
        self.descriptions: Any = None
        self.first_version = 0
        self.results: list[Any] = []
        self.last: list[Any] = []
        self.snapshots: list[Any] = []
        self.given: list[tuple[int, Tensor]] = []
        self.areas: dict[str, Area] = {}
        self.folder = ""

    def open(self, path: str, entry: dict[str, Any]) -> dict[str, Any]:
        """Open a candidate; without a path, a function that returns its first argument."""
        if not path:
            self.function = lambda values: values[0]
            return {}
        self.folder = str(Path(path).parent)
        known = {**entry, "names": tuple(entry["names"]), "parameters": tuple(entry["parameters"])}
        known |= {"outputs": tuple((tuple(shape), dtype) for shape, dtype in entry["outputs"])}
        self.function = open_candidate(Path(path), Entry(**known), self.device.name)
        return {}

    def map(self, descriptor: int, name: str, size: int) -> dict[str, Any]:
        """Map a piece of the judge's memory, for inputs or for results, in the place of the one before."""
        if name in self.areas:
            self.areas[name].close()
        self.areas[name] = Area(size, descriptor)
        return {}

    def load(
        self,
        slots: list[list[Any]],
        size: int,
        keep: bool,
        versioned: list[int],
        copies: list[tuple[int, float]],
        is_staged: bool = False,
    ) -> dict[str, Any]:
        """Take new contents for the slots; with `keep` the tensors stay the same objects at the same place.

        Only arguments at the places `versioned` tell it by a new version, as they do when PyTorch writes to them.
        Behind the slots come copies of some of them, each by a factor. The contents are the first `size` bytes of the area
        for them, or are on the device already where they are staged.
        """
        memory: Parts
        if is_staged:
            assert self.device.held is not None
            memory = self.device.held
        else:
            self.forget()
            area = self.areas["inputs"]
            memory = self.device.mirror(area, size, keep, leave=len(slots) > 1)
        made, behind = self.slots[: len(slots)], self.slots[len(slots) :]
        if keep and slots == self.descriptions and len(behind) == len(copies):
            for tensor in _tensors([[slot[place] for place in versioned] for slot in made]):
                _increment_version(tensor)
        else:
            self.slots, behind = [], []
            made = [[view_of(one, memory, self.device.name) for one in slot] for slot in slots]
            self.descriptions = slots
            # Other numbers in each slot, and than before: what is packed of weights may be known by their version alone.
            self.first_version = _MOST_SLOTS - self.first_version
            for number, slot in enumerate(made, self.first_version):
                _increment_version(_tensors([slot[place] for place in versioned]) * number)
        self.device.make_room(size + sum(bytes_of(made[source]) for source, _ in copies))
        self.slots = made + [
            scaled(made[source], factor, behind[number] if behind else None)
            for number, (source, factor) in enumerate(copies)
        ]
        if not is_staged:
            self.device.touch(area)
        self.device.wait()
        return {}

    def forget(self) -> None:
        """Drop the results of the last batch; those of its last call go when their memory is soiled."""
        self.last, self.results, self.snapshots, self.given = self.results[-1:], [], [], []

    def prepare(self) -> dict[str, Any]:
        """Bring the device into the state in which calls are timed."""
        self.device.before_calls()
        return {}

    def run(
        self,
        order: list[int],
        gradients: dict[str, Any] | None = None,
        is_watched: bool = False,
        is_lead_in: bool = False,
        is_aside: bool = False,
        read_bytes: int | None = None,
    ) -> dict[str, Any]:
        """Call the candidate once for each slot of an order and keep what it returns.

        With `read_bytes` so much of the inputs is read before, as they have just been written, and the answer says where
        results lie.

        One that is watched gets inputs that arrive late, and copies of its results are ordered at once, behind the call
        on the current stream: work that is done elsewhere or later is not in them. Results of a lead-in are dropped, and so
        are those of calls aside, of which the ones before are kept.
        """
        if self.function is None:
            raise OpeningError("no candidate is open")
        if gradients is not None:
            return self._differentiated(order[0], **gradients)
        function, slots = self.function, self.slots
        kept: list[Any] = []
        self.given = []
        _collect_no_more()
        keep = kept.append
        told: dict[str, Any] = {}
        try:
            if read_bytes is not None:
                told["read"] = self.device.touch(self.areas["inputs"], read_bytes)
            with torch.no_grad():
                if is_watched:
                    self.device.arrive_late()
                    for slot in order:
                        keep(function(slots[slot]))
                        self.snapshots = [_clone(one) if not oddness(one) else one for one in listed(kept[-1])]
                else:
                    for slot in order:
                        keep(function(slots[slot]))
            self.device.wait()
            if read_bytes is not None:
                kept = [Flat(map(self._resolved, listed(result))) for result in kept]
                told["places"] = [list(map(place_of, results)) for results in kept]
        finally:
            _collect_again()
        if not is_aside:
            self.results = [] if is_lead_in else kept
        return {"set_aside": self.device.set_aside_bytes(), **told}

    def catch(self, slot: int) -> dict[str, Any]:
        """Make one call and tell the exceptions that the candidate catches in it."""
        function = self.function
        assert function is not None
        with torch.no_grad():
            result, caught = caught_in(lambda: function(self.slots[slot]), self.folder)
        self.device.wait()
        self.results = [result]
        return {"caught": caught}

    def _differentiated(self, slot: int, leaves: list[list[int]], wanted: list[int], arriving: int) -> dict[str, Any]:
        """Call the candidate for gradients of some arguments through some results; these are the results then.

        `leaves` are places of arguments, with that in a list where they stand in one. The gradients of the results are
        the tensors of the slot `arriving`.
        """
        assert self.function is not None
        values = [list(one) if isinstance(one, list) else one for one in self.slots[slot]]
        given: list[Any] = []
        for index, *inside in leaves:
            holder: Any = values[index] if inside else values
            place = inside[0] if inside else index
            holder[place] = _requires_grad_(_detach(holder[place]))
            given.append(holder[place])
        with torch.enable_grad():
            found = listed(self.function(values))
            outputs: Any = [found[index] for index in wanted]
            if lost := [index for index, one in zip(wanted, outputs, strict=True) if not one.requires_grad]:
                return {"not_differentiable": lost}
            _backward(outputs, self.slots[arriving])
        self.device.wait()
        self.results = [Flat(_gradient_of(one) for one in given)]
        return {}

    def give(self, which: list[int], is_snapshot: bool = False, is_staged: bool = False) -> dict[str, Any]:
        """Write results of the last batch into the area for them and describe them, or the copies of its last call.

        Those that are staged are described as if there were room, and the judge asks for their bytes.
        """
        area = self.areas["results"]
        self.given = []
        at, found = 0, []
        for number in which:
            described: list[Any] = []
            for found_one in self.snapshots if is_snapshot else listed(self.results[number]):
                result = self._resolved(found_one)
                if result is None:
                    described.append(None)
                    continue
                odd = oddness(result)
                if odd:
                    described.append({"odd": odd})
                    continue
                plain = _detach(result)
                if plain.device.type != self.device.name:
                    described.append({"odd": f"a tensor on {plain.device.type}"})
                    continue
                count = plain.numel()
                size = count * plain.element_size()
                if is_staged:
                    self.given.append((at, plain))
                elif at + size > area.size:
                    return {"needs": self._needed(which)}
                elif count:
                    _copy(area.part(at, count, plain.dtype), _contiguous(plain).reshape(-1))
                described.append(description(plain, at, self._shared_argument(plain) if count else []))
                at = -(-(at + size) // _ALIGNMENT) * _ALIGNMENT
            found.append(described)
        self.device.wait()
        return {"results": found}

    def soil(self, byte: int) -> dict[str, Any]:
        """Fill freed memory of the sizes of the last results with a byte."""
        sizes = sizes_of(self.last)
        # Now: the memory of the last results is what the next ones get first.
        self.last = []
        soil(sizes, byte, self.device.name)
        return {}

    def write_over(self) -> dict[str, Any]:
        """Change the results of the last batch, but for those that lie in an argument, as a caller may who owns them."""
        for found in self.results:
            for one in listed(found):
                result = self._resolved(one)
                if result is not None and not oddness(result) and not self._shared_argument(_detach(result)):
                    write_over(_detach(result))
        self.device.wait()
        return {}

    def back(self) -> dict[str, Any]:
        """Write the inputs as they are now into their area, margins included."""
        self.device.write_back(self.areas["inputs"])
        return {}

    def _needed(self, which: list[int]) -> int:
        """Return how many bytes results take."""
        return sum(
            -(-bytes_of(one) // _ALIGNMENT) * _ALIGNMENT
            for number in which
            for one in map(self._resolved, listed(self.results[number]))
            if not oddness(one)
        )

    def _resolved(self, result: Any) -> Any:
        return resolved(result, self.device.name)

    def _shared_argument(self, result: Tensor) -> list[int]:
        """Return the arguments, by slot and position, whose memory a result lies in."""
        try:
            mine = _pointer(result)
        except Exception:
            return []
        for number, slot in enumerate(self.slots):
            for index, value in enumerate(slot):
                if isinstance(value, _Tensor) and value.numel():
                    storage = _storage_of(value)
                    begin = _storage_pointer(storage)
                    if begin <= mine < begin + _storage_bytes(storage):
                        return [number, index]
        return []


def _tensors(value: Any) -> list[Tensor]:
    inside = [one for item in value for one in _tensors(item)] if isinstance(value, list) else []
    return [value] if isinstance(value, Tensor) else inside
