"""Tells what pip installs with a wheel on every Linux machine, whatever its Python and without extras."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from opsmith.package.audit.facts import Wheel

if TYPE_CHECKING:
    from packaging.requirements import Requirement

__all__ = ["always_required", "find_required"]

_LINUX = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "extra": ""}
_PYTHONS = tuple(f"3.{minor}" for minor in range(10, 16))


def always_required(wheel: Wheel) -> Iterator[Requirement]:
    """Yield the requirements that hold for each Python that the wheel is for."""
    pythons = _pythons(wheel)
    for requirement in wheel.requires:
        marker = requirement.marker
        if marker is None or all(
            marker.evaluate({**_LINUX, "python_version": python, "python_full_version": f"{python}.0"})
            for python in pythons
        ):
            yield requirement


def find_required(wheel: Wheel, name: str) -> list[Requirement]:
    """Return the requirements of a project that always hold."""
    from packaging.utils import canonicalize_name

    return [item for item in always_required(wheel) if canonicalize_name(item.name) == name]


def _pythons(wheel: Wheel) -> list[str]:
    """Return the Pythons that a wheel's metadata and its tags are for."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        allowed = SpecifierSet(wheel.requires_python)
    except InvalidSpecifier:
        allowed = SpecifierSet()
    exact = {tag.interpreter for tag in wheel.tags if tag.abi not in {"none", "abi3"}}
    found = [python for python in _PYTHONS if allowed.contains(f"{python}.0")]
    of_tags = [python for python in found if f"cp{python.replace('.', '')}" in exact]
    return of_tags or found or list(_PYTHONS)
