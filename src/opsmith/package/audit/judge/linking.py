"""Judges how libraries find others and what they show to others: RPATH, the stack, namespaces, exported symbols."""

from __future__ import annotations

import re
from collections.abc import Iterator

from opsmith.package.audit.facts import Facts, Library
from opsmith.package.audit.finding import Finding, fault, note

__all__ = ["judge_linking"]

# Folders that belong to the system on every machine.
_SYSTEM = re.compile(
    r"/(?:usr/(?:local/)?)?lib(?:32|64|x32)?(?:/[\w-]+-linux-gnu)?/?|/usr/local/cuda(?:-[\d.]+)?/lib(?:64)?/?|/opt/rocm(?:-[\d.]+)?/lib/?"
)
_OF_TORCH = frozenset(
    {"aten", "prim", "prims", "profiler", "quantized", "c10d", "mkldnn", "inductor", "onednn", "rngprims"}
)


def judge_linking(facts: Facts) -> Iterator[Finding]:
    """Yield findings about RPATH, executable stacks, and names that may clash."""
    for library in facts.libraries:
        yield from _paths(library)
        yield from _build_paths(library)
        if facts.wheel is None or facts.wheel.name != "torch":
            yield from _namespaces(library)
        if library.elf.has_executable_stack:
            yield fault(
                "executable-stack",
                f"{library.name} asks for an executable stack, which glibc 2.41 and newer refuse",
                remedy="link with -Wl,-z,noexecstack; a file of assembly needs a section .note.GNU-stack",
                where=library.path,
            )
    yield from _clashes(facts)


def _paths(library: Library) -> Iterator[Finding]:
    name = "RUNPATH" if library.elf.runpath else "RPATH"
    for path in (*library.elf.rpath, *library.elf.runpath):
        if path == "$ORIGIN" or path.startswith(("$ORIGIN/", "${ORIGIN}")):
            # From the library's folder up to site-packages, where the other packages are.
            depth = library.path.count("/")
            if depth and path.split("/").count("..") > depth:
                yield note(
                    "rpath-far-away",
                    f"{library.name} has {name} {path}, which leads out of site-packages",
                    where=library.path,
                )
        elif _SYSTEM.fullmatch(path):
            yield note(
                "rpath-of-the-system",
                f"{library.name} has {name} {path}: what lies there is loaded before the libraries of torch's packages",
                remedy="link without that -Wl,-rpath",
                where=library.path,
            )
        elif not path.startswith("/"):
            yield fault(
                "leaked-rpath",
                f"{library.name} has {name} {path or '(empty)'}, which is relative to the folder a program is started in",
                detail="whoever can write there chooses the libraries that are loaded",
                remedy=f"`patchelf --remove-rpath {library.name}`, or link with -Wl,-rpath,'$ORIGIN'",
                where=library.path,
            )
        else:
            yield fault(
                "leaked-rpath",
                f"{library.name} has {name} {path}, a folder of the machine that it was built on",
                detail="whoever can make that folder on another machine chooses the libraries that are loaded there",
                remedy=f"`patchelf --remove-rpath {library.name}`, or link with -Wl,-rpath,'$ORIGIN'",
                where=library.path,
            )


def _build_paths(library: Library) -> Iterator[Finding]:
    if library.paths:
        count = len(library.paths)
        yield note(
            "absolute-path",
            f"{library.name} contains {count} path{'s' if count > 1 else ''} of the machine that it was built on, such as "
            f"{min(library.paths, key=len)}",
            detail="they tell who built it, and another folder gives other bytes",
            remedy="compile with -ffile-prefix-map=FOLDER=. for sources and for torch's headers; Rust: --remap-path-prefix",
            where=library.path,
        )


def _namespaces(library: Library) -> Iterator[Finding]:
    taken = sorted({*library.namespaces, *library.fragments} & _OF_TORCH)
    if taken:
        yield note(
            "namespace-of-torch",
            f"{library.name} registers operators in {taken[0]}, a namespace of torch: a later torch may define the same",
            remedy="use a namespace of your own",
            where=library.path,
        )


def _clashes(facts: Facts) -> Iterator[Finding]:
    """Yield findings about two libraries of one file that register or export the same."""
    owners: dict[str, Library] = {}
    for library in facts.libraries:
        for namespace in library.namespaces:
            other = owners.setdefault(namespace, library)
            if other is not library:
                yield fault(
                    "namespace-clash",
                    f"{other.path} and {library.path} both claim the namespace {namespace} with "
                    "TORCH_LIBRARY: the second that is loaded fails",
                    remedy="use TORCH_LIBRARY_FRAGMENT in one of them",
                    where=library.path,
                )
    exported: dict[str, Library] = {}
    shared: dict[str, tuple[str, str]] = {}
    for library in facts.libraries:
        for symbol in library.elf.symbols:
            # Weak ones are made to be the same; mangled ones of a package are its own.
            if not symbol.is_defined or symbol.is_weak or symbol.name.startswith(("_Z", "_", "PyInit_", "opsmith_")):
                continue
            other = exported.setdefault(symbol.name, library)
            if other is not library and library.needs.uses_torch and other.needs.uses_torch:
                shared.setdefault(symbol.name, (other.path, library.path))
    if shared:
        name, (first, second) = min(shared.items())
        more = f" and {len(shared) - 1} more" if len(shared) > 1 else ""
        yield note(
            "exported-twice",
            f"{first} and {second} both export {name}{more}: loaded with RTLD_GLOBAL, the first serves both",
            remedy="compile with -fvisibility=hidden",
            where=second,
        )
