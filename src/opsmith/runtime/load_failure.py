"""Explains why a finished library does not load, and what fixes it.

The loader says only which symbol or file is missing. The catalogue says what that means, and the manifest beside the
library what it was built against.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import torch

from opsmith._printable import printable
from opsmith._torch_release import release_of
from opsmith.catalogue import Facts, explain
from opsmith.store.reading import parse_json, read_regular
from opsmith.toolchain.facts import gather_facts
from opsmith.toolchain.shims import release_text, shim_table

__all__ = ["explain_load_failure"]


def explain_load_failure(name: str, library: Path, message: str) -> str:
    """Return the text of a LoadError from the loader's or Python's message about a library."""
    facts = _built(replace(gather_facts(), library=str(library), name=name), library)
    head = f"{name} cannot be loaded: {message}"
    if (undefined := re.search(r"undefined symbol: (\w+)", message)) is not None:
        facts = replace(facts, needed_torch=_newer_torch(undefined[1]))
        head = f"{name} cannot be loaded: nothing defines {_demangle(undefined[1])} ({library})"
    found = explain(message, facts, demangle=_demangle)
    return f"{head}\n\n{found[0].text}" if found else head


def _newer_torch(symbol: str) -> str | None:
    """Return the release of torch that has a function first, where the one that is installed is older."""
    since, here = shim_table().since.get(symbol), release_of(torch.__version__)
    return release_text(since) if since is not None and here is not None and since > here else None


def _demangle(symbol: str) -> str:
    return str(torch._C._demangle(symbol))


def _built(facts: Facts, library: Path) -> Facts:
    """Add what the manifest tells: it lies next to a library of the store, and under the library's name elsewhere."""
    for manifest in (library.with_name("manifest.json"), library.with_suffix(".json")):
        try:
            content = parse_json(read_regular(manifest))
            version, tools = content["torch_version"], content["toolchain"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(version, str):
            facts = replace(facts, built_torch=printable(version))
        if isinstance(tools, dict) and tools:
            facts = replace(facts, built_with=", ".join(printable(str(tool)) for tool in tools.values()))
        return facts
    return facts
