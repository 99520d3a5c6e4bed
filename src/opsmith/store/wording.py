"""Words the reasons of a miss."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePosixPath

from opsmith._printable import printable
from opsmith.store.explain import Change, Miss
from opsmith.store.manifest import Manifest

__all__ = ["tell_difference", "tell_miss", "tell_time"]

# The first word of an input's name -> what it is to the user. Names are made in build/key.py.
_INPUTS = {
    "generated": "what opsmith generates as {rest}",
    "command": "the command that makes {rest}",
    "compiler": "the {rest} compiler",
    "environment": "what compilers read from the environment (CPATH, NVCC_APPEND_FLAGS, ...)",
    "archs": "the list of GPU architectures",
    "library": "the name of the library's file",
    "torch": "torch",
    "python": "Python",
    "linked": "the linked file {rest}",
}
_VERBS = {"changed": "changed", "added": "is new", "removed": "is no longer used"}

# Where very many inputs differ, the first ones tell enough.
_MOST_CHANGES = 6


def tell_miss(miss: Miss | None) -> str:
    """Return a sentence that says why the next build hits (None) or misses."""
    if miss is None:
        return "found: loaded without a build"
    if miss.reason == "new":
        return "missed: the store has nothing of this name"
    if miss.reason == "lost":
        return "missed: it was built, but the artefact is missing or damaged"
    same = f", everything else as in the build of {tell_time(miss.nearest.manifest)}" if miss.nearest else ""
    return f"missed: {_tell_changes(miss.changes)}{same}"


def tell_difference(last: Manifest, before: Manifest | None, changes: Sequence[Change]) -> str:
    """Return a sentence that says why a second build of one name was made."""
    if before is None:
        return f"built once, at {tell_time(last)}; there is no other build to compare with"
    what = _tell_changes(changes) or "a header changed, every input was the same"
    return f"rebuilt at {tell_time(last)}: {what}, everything else as in the build of {tell_time(before)}"


def tell_time(manifest: Manifest) -> str:
    """Return when an artefact was built: the hour for today, else the day too."""
    try:
        built = datetime.fromisoformat(manifest.created).astimezone()
    except ValueError:
        return manifest.created
    return f"{built:%H:%M}" if built.date() == datetime.now().astimezone().date() else f"{built:%Y-%m-%d %H:%M}"


def _tell_changes(changes: Sequence[Change]) -> str:
    told = [_tell_change(change) for change in changes[:_MOST_CHANGES]]
    if len(changes) > _MOST_CHANGES:
        told.append(f"{len(changes) - _MOST_CHANGES} more")
    return ", ".join(told)


def _tell_change(change: Change) -> str:
    # A record or a manifest may come from elsewhere.
    first, _, rest = printable(change.name).partition(" ")
    if first in _INPUTS:
        subject = _INPUTS[first].format(rest=rest)
    else:
        name = printable(change.name).removeprefix("source ")
        subject = str(PurePosixPath(name).relative_to("<project>")) if name.startswith("<project>/") else name
    line = f" (line {change.line})" if change.line else ""
    return f"{subject} {_VERBS[change.kind]}{line}"
