"""Describes a finished build for the store: its manifest, and the headers that it read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from opsmith._version import __version__
from opsmith.build.plan import Plan, Target
from opsmith.build.shadowing import find_absent
from opsmith.store import Layout, Manifest, default_root, digest_headers, read_depfile
from opsmith.store.headers import ABSENT

if TYPE_CHECKING:
    from opsmith.store import Kind
    from opsmith.toolchain import Toolchain

__all__ = ["describe_build", "digests_for_record", "read_headers"]


def describe_build(
    plan: Plan,
    toolchain: Toolchain,
    target: Target,
    library: Path,
    inputs: Mapping[str, str],
    *,
    kind: Kind = "library",
) -> Manifest:
    """Return the manifest of a library that was just built."""
    return Manifest.describe(
        library,
        name=plan.extension.name,
        inputs=inputs,
        devices=plan.extension.devices,
        archs=target.archs,
        toolchain=toolchain.compilers,
        torch_version=toolchain.torch.version if plan.extension.api == "full" else None,
        opsmith_version=__version__,
        kind=kind,
    )


def read_headers(plan: Plan, toolchain: Toolchain, folder: Path) -> tuple[Path, ...]:
    """Return the headers that the compilers read, but for those that come with a compiler, with torch, or of the store.

    Those are covered by the compiler's identity and by torch's version, and there are thousands of them.
    """
    covered = [toolchain.torch.root, Path("/usr/include"), Path("/usr/lib"), Path("/usr/lib64")]
    # Not its root: conda's is a whole environment, with the headers of other packages.
    covered += toolchain.cuda.include_dirs if toolchain.cuda else []
    covered += [toolchain.rocm.root] if toolchain.rocm and toolchain.rocm.root != Path("/usr") else []
    covered += [folder, Layout(default_root()).artifacts]
    # As the compiler names them, and as they really are: most headers are dropped by name, without a look at the disk.
    skip = tuple(f"{prefix}/" for prefix in covered)
    really = tuple(prefix.resolve() for prefix in covered)
    roots = {root.resolve(): root for root in plan.roots.values()}

    @cache
    def root_at(folder: Path) -> Path | None:
        return roots.get(folder.resolve())

    found: dict[Path, None] = {}
    for step in plan.steps:
        if step.depfile is not None:
            for header in read_depfile(folder / step.depfile, cwd=folder, skip=skip):
                resolved = header.resolve()
                if not any(map(resolved.is_relative_to, really)):
                    found[_from_root(header, root_at) or resolved] = None
    return tuple(found)


def digests_for_record(plan: Plan, folder: Path, headers: Iterable[Path]) -> dict[str, str]:
    """Return what a record of a plan that was built in a folder says of headers: of those that it read, and of those that
    it would have read. Raises OSError if one of the first cannot be read.
    """
    read = tuple(headers)
    return {str(path): ABSENT for path in find_absent(plan, folder, read)} | digest_headers(read)


def _from_root(header: Path, root_at: Callable[[Path], Path | None]) -> Path | None:
    """Return `<root>/../common.h` for what a source includes as "../common.h", or None for another way to it.

    In another checkout that is the other checkout's header. By its own path a record would be held against this one's.
    """
    for folder in header.parents:
        if (root := root_at(folder)) is not None:
            return root / header.relative_to(folder)
    return None
