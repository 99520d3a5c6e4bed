"""Times the parts of a call inside the binding, in a twin of the operator that is built with clocks between them.

The same definition and the same kernel sources are compiled with a binding that reads the processor's counter after each
part (include/opsmith/timed.h), and registered as every operator is, but in a namespace of its own, so that the operator
and its timed twin are in one process.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opsmith.build.artifact import obtain_artifact
from opsmith.build.prepare import prepare
from opsmith.runtime.load import load_library
from opsmith.runtime.operator import Operator
from opsmith.runtime.register import register_kernels, register_rules
from opsmith.runtime.torch_ops import overload_of
from opsmith.spec.definition import Definition, Device, Group
from opsmith.store import Store, default_root

__all__ = ["PARTS", "TimedTwin", "build_twin"]

# As in include/opsmith/timed.h, without the first, which is what a reading of the counter takes.
PARTS = ("arguments", "outputs", "copies", "kernel", "results")


class _Totals(ctypes.Structure):
    _fields_ = (("calls", ctypes.c_uint64), ("ticks", ctypes.c_uint64 * (1 + len(PARTS))))


@dataclass(frozen=True)
class TimedTwin:
    """An operator, and its backward where that has a kernel, whose bindings have clocks; `library` has their kernels."""

    operator: Operator
    gradient: Operator | None
    library: Path
    _totals: Any
    _ticks: Callable[[], int]

    def read(self, run: Callable[[], Any]) -> dict[str, float]:
        """Return the seconds of each part of a call, from the calls that `run` makes.

        `inside` is the time between the first reading of the counter and the last, and `readings` what all of them take;
        a single reading is subtracted from each part. What a binding does not do is left out: a native kernel allocates
        for itself. Raises RuntimeError if `run` makes no call.
        """
        ctypes.memset(ctypes.addressof(self._totals), 0, ctypes.sizeof(_Totals))
        started, begin = time.perf_counter(), self._ticks()
        run()
        rate = (time.perf_counter() - started) / max(1, self._ticks() - begin)
        if not self._totals.calls:
            raise RuntimeError(f"{self.operator.definition.qualified_name} was not called")
        reading, *parts = (ticks * rate / self._totals.calls for ticks in self._totals.ticks)
        found = {name: part - reading for name, part in zip(PARTS, parts, strict=True) if part}
        return {**found, "inside": reading + sum(parts), "readings": (1 + len(found)) * reading}


# Twins stay loaded as long as the process: PyTorch does not take an operator of the same name a second time.
_twins: dict[tuple[int, Device], TimedTwin] = {}


def build_twin(definition: Definition, device: Device) -> TimedTwin | None:
    """Return the timed twin of an operator, built where the store has none; None if it has no kernel for a device.

    Raises CompileError, ToolchainError or StoreError.
    """
    key = (id(definition), device)
    if key not in _twins:
        earlier = sum(twin.operator.definition.name == definition.name for twin in _twins.values())
        pair = _renamed(definition, device, f"{definition.namespace}_timed{earlier or ''}")
        compiled = [one for one in pair if one is not None and one.kernels]
        if not compiled:
            return None
        _twins[key] = _build(*pair, compiled)
    return _twins[key]


def _renamed(definition: Definition, device: Device, namespace: str) -> tuple[Definition, Definition | None]:
    """Return a definition and its backward, in another namespace and for one device."""

    def rename(one: Definition, **changes: Any) -> Definition:
        kernels = {known: kernel for known, kernel in one.kernels.items() if known == device}
        return replace(one, namespace=namespace, kernels=kernels, **changes)

    backward = rename(definition.backward) if definition.backward is not None else None
    return rename(definition, backward=backward), backward


def _build(definition: Definition, backward: Definition | None, compiled: list[Definition]) -> TimedTwin:
    group = Group(definition.module, definition.file, tuple(compiled))
    devices = tuple(dict.fromkeys(device for one in compiled for device in one.kernels))
    prepared = prepare(group, devices, strict=True, timed=True)
    artifact = obtain_artifact(prepared.plan, prepared.toolchain, prepared.target, Store(default_root()))
    load_library(artifact.library, compiled)
    pair = [one for one in (definition, backward) if one is not None]
    for one in pair:
        register_kernels(one, is_defined=bool(one.kernels), missing={})
    for one in pair:
        register_rules(one)
    operators = [Operator(one) for one in pair]
    for operator in operators:
        operator.attach(overload_of(operator.definition.qualified_name))
    library = ctypes.CDLL(str(artifact.library))  # the same that is loaded already
    library.opsmith_timed_totals.restype = ctypes.POINTER(_Totals)
    library.opsmith_timed_ticks.restype = ctypes.c_uint64
    gradient = operators[1] if backward is not None and backward.kernels else None
    totals = library.opsmith_timed_totals().contents
    return TimedTwin(operators[0], gradient, artifact.library, totals, library.opsmith_timed_ticks)
