"""Examines whether the packages are here that opsmith itself needs."""

from __future__ import annotations

from importlib.util import find_spec

from opsmith.doctor.finding import Finding, problem

__all__ = ["find_missing_packages", "judge_packages"]

# As in pyproject.toml, but for torch, which has a topic of its own, and ninja, which may be the system's.
_NEEDED = ("click", "filelock", "jaxtyping", "packaging", "platformdirs", "rich")


def find_missing_packages() -> tuple[str, ...]:
    """Return which of opsmith's requirements this Python does not have, because opsmith was installed without them."""
    return tuple(name for name in _NEEDED if not _is_installed(name))


def _is_installed(name: str) -> bool:
    # Any folder of that name on the path, such as one in the working directory, is a namespace package without an origin.
    spec = find_spec(name)
    return spec is not None and spec.origin is not None


def judge_packages(missing: tuple[str, ...]) -> tuple[Finding, ...]:
    """Return a problem where something is missing, and nothing otherwise."""
    if not missing:
        return ()
    detail = "opsmith needs them but was installed without them (perhaps with --no-deps)."
    return (problem("packages", f"missing: {', '.join(missing)}", detail, f"pip install {' '.join(missing)}"),)
