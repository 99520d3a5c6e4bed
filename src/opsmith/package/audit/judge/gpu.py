"""Judges what a file says about GPUs: the architectures that it has code for, and how it is tied to a CUDA release."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from opsmith.errors import ToolchainError
from opsmith.package.audit.driver import cuda_of
from opsmith.package.audit.facts import Facts, Library
from opsmith.package.audit.finding import Finding, fault, note
from opsmith.package.audit.floors import CUDA_LIBRARY, HIP_RUNTIME, bundled_names, cuda_majors
from opsmith.toolchain.archs import CudaArch, parse_cuda_archs

__all__ = ["judge_gpu", "merge_archs", "missing_archs"]

_REBUILD = "strip or patch libraries before the wheel is made, or build it again"


def judge_gpu(facts: Facts, archs: tuple[str, ...] = (), cuda: str | None = None) -> Iterator[Finding]:
    """Yield findings about CUDA and ROCm; `archs` and `cuda` are what is asked for, as for `judge`."""
    for library in facts.libraries:
        yield from _manifest(library)
        yield from _driver(library)
    if archs:
        yield from _asked(facts, archs)
    if cuda is not None:
        yield from _asked_cuda(facts, int(cuda.partition(".")[0]))
    yield from _cuda_major(facts)
    yield from _rocm_major(facts)
    yield from _no_ptx(facts)
    if any(library.amd_is_unread for library in facts.libraries):
        yield note(
            "compressed-amd-code",
            "its code for AMD is compressed in a way that this Python cannot read, so its targets are not known",
            remedy="zstd comes with Python 3.14, and before that by `pip install backports.zstd`",
        )


def merge_archs(archs: Iterable[CudaArch]) -> tuple[CudaArch, ...]:
    """Return the architectures of several libraries, each once."""
    merged: dict[str, CudaArch] = {}
    for arch in archs:
        known = merged.get(arch.number, arch)
        merged[arch.number] = replace(arch, sass=arch.sass or known.sass, ptx=arch.ptx or known.ptx)
    return tuple(sorted(merged.values()))


def missing_archs(wanted: tuple[CudaArch, ...], found: tuple[CudaArch, ...]) -> tuple[CudaArch, ...]:
    """Return which architectures, or which half of one, there is no code for.

    Triton compiles for 9.0a where 9.0 is asked for, and its PTX for what comes after is of an older architecture.
    """
    there = {arch.number: arch for arch in found}
    missing = []
    for arch in wanted:
        have, exact = there.get(arch.number), there.get(f"{arch.number}a")
        has_older_ptx = exact is not None and any(each.ptx and each < exact for each in found)
        sass = arch.sass and not (have and have.sass) and not (exact and exact.sass)
        ptx = arch.ptx and not (have and have.ptx) and not has_older_ptx
        if sass or ptx:
            missing.append(replace(arch, sass=sass, ptx=ptx))
    return tuple(missing)


def _manifest(library: Library) -> Iterator[Finding]:
    """Yield faults where opsmith's description of a library is not that of the library."""
    manifest = library.manifest
    if manifest is None:
        return
    if manifest.sha256 != library.sha256:
        yield fault(
            "manifest-differs",
            f"{library.name} is not the library that its description says: it was changed after the build",
            detail="opsmith refuses to load a library whose size is another than described",
            remedy=_REBUILD,
            where=library.path,
        )
    amd = [arch for arch in manifest.archs if arch.startswith("gfx")]
    cuda = ";".join(_word(arch) for arch in manifest.archs if not arch.startswith("gfx"))
    try:
        wanted = parse_cuda_archs(cuda) if cuda else ()
    except ToolchainError as error:
        yield fault("manifest-differs", f"the description of {library.name} is damaged: {error}", remedy=_REBUILD)
        return
    yield from _missing(missing_archs(wanted, library.cuda), "its description promises", library)
    gone = sorted({arch.partition(":")[0] for arch in amd} - {target.partition(":")[0] for target in library.amd})
    if gone and not library.amd_is_unread:
        yield _missing_code(", ".join(gone), "its description promises", library.path, ", ".join(library.amd))


def _word(arch: str) -> str:
    """Return an architecture as lists have it: the description writes PTX without machine code as "9.0 (PTX)"."""
    number, is_ptx, _ = arch.partition(" (PTX)")
    return f"compute_{number.replace('.', '')}" if is_ptx else arch


def _asked(facts: Facts, archs: tuple[str, ...]) -> Iterator[Finding]:
    found = merge_archs(arch for library in facts.libraries for arch in library.cuda)
    cuda = ";".join(arch for arch in archs if not arch.startswith("gfx"))
    amd = {arch for arch in archs if arch.startswith("gfx")}
    wanted = parse_cuda_archs(cuda) if cuda else ()
    missing = missing_archs(wanted, found)
    shown = ", ".join(map(str, found))
    if missing:
        yield _missing_code(", ".join(map(str, missing)), "--archs asks for", "", shown)
    targets = {target for library in facts.libraries for target in library.amd}
    if gone := sorted(amd - targets - {target.partition(":")[0] for target in targets}):
        yield _missing_code(", ".join(gone), "--archs asks for", "", ", ".join(sorted(targets)))


def _asked_cuda(facts: Facts, wanted: int) -> Iterator[Finding]:
    """Yield faults where code is too new for the driver of a CUDA, or libraries of another CUDA are needed by name."""
    newer = [library for library in facts.libraries if (cuda_of(library) or 0) > wanted]
    if newer:
        found = max(cuda_of(library) or 0 for library in newer)
        yield fault(
            "cuda-newer-than-asked",
            f"CUDA {wanted} is asked for, and the code in {_some(newer)} is CUDA {found}'s: a driver for CUDA {wanted} does "
            "not run it",
            remedy=f"compile with an nvcc of CUDA {wanted}: `opsmith wheel --cuda {wanted}`",
            where=newer[0].path,
        )
    tied = [library for library in facts.libraries if cuda_majors([library]) not in {(), (wanted,)}]
    if tied:
        majors = " and ".join(map(str, cuda_majors(tied)))
        yield fault(
            "cuda-newer-than-asked",
            f"CUDA {wanted} is asked for, and {_some(tied)} needs libraries of CUDA {majors}",
            remedy="link the CUDA runtime statically, and call cuBLAS and the like through torch's operators",
            where=tied[0].path,
        )


def _some(libraries: Sequence[Library]) -> str:
    more = len(libraries) - 1
    return libraries[0].name + (f" and {more} more" if more else "")


def _missing(missing: tuple[CudaArch, ...], claim: str, library: Library) -> Iterator[Finding]:
    if missing:
        yield _missing_code(", ".join(map(str, missing)), claim, library.path, ", ".join(map(str, library.cuda)))


def _missing_code(missing: str, claim: str, where: str, found: str) -> Finding:
    variable = 'OPSMITH_ROCM_ARCHS="gfx90a;gfx942"' if missing.startswith("gfx") else 'OPSMITH_CUDA_ARCHS="8.0;9.0+PTX"'
    return fault(
        "missing-arch",
        f"{claim} {missing}, and there is no code for it",
        detail=f"there is code for {found}" if found else "there is no code for any GPU of that kind",
        remedy=f"build it with {variable} or the like",
        where=where,
    )


def _driver(library: Library) -> Iterator[Finding]:
    linked = [name for name in library.elf.needed if name.startswith(("libcuda.so", "libnvidia-"))]
    if linked:
        yield note(
            "links-libcuda",
            f"{library.name} is linked to {linked[0]}: on a machine without NVIDIA's driver it does not load",
            remedy="get the driver's functions at run time, by cudaGetDriverEntryPoint or dlopen",
            where=library.path,
        )


def _cuda_major(facts: Facts) -> Iterator[Finding]:
    """Yield a note where a file that any torch may load is tied to one CUDA, by the name of its libraries."""
    if facts.wheel is not None and facts.wheel.name == "torch":
        return  # its version says for which CUDA it is
    bundled = {library.name for library in facts.libraries}
    tied: dict[int, tuple[Library, str]] = {}
    for library in facts.libraries:
        linked = [name for name in library.elf.needed if CUDA_LIBRARY.fullmatch(name) and name not in bundled]
        if linked and not library.needs.torch_cpp:
            tied.setdefault(cuda_majors([library])[0], (library, linked[0]))
    if len(tied) > 1:
        of_each = ", ".join(f"{library.name} to CUDA {major}" for major, (library, _) in sorted(tied.items()))
        yield note(
            "tied-to-cuda",
            f"each of its libraries is linked to one CUDA ({of_each}): who loads them has to choose by torch's",
            remedy="choose by torch.version.cuda before anything is loaded",
        )
    elif tied:
        ((major, (library, name)),) = tied.items()
        yield note(
            "tied-to-cuda",
            f"{library.name} is linked to {name}: beside a torch for another CUDA than {major} it does not load, and its "
            "metadata cannot say so",
            remedy="link the CUDA runtime statically (nvcc's -cudart static, as opsmith does), call cuBLAS through torch",
            where=library.path,
        )


def _rocm_major(facts: Facts) -> Iterator[Finding]:
    """Yield a note where a file is tied to one ROCm: HIP's runtime cannot be linked in."""
    bundled = bundled_names(facts.libraries)
    for library in facts.libraries:
        linked = [name for name in library.elf.needed if HIP_RUNTIME.fullmatch(name) and name not in bundled]
        if linked:
            release = linked[0].rpartition(".")[2]
            yield note(
                "tied-to-rocm",
                f"{library.name} is linked to {linked[0]}: it loads where ROCm {release} is, and its metadata cannot say so",
                remedy=f"say so in the name, as in smooth-rocm{release}, or by an index of its own",
                where=library.path,
            )
            return


def _no_ptx(facts: Facts) -> Iterator[Finding]:
    found = merge_archs(arch for library in facts.libraries for arch in library.cuda)
    if found and not any(arch.ptx for arch in found):
        newest = max(found)
        yield note(
            "no-ptx",
            f"it has no PTX: on a GPU that is newer than sm_{newest.number} there is nothing to run",
            remedy=f'add "+PTX" to the newest architecture: OPSMITH_CUDA_ARCHS="...;{newest.major}.{newest.minor}+PTX"',
        )
