"""Whether the last answer still holds: which artefact a module's operators had, if nothing that decides it has changed.

A plan needs the toolchain, the code generator and the planner, and importing those takes longer than all else about
loading a finished operator. What a plan depends on is soon compared, though: the definitions, opsmith's own files, the
environment, the compilers, torch, the GPUs, and the user's sources. Where all are as they were, the source key is as it
was, and the store finds the artefact by that key and by the headers as they are now. Where anything differs, or the note
is damaged, there is no shortcut and nothing is lost.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from opsmith import _env
from opsmith._version import __version__
from opsmith.spec.definition import Definition, Device
from opsmith.spec.interface import interface_digest
from opsmith.store import Artifact, Store, digest, digest_file, source_key

__all__ = ["find_by_shortcut", "note_shortcut"]

_FORMAT_VERSION = 1
_PACKAGE = Path(__file__).resolve().parent.parent
# The folders whose code decides what a plan is.
_DECIDING = ("spec", "codegen", "build", "toolchain")
# The programs that are looked for on PATH. Another one found there is another toolchain.
_PROGRAMS = ("c++", "g++", "clang++", "nvcc", "hipcc", "ccache", "sccache")
# Variables that decide where and how a build is made, but not what.
_HARMLESS = frozenset(
    {"OPSMITH_CACHE_DIR", "OPSMITH_BRIDGE", "OPSMITH_JOBS", "MAX_JOBS", "OPSMITH_QUIET", "OPSMITH_VERBOSE", "NO_COLOR"}
    | {"OPSMITH_CACHE_SIZE", "OPSMITH_CACHE_TRUST", "OPSMITH_CONFIG_DIR", "OPSMITH_STORE", "OPSMITH_SIGNING_KEY"}
    | {"OPSMITH_RUN_REPORT", "OPSMITH_RUN_PATH"}
)


def find_by_shortcut(
    store: Store, module: str, definitions: Sequence[Definition], devices: Sequence[Device]
) -> Artifact | None:
    """Return the artefact that a plan would find, or None where a plan must be made. Raises nothing."""
    try:
        note = json.loads(_place(store, module, definitions, devices).read_bytes())
        if note["state"] != _state(definitions, devices) or _stamps(note["compilers"]) != note["compilers"]:
            return None
        return store.find(note["source_key"], roots={name: Path(root) for name, root in note["roots"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def note_shortcut(
    store: Store,
    module: str,
    definitions: Sequence[Definition],
    devices: Sequence[Device],
    artifact: Artifact,
    roots: Mapping[str, Path],
) -> None:
    """Write down what a plan has just found. A store that cannot be written has no shortcuts; that is no error."""
    from opsmith.store.files import write_atomic
    from opsmith.toolchain import default_probes

    note = {
        "state": _state(definitions, devices),
        "compilers": default_probes().stamps(),
        "source_key": source_key(artifact.manifest.inputs),
        "roots": {name: str(root) for name, root in roots.items()},
    }
    try:
        place = _place(store, module, definitions, devices)
        write_atomic(place, json.dumps(note).encode(), scratch=store.layout.staging, durable=False)
    except OSError:
        return


def _place(store: Store, module: str, definitions: Sequence[Definition], devices: Sequence[Device]) -> Path:
    """Return where the note of these definitions is: a name for what is asked, not for the answer."""
    kernels = [f"{item.name} {device} {kernel!r}" for item in definitions for device, kernel in item.kernels.items()]
    name = digest(module, str(definitions[0].file), interface_digest(definitions), *sorted(kernels), *devices)
    return store.layout.base / "shortcuts" / f"{name}.json"


def _state(definitions: Sequence[Definition], devices: Sequence[Device]) -> dict[str, Any]:
    """Return everything but the compilers themselves that decides the plan, as JSON has it."""
    sources = {source for item in definitions for kernel in item.kernels.values() for source in kernel.sources}
    names = [variable.name for variable in _env.VARIABLES]
    return {
        "format": _FORMAT_VERSION,
        "opsmith": [__version__, *_code()],
        "environment": {name: _env.read(name) for name in names if name not in _HARMLESS},
        "programs": [shutil.which(name) for name in _PROGRAMS],
        "torch": [torch.__file__, str(torch.__version__), torch.version.git_version],
        "gpus": _gpus() if "cuda" in devices else [],
        "sources": {str(source): digest_file(source) for source in sorted(sources)},
    }


def _code() -> list[str]:
    """Return the version of every file of opsmith's that decides: whoever works on opsmith edits them."""
    files = [file for folder in _DECIDING for file in sorted((_PACKAGE / folder).glob("*.py"))]
    return [f"{file.name} {status.st_size} {status.st_mtime_ns}" for file in files for status in (file.stat(),)]


def _gpus() -> list[str]:
    properties = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return [f"{item.name} {item.major}.{item.minor} {getattr(item, 'gcnArchName', '')}" for item in properties]


def _stamps(known: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return what tells each file's version from the next, as the probe cache has it."""
    return {
        path: [status.st_size, status.st_mtime_ns, status.st_ino] for path in known for status in (Path(path).stat(),)
    }
