"""Judges what a file says about Python: its tags and its file names against the symbols of Python that it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from opsmith.package.audit.facts import Facts, Library
from opsmith.package.audit.finding import Finding, fault, note
from opsmith.package.audit.tables import limited_api
from opsmith.toolchain.shims import Release, release_text

__all__ = ["judge_python"]

_INTERPRETER = re.compile(r"(?:cp|pp|py)(\d)(\d*)")
_SUFFIX = re.compile(r"\.cpython-(\d)(\d+)[\w-]*\.so$")


def judge_python(facts: Facts) -> Iterator[Finding]:
    """Yield findings about the Python that a wheel's tags promise."""
    if facts.wheel is None:
        return
    for library in facts.libraries:
        if _is_for_any_python(facts):
            yield from _of_none(library)
        elif any(tag.abi == "abi3" for tag in facts.wheel.tags):
            yield from _of_abi3(library, _oldest(facts))
        yield from _suffix(library, facts)


def _is_for_any_python(facts: Facts) -> bool:
    assert facts.wheel is not None
    return any(tag.abi == "none" for tag in facts.wheel.tags)


def _oldest(facts: Facts) -> Release:
    """Return the oldest Python that the tags of the stable ABI promise."""
    assert facts.wheel is not None
    found = [
        (int(match[1]), int(match[2] or 0))
        for tag in facts.wheel.tags
        if tag.abi == "abi3" and (match := _INTERPRETER.fullmatch(tag.interpreter))
    ]
    return min(found, default=(3, 2))


def _of_none(library: Library) -> Iterator[Finding]:
    names = library.needs.python
    if names:
        yield fault(
            "python-symbols-under-none",
            f"the ABI tag is none, but {library.name} needs {len(names):,} symbols of Python",
            detail=f"such as {names[0]}: it loads only in a Python that has them",
            remedy=(
                "tag it cp3X-abi3 (Py_LIMITED_API)"
                if not library.needs.python_private
                else "tag it for the Python it is built with"
            )
            + ", or build the operators without Python: opsmith's own need no symbol of it",
            where=library.path,
        )
    yield from _linked(library, "none")


def _of_abi3(library: Library, oldest: Release) -> Iterator[Finding]:
    private = library.needs.python_private
    if private:
        yield fault(
            "private-python-api",
            f"the ABI tag is abi3, but {private[0]} is not in Python's limited API",
            detail=f"{len(private)} such symbols"
            if len(private) > 1
            else "another Python may not have it, or have it changed",
            remedy=f"compile with -DPy_LIMITED_API=0x{oldest[0]:02x}{oldest[1]:02x}0000, which makes its use an error",
            where=library.path,
        )
    since = limited_api().since
    newer = [name for name in library.needs.python_limited if since[name] > oldest]
    if newer:
        name = max(newer, key=lambda item: since[item])
        yield fault(
            "python-newer-than-tag",
            f"the tag promises Python {release_text(oldest)}, but {name} is in the limited API only since "
            f"{release_text(since[name])}",
            remedy=f"tag it cp{since[name][0]}{since[name][1]}-abi3, or compile with "
            f"-DPy_LIMITED_API=0x{oldest[0]:02x}{oldest[1]:02x}0000",
            where=library.path,
        )
    yield from _linked(library, "abi3")


def _linked(library: Library, abi: str) -> Iterator[Finding]:
    """Yield a finding for a library of one Python among those that are needed by name."""
    python = [name for name in library.elf.needed if name.startswith("libpython3.")]
    if python:
        yield fault(
            "links-libpython",
            f"the ABI tag is {abi}, but {library.name} is linked to {python[0]}",
            remedy="do not link extension modules to libpython: the interpreter has its symbols",
            where=library.path,
        )
    if "libtorch_python.so" in library.elf.needed:
        yield note(
            "links-libtorch-python",
            f"the ABI tag is {abi}, but {library.name} is linked to libtorch_python.so, which is made for one Python: "
            "programs in C++ cannot load it",
            remedy="link without -ltorch_python (opsmith and `torch.utils.cpp_extension` with py_limited_api=True do)",
            where=library.path,
        )


def _suffix(library: Library, facts: Facts) -> Iterator[Finding]:
    """Yield a fault for an extension module whose file name is that of a Python that the tags do not promise."""
    match = _SUFFIX.search(library.name)
    assert facts.wheel is not None
    promised = {tag.interpreter for tag in facts.wheel.tags}
    if match and f"cp{match[1]}{match[2]}" not in promised:
        yield fault(
            "extension-of-another-python",
            f"{library.name} is a module of Python {match[1]}.{match[2]}, and the tags promise "
            f"{', '.join(sorted(promised))}",
            remedy=f"tag the wheel cp{match[1]}{match[2]}-cp{match[1]}{match[2]}: other Pythons do not find the module",
            where=library.path,
        )
