"""Judges a wheel's tags against one another and against there being libraries at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from opsmith.package.audit.facts import Facts
from opsmith.package.audit.finding import Finding, fault, note

if TYPE_CHECKING:
    from packaging.tags import Tag

__all__ = ["judge_tags", "tag_text"]


def judge_tags(facts: Facts) -> Iterator[Finding]:
    """Yield findings about the tags in a wheel's name and in its WHEEL file."""
    wheel = facts.wheel
    if wheel is None:
        return
    binaries = [library for library in facts.libraries if library.elf.kind == "library"]
    if binaries and any(tag.platform == "any" for tag in wheel.tags):
        yield fault(
            "any-with-binary",
            f"the platform tag is any, but {binaries[0].path} is a library for {binaries[0].elf.machine} and Linux",
            remedy="tag it for its platform: `wheel tags --platform-tag manylinux_2_N_ARCH FILE.whl`",
            where=binaries[0].path,
        )
    if binaries and wheel.is_pure:
        yield note(
            "purelib-with-binary",
            "WHEEL says `Root-Is-Purelib: true`, and the wheel has libraries: they are installed among what is pure Python",
            remedy="set `root_is_pure` to False, as setuptools does for ext_modules",
        )
    if wheel.declared and wheel.declared != wheel.tags:
        yield fault(
            "tags-differ",
            f"its name says {tag_text(wheel.tags)}, its WHEEL file {tag_text(wheel.declared)}",
            detail="installers believe the one or the other",
            remedy="rename with `wheel tags`, which changes both, and never by hand",
        )
    is_elsewhere = any(tag.platform.startswith(("macosx", "win", "ios", "android")) for tag in wheel.tags)
    if wheel.has_foreign_binaries or is_elsewhere:
        yield note("other-platform", "it has, or may have, libraries of Windows or macOS, which are not read")


def tag_text(tags: Iterable[Tag]) -> str:
    """Return tags in the compressed form of file names."""
    tags = list(tags)
    columns = [sorted({getattr(tag, part) for tag in tags}) for part in ("interpreter", "abi", "platform")]
    return "-".join(".".join(column) for column in columns)
