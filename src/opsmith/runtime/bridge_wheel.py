"""Finds the prebuilt bridge that fits in the package of the distribution opsmith-bridge, where that is installed.

The package has a library for each release of torch and a list of them. A library serves every Python with a GIL, because
it uses the limited API, and every build of a release, for CPUs or GPUs: it includes no header that differs between them,
and calls nothing of a GPU's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from opsmith.runtime.bridge_build import is_free_threaded, sources_digest

__all__ = ["LIST", "PACKAGE", "BridgeHost", "Prebuilt", "choose", "find_prebuilt"]

PACKAGE = "opsmith_bridges"
LIST = "bridges.json"


@dataclass(frozen=True)
class BridgeHost:
    """What a bridge depends on: opsmith's sources of it, and the torch and the machine that it is for."""

    sources: str
    torch: str
    commit: str
    machine: str
    has_limited_api: bool = True
    has_cxx11_abi: bool = True
    is_debug: bool = False


@dataclass(frozen=True)
class Prebuilt:
    """A prebuilt bridge's library; or why there is none for this torch; or neither, where opsmith-bridge is not there."""

    library: Path | None = None
    problem: str = ""


def find_prebuilt() -> Prebuilt:
    """Return the prebuilt bridge for this process."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:  # a mere folder of that name has no origin
        return Prebuilt()
    folder = Path(spec.origin).parent
    try:
        listed = json.loads((folder / LIST).read_bytes())
        chosen = choose(listed, _this_host())
        return Prebuilt(problem=chosen[1]) if chosen[0] is None else Prebuilt(folder / chosen[0])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Prebuilt(problem=f"opsmith-bridge is damaged ({folder / LIST}: {error}): install it anew")


def choose(listed: Mapping[str, Any], host: BridgeHost) -> tuple[str | None, str]:
    """Return the library of a list that fits, or None and why none does."""
    releases = {item["torch"]: item for item in listed["bridges"]}
    mine = releases.get(host.torch.partition("+")[0], {"commit": "", "library": None})
    hindrances = (
        (
            listed["sources"] != host.sources,
            f"opsmith-bridge is that of opsmith {listed['opsmith']}, whose bridge is not this opsmith's",
        ),
        (
            listed["machine"] != host.machine,
            f"opsmith-bridge is for {listed['machine']}, and this machine is {host.machine}",
        ),
        (
            not host.has_limited_api,
            "opsmith-bridge needs Python's limited API, which a Python without the GIL does not have",
        ),
        (
            host.is_debug or not host.has_cxx11_abi,
            "opsmith-bridge is for release builds of torch with the C++11 ABI, and this torch is another build",
        ),
        (
            not mine["commit"],
            f"opsmith-bridge has bridges for torch {', '.join(releases)}, and this is torch {host.torch}",
        ),
        (
            mine["commit"] != host.commit,
            f"opsmith-bridge is for the torch {host.torch} of commit {mine['commit'][:12]}, and this one is built from "
            f"{host.commit[:12]}",
        ),
    )
    problem = next((text for hinders, text in hindrances if hinders), "")
    return (None, problem) if problem else (mine["library"], "")


def _this_host() -> BridgeHost:
    return BridgeHost(
        sources=sources_digest(),
        torch=str(torch.__version__),
        commit=str(torch.version.git_version),
        machine=os.uname().machine,
        has_limited_api=not is_free_threaded(),
        has_cxx11_abi=torch.compiled_with_cxx11_abi(),
        is_debug=bool(torch.version.debug),
    )
