"""Lists all entries of the catalogue, in the order in which they are tried."""

from __future__ import annotations

from opsmith.catalogue import (
    compiler,
    cuda,
    gpu,
    headers,
    linker,
    loader,
    machine,
    registration,
    symbols,
    torch_build,
    triton,
)
from opsmith.catalogue.entry import Entry, Group

__all__ = ["ENTRIES", "GROUPS"]

GROUPS: tuple[Group, ...] = (
    Group("The machine runs out of resources", machine.ENTRIES),
    Group("A library does not load", (*symbols.ENTRIES, *loader.ENTRIES)),
    Group("A header is missing, or the compiler rejects the code", (*headers.ENTRIES, *compiler.ENTRIES)),
    Group("nvcc refuses", cuda.ENTRIES),
    Group("Triton refuses", triton.ENTRIES),
    Group("The linker fails", linker.ENTRIES),
    Group("Operators and classes are registered twice", registration.ENTRIES),
    Group("A kernel does not run", gpu.ENTRIES),
    Group("torch.utils.cpp_extension and pip fail", torch_build.ENTRIES),
)

ENTRIES: tuple[Entry, ...] = tuple(entry for group in GROUPS for entry in group.entries)
