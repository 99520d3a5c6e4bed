"""Builds the bridge with this machine's compiler, against the torch that is installed or lies unpacked on the path.

Nothing here imports torch: `packaging/opsmith-bridge` builds it for torches of which there are only headers and libraries.
"""

from __future__ import annotations

import sysconfig
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from opsmith.store.keys import digest, digest_file

if TYPE_CHECKING:
    from opsmith.build.plan import Plan
    from opsmith.build.watcher import Watcher
    from opsmith.store import Artifact, Store

__all__ = ["NAME", "compile_bridge", "is_free_threaded", "sources_digest"]

NAME = "opsmith_bridge"
_FOLDER = Path(__file__).resolve().parent.parent / "bridge"
# Python 3.10's limited API: the library does not depend on the version of Python.
_LIMITED_API = "0x030A0000"
# Only compiled: it holds against torch's headers what the others declare of it.
_COMPARES = "agreement.cpp"


def sources_digest() -> str:
    """Return a digest of the bridge's sources, which is also one of its interface to Python."""
    return digest(*(digest_file(file) for file in sorted(_FOLDER.iterdir()) if file.suffix in (".cpp", ".h")))


def is_free_threaded() -> bool:
    """Tell whether this Python has no GIL, and with that no limited API."""
    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def compile_bridge(store: Store, watcher: Watcher | None = None) -> Artifact:
    """Return the bridge for the torch that `import torch` would give, from the store or built now.

    Raises CompileError, also where torch's headers contradict what the bridge declares of it, ToolchainError or StoreError.
    """
    from opsmith.build.artifact import obtain_artifact
    from opsmith.build.existing import assemble_sources, file_sources, prepare_existing
    from opsmith.toolchain import find_host_compiler, find_python_headers, find_torch

    # What takes the time is PyTorch's headers: -O1 gives calls that are as fast, and gcc need not tidy up its memory,
    # which stays below a gigabyte for each file.
    flags = ["-O1", *(["--param", "ggc-min-heapsize=1000000"] if find_host_compiler().kind == "gcc" else [])]
    flags.append(f"-ffile-prefix-map={find_torch().root}=torch")  # PyTorch's headers name their files in error texts
    extension = assemble_sources(
        NAME,
        file_sources(sorted(_FOLDER.glob("*.cpp"))),
        library=f"{NAME}{find_python_headers().extension_suffix if is_free_threaded() else '.abi3.so'}",
        cxx_flags=flags,
        link_flags=["-ltorch_python"],
        limited_api=None if is_free_threaded() else _LIMITED_API,
    )
    prepared = prepare_existing(extension)
    plan = _without_object(prepared.plan, f"{_COMPARES}.o")
    return obtain_artifact(plan, prepared.toolchain, prepared.target, store, watcher=watcher)


def _without_object(plan: Plan, name: str) -> Plan:
    """Return a plan that still makes an object, and does not link it."""
    *compiling, link = plan.steps
    return replace(plan, steps=(*compiling, replace(link, argv=tuple(word for word in link.argv if word != name))))
