"""Lists the tasks of a check: each property of each device, in a column for each element type or once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opsmith.checker.process.schedule import Task
from opsmith.checker.properties.table import Property
from opsmith.checker.report import Column
from opsmith.errors import ArgumentError
from opsmith.subject.subject import Subject

__all__ = ["tasks_of"]

_ORDER = {name: index for index, name in enumerate(("float64", "float32", "float16", "bfloat16"))}


def tasks_of(subject: Subject, properties: Iterable[Property], dtypes: tuple[str, ...]) -> list[Task]:
    """Return the tasks of a check in the order of its report: properties of a device, each in its columns.

    `dtypes` selects element types, all by default; raises ArgumentError if the operator has none of them.
    """
    tasks: list[Task] = []
    for device in subject.devices:
        columns = _columns(subject, device, dtypes)
        for item in properties:
            if device in item.devices:
                chosen = columns if item.per == "dtype" else columns[:1]
                tasks += [
                    Task(item, column if item.per == "dtype" else Column(device, ""), types) for column, types in chosen
                ]
    return tasks


def _columns(subject: Subject, device: str, wanted: tuple[str, ...]) -> list[tuple[Column, Mapping[str, str]]]:
    """Return the columns of a device with their element types: one for each floating type, the others as they come.

    Where integer tensors have a choice of their own, its types take turns.
    """
    by_name: dict[str, Mapping[str, str]] = {}
    turn: dict[str, int] = {}
    for dtypes in subject.dtypes:
        name = dtypes.get("T") or next(iter(dtypes.values()), "")
        if name in by_name:
            turn[name] = turn.get(name, 0) + 1
            if turn[name] % 2 == len(by_name) % 2:
                by_name[name] = dtypes
        else:
            by_name[name] = dtypes
    # float64 first: gradcheck and the plainest failures are there, and a reader begins at the left.
    ordered = sorted(by_name.items(), key=lambda pair: _ORDER.get(pair[0], len(_ORDER)))
    found = [(Column(device, name), dtypes) for name, dtypes in ordered if not wanted or name in ("", *wanted)]
    if by_name and not found:
        raise ArgumentError(f"{subject.name} is not checked in {', '.join(wanted)}, only in {', '.join(by_name)}")
    return found or [(Column(device, ""), {})]
