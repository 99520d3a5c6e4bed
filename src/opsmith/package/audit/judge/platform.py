"""Judges what a wheel's platform tags promise: glibc, libstdc++, the architecture, and libraries of the system."""

from __future__ import annotations

import re
from collections.abc import Iterator

from opsmith.package.audit.facts import Facts, Wheel
from opsmith.package.audit.finding import Finding, fault, note
from opsmith.package.audit.floors import find_floors, glibc_floor, system_needs
from opsmith.package.audit.tables import Policy, policies
from opsmith.toolchain.shims import Release, release_text

__all__ = ["judge_platform", "promised_glibc"]

_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_(\w+)")
_OLD_NAMES = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_LINUX = re.compile(r"(?:manylinux(?:1|2010|2014|_\d+_\d+)|musllinux_\d+_\d+|linux)_(\w+)")

# Libraries that come with torch or with the packages of NVIDIA and Intel that torch requires.
# The loader, and the libraries of Python and of musl, have findings of their own.
_ELSEWHERE = re.compile(
    r"ld-linux[\w-]*\.so\.\d|libpython3\..*|libc\.musl-.*|"
    r"lib(torch\w*|c10\w*|shm|cudart|cublas|cublasLt|cudnn\w*|cufft|curand|cusolver|cusparse|cusparseLt|nccl|nvrtc|nvjpeg|"
    r"nvJitLink|nvToolsExt|cupti|cuda|amdhip64|hiprtc|rocblas|hipblas\w*|MIOpen|gomp|iomp5)\.so[.\d]*"
)


def judge_platform(facts: Facts) -> Iterator[Finding]:
    """Yield findings about glibc, libstdc++, the processor, and the libraries that must be there."""
    wheel = facts.wheel
    if wheel is None or not facts.libraries:
        return
    yield from _machine(facts, wheel)
    promised = promised_glibc(wheel)
    if promised is not None:
        yield from _versions(facts, promised)
    elif any(tag.platform.startswith("linux_") for tag in wheel.tags):
        yield from _untagged(facts)
    yield from _libc(facts, wheel)
    yield from _outside(facts, promised)


def promised_glibc(wheel: Wheel) -> Release | None:
    """Return the oldest glibc that a wheel's tags promise, or None without a manylinux tag."""
    found = []
    for tag in wheel.tags:
        if match := _MANYLINUX.fullmatch(tag.platform):
            found.append((int(match[1]), int(match[2])))
        else:
            found += [release for name, release in _OLD_NAMES.items() if tag.platform.startswith(f"{name}_")]
    return min(found, default=None)


def _machine(facts: Facts, wheel: Wheel) -> Iterator[Finding]:
    machines = {match[1] for tag in wheel.tags if (match := _LINUX.fullmatch(tag.platform))}
    for library in facts.libraries:
        if machines and library.elf.machine not in machines:
            yield fault(
                "wrong-architecture",
                f"the tags promise {', '.join(sorted(machines))}, but {library.name} is for {library.elf.machine}",
                remedy=f"tag the wheel for {library.elf.machine}",
                where=library.path,
            )


def _versions(facts: Facts, promised: Release) -> Iterator[Finding]:
    """Yield faults for symbols that a system as old as the tag lacks."""
    fit = find_floors(facts.libraries).platform
    for need in system_needs(facts.libraries):
        machine = next(item.elf.machine for item in facts.libraries if item.path == need.path)
        policy = _policy(machine, promised)
        if policy is None or glibc_floor(need, policy):
            continue
        is_glibc = need.family == "GLIBC"
        yield fault(
            "glibc-newer-than-tag" if is_glibc else "libstdcxx-newer-than-tag",
            f"the tag promises glibc {release_text(promised)}"
            + ("" if is_glibc else " and its time's libstdc++")
            + f", but {need.symbol} needs {need.family}_{release_text(need.version)}",
            remedy=(f"tag it {fit}" if fit else "tag it for a newer glibc")
            + f", or build on an older system: the image {policy.tag}_{machine}",
            where=need.path,
        )


def _policy(machine: str, promised: Release) -> Policy | None:
    """Return the policy of a tag: for a glibc that has none of its own, the one before."""
    fitting = [policy for policy in policies(machine) if policy.glibc <= promised]
    if not fitting:
        return None
    last = fitting[-1]
    return Policy(promised, last.newest, last.libraries)


def _untagged(facts: Facts) -> Iterator[Finding]:
    fit = find_floors(facts.libraries).platform
    yield note(
        "no-manylinux-tag",
        "its platform tag is linux_*: pip installs it on any Linux, whatever its glibc, and PyPI refuses it",
        remedy=f"`wheel tags --platform-tag {fit} FILE.whl` says what it needs" if fit else "",
    )


def _libc(facts: Facts, wheel: Wheel) -> Iterator[Finding]:
    is_musl = any(tag.platform.startswith("musllinux") for tag in wheel.tags)
    for library in facts.libraries:
        needs_musl = any(name.startswith("libc.musl-") for name in library.elf.needed)
        if (needs_musl and not is_musl) or (is_musl and "libc.so.6" in library.elf.needed):
            yield fault(
                "wrong-libc",
                f"{library.name} needs {'musl' if needs_musl else 'glibc'}, and the tags promise the other",
                remedy="build it in the image that its tag is called after",
                where=library.path,
            )


def _outside(facts: Facts, promised: Release | None) -> Iterator[Finding]:
    """Yield a note on libraries that neither the wheel, nor torch, nor a system with such a tag has."""
    there = {library.name for library in facts.libraries} | {library.elf.soname for library in facts.libraries}
    missing: dict[str, str] = {}
    for library in facts.libraries:
        newest = policies(library.elf.machine)[-1:]
        known = there.union(*(policy.libraries for policy in newest))
        for name in library.elf.needed:
            if name not in known and not _ELSEWHERE.fullmatch(name):
                missing.setdefault(name, library.path)
    if missing and promised is not None:
        names = sorted(missing)
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        yield note(
            "library-from-outside",
            f"it needs {', '.join(names[:4])}{more}, which neither the wheel nor a system with such a tag has",
            remedy="`auditwheel repair` puts them into the wheel; what is optional is better opened when it is used",
            where=missing[names[0]],
        )
