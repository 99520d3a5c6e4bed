"""Finds Intel's compiler and writes the commands that compile SYCL sources."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from opsmith import _env
from opsmith.errors import MissingToolkitError
from opsmith.toolchain.probe import default_probes
from opsmith.toolchain.search import resolve_program

__all__ = [
    "SyclCompiler",
    "find_sycl_compiler",
    "find_sycl_root",
    "sycl_archs",
    "sycl_command",
    "sycl_link_command",
    "sycl_targets",
]

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_QUOTES_CHANGED = (2025, 2, 0)


@dataclass(frozen=True)
class SyclCompiler:
    """Intel's icpx with what belongs to it."""

    icpx: Path
    root: Path
    version: tuple[int, int, int]

    @property
    def include_dirs(self) -> tuple[Path, ...]:
        """Folders of SYCL's headers."""
        return (self.root / "include", self.root / "include" / "sycl")

    @property
    def library_dirs(self) -> tuple[Path, ...]:
        """Folders of SYCL's libraries."""
        return tuple(folder for folder in (self.root / "lib64", self.root / "lib") if folder.is_dir())


def find_sycl_root() -> Path | None:
    """Return the folder of icpx on PATH, or of the wheel intel-sycl-rt that comes with torch for XPU, or None."""
    if (icpx := resolve_program("icpx")) is not None:
        return icpx.resolve().parent.parent
    from importlib import metadata  # slow to import, and rarely needed

    try:
        files = metadata.files("intel-sycl-rt") or []
    except metadata.PackageNotFoundError:
        return None
    found = (Path(str(file.locate())).resolve().parent.parent for file in files if file.name == "libsycl.so")
    return next(found, None)


def find_sycl_compiler() -> SyclCompiler:
    """Return the icpx on PATH. Raises MissingToolkitError if there is none."""
    icpx = resolve_program("icpx")
    if icpx is None:
        raise MissingToolkitError(
            "SYCL sources need Intel's compiler, but icpx is not on PATH. Install the Intel oneAPI DPC++ compiler "
            "(https://www.intel.com/oneapi) and source its setvars.sh"
        )
    found = _VERSION.search(default_probes().ask(icpx, "--version"))
    version = (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)
    return SyclCompiler(icpx, icpx.resolve().parent.parent, version)


def sycl_archs() -> tuple[str, ...]:
    """Return the devices to compile for ahead of time: TORCH_XPU_ARCH_LIST, else those of this torch; () for none.

    Without any, kernels are compiled on the machine they run on. dg2 has no double precision in hardware, and is built
    for only on request.
    """
    if (text := _env.read("TORCH_XPU_ARCH_LIST")) is not None:
        return tuple(word for word in re.split(r"[,;\s]+", text) if word)
    import torch

    return tuple(arch for arch in torch.xpu.get_arch_list() if not arch.startswith("dg2"))


def sycl_targets(flags: Iterable[str], archs: Sequence[str]) -> tuple[str, ...]:
    """Return the flag that names the targets; empty if the user's flags have one."""
    if any(flag.startswith("-fsycl-targets=") for flag in flags):
        return ()
    return ("-fsycl-targets=spir64_gen,spir64" if archs else "-fsycl-targets=spir64",)


def sycl_command(compiler: SyclCompiler, host: str, host_flags: Sequence[str], flags: Sequence[str]) -> tuple[str, ...]:
    """Return the words that compile one SYCL source; the host compiler compiles what is not for the device."""
    standard = () if any(flag.startswith("-sycl-std=") for flag in flags) else ("-sycl-std=2020",)
    # icpx hands these on as one text, which the older ones unescape twice.
    escape = '\\"' if compiler.version >= _QUOTES_CHANGED else '\\\\"'
    options = " ".join(shlex.quote(flag.replace('"', escape)) for flag in host_flags)
    return (
        str(compiler.icpx),
        *host_flags,
        "-fsycl",
        *sycl_targets(flags, sycl_archs()),
        *standard,
        f"-fsycl-host-compiler={host}",
        f"-fsycl-host-compiler-options={options}",
        *flags,
    )


def sycl_link_command(compiler: SyclCompiler, flags: Sequence[str]) -> tuple[str, ...]:
    """Return the words that link the device code of all objects into one."""
    archs = sycl_archs()
    chosen = [flag for flag in flags if flag.startswith("-fsycl-targets=")][-1:]
    targets = chosen or sycl_targets(flags, archs)
    devices = ("-Xs", f"-device {','.join(archs)}") if archs else ()
    return (str(compiler.icpx), "-fsycl", "-fsycl-link", "--offload-compress", *targets, *devices)
