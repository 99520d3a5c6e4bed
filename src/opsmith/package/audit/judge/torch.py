"""Judges what a file says about torch: the requirement in its metadata against the functions that its libraries call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from opsmith._torch_release import MINIMUM_TORCH
from opsmith.package.audit.facts import Facts, Library, Wheel
from opsmith.package.audit.finding import Finding, fault, note
from opsmith.package.audit.floors import Floors, find_floors
from opsmith.package.audit.judge.requires import find_required
from opsmith.toolchain.shims import Release, release_text, shim_table

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

__all__ = ["judge_torch"]

# Releases that a requirement may allow: those before the table, those in it, and some that are still to come.
_BEFORE = tuple((2, minor) for minor in range(9))
_PATCHES = 3


def judge_torch(facts: Facts) -> Iterator[Finding]:
    """Yield findings about torch's ABI and the requirement of torch."""
    if facts.wheel is not None and facts.wheel.name == "torch":
        return  # it is torch, and does not need it
    floors = find_floors(facts.libraries)
    if not floors.uses_torch:
        return
    yield from _unknown(facts)
    unstable = [library for library in facts.libraries if library.needs.torch_cpp]
    if facts.wheel is None:
        yield from _unstable_library(unstable)
        return
    requirement = _requirement(facts.wheel)
    if requirement is None:
        yield _missing(floors)
        return
    if unstable:
        yield from _unstable_wheel(unstable, requirement)
    if floors.torch is not None:
        yield from _too_low(floors, requirement)


def _requirement(wheel: Wheel) -> SpecifierSet | None:
    """Return which versions of torch pip may install with the wheel; None if its metadata does not ask for torch.

    opsmith asks for torch in its turn, so a wheel that requires it need not say how old torch may be.
    """
    from packaging.specifiers import SpecifierSet

    torch = find_required(wheel, "torch")
    allowed = [str(item.specifier) for item in torch if item.specifier]
    if find_required(wheel, "opsmith"):
        allowed.append(f">={release_text(MINIMUM_TORCH)}")
    return SpecifierSet(",".join(allowed)) if torch or allowed else None


def _missing(floors: Floors) -> Finding:
    floor = release_text(floors.torch or shim_table().oldest)
    return fault(
        "torch-requirement-missing",
        "its libraries need torch, and its metadata does not say so",
        detail="pip installs it without torch, or beside one that is too old, and the import fails",
        remedy=(
            'write the torch that it is built with into `dependencies` of pyproject.toml: "torch==X.Y.*"'
            if floors.torch_is_exact
            else f'write `"torch>={floor}"` into `dependencies` of pyproject.toml'
        ),
    )


def _too_low(floors: Floors, requirement: SpecifierSet) -> Iterator[Finding]:
    assert floors.torch is not None
    table = shim_table()
    older = [release for release in (*_BEFORE, *table.releases) if release < floors.torch]
    allowed = [release for release in older if _allows(requirement, release)]
    if allowed:
        yield fault(
            "torch-floor-too-low",
            f"torch{requirement or ' (any)'} is required, but {floors.torch_because} exists only since torch "
            f"{release_text(floors.torch)}",
            detail=f"with torch {release_text(max(allowed))} the library does not load: undefined symbol",
            remedy=f'require "torch>={release_text(floors.torch)}", or build with a lower torch-target',
        )


def _allows(requirement: SpecifierSet, release: Release) -> bool:
    return any(requirement.contains(f"{release_text(release)}.{patch}", prereleases=True) for patch in range(_PATCHES))


def _unstable_wheel(unstable: list[Library], requirement: SpecifierSet) -> Iterator[Finding]:
    newest = shim_table().newest
    releases = [*_BEFORE, *shim_table().releases, (newest[0], newest[1] + 1)]
    allowed = [release for release in releases if _allows(requirement, release)]
    count = sum(len(library.needs.torch_cpp) for library in unstable)
    where = unstable[0].path
    if len(allowed) <= 1:
        only = release_text(allowed[0]) if allowed else str(requirement)
        yield note(
            "unstable-torch-symbols",
            f"it uses {count:,} symbols of torch's C++ API, and needs the torch that it is built with; it asks for {only}",
            remedy="a wheel for each torch can be avoided: `opsmith audit --why` names what replaces each symbol",
            where=where,
        )
        return
    yield fault(
        "unstable-torch-symbols",
        f"torch{requirement or ' (any)'} is required, but it uses {count:,} symbols of torch's C++ API, which change with "
        "every release",
        detail=f"such as {unstable[0].needs.torch_cpp[0]}; built with one torch, it is not sure to load in another",
        remedy='require the torch that it is built with, "torch==X.Y.*", or move to the stable ABI: `opsmith audit --why`',
        where=where,
    )


def _unstable_library(unstable: list[Library]) -> Iterator[Finding]:
    for library in unstable:
        yield note(
            "unstable-torch-symbols",
            f"it uses {len(library.needs.torch_cpp):,} symbols of torch's C++ API: it needs the torch it is built with",
            detail=f"such as {library.needs.torch_cpp[0]}",
            remedy="`opsmith audit --why` names what replaces each symbol",
            where=library.path,
        )


def _unknown(facts: Facts) -> Iterator[Finding]:
    """Yield a fault for what looks like a function of torch's C ABI, which no release has."""
    newest = release_text(shim_table().newest)
    for library in facts.libraries:
        names = [
            name for name in library.needs.unknown_shims if name.startswith("aoti_torch_") or _links_torch(library)
        ]
        if names:
            yield fault(
                "unknown-torch-function",
                f"{names[0]} is not a function of any torch up to {newest}",
                detail=f"{len(names)} such functions" if len(names) > 1 else "",
                remedy="build with the headers of a released torch, whose functions the table of `opsmith audit` has",
                where=library.path,
            )


def _links_torch(library: Library) -> bool:
    return any(name.startswith(("libtorch", "libc10")) for name in library.elf.needed)
