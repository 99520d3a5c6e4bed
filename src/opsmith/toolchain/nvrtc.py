"""Finds NVRTC, NVIDIA's compiler for CUDA C++ in a library, which needs no toolkit: the wheel that torch brings is enough.

https://docs.nvidia.com/cuda/nvrtc
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opsmith import _env
from opsmith.errors import ToolchainError
from opsmith.toolchain.probe import ProbeCache, default_probes
from opsmith.toolchain.search import chosen_toolkit

__all__ = ["NvrtcInstall", "find_nvrtc", "nvrtc_note"]

# The oldest that opsmith's headers are for: the first with C++20.
_OLDEST_MAJOR = 12

_PROBE = Path(__file__).with_name("nvrtc_probe.py")
# A toolkit's library, with the major version of CUDA in its name; libnvrtc.alt.so.13 is another of NVIDIA's.
_LIBRARY = re.compile(r"libnvrtc\.so\.(\d+)")
_LIB_FOLDERS = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")
# Where packages of a system put toolkits, and Debian's its libraries.
_SYSTEM = Path("/usr/local")
_DEBIAN = (Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib/aarch64-linux-gnu"), Path("/usr/lib64"))


@dataclass(frozen=True)
class NvrtcInstall:
    """An NVRTC. `archs` are what it compiles for, such as "9.0"; `includes` the folders of CUDA's headers beside it."""

    python: Path
    library: Path
    version: str  # 13.0
    build: str  # of the library's own
    archs: tuple[str, ...]
    includes: tuple[Path, ...]

    @property
    def identity(self) -> str:
        """What must be equal for two of them to make the same binary; no path is in it."""
        return f"NVRTC {self.version} ({self.build})"


def find_nvrtc(*, fit: str | None = None, probes: ProbeCache | None = None) -> NvrtcInstall:
    """Return the NVRTC of CUDA_HOME or CUDA_PATH, else of NVIDIA's wheels, of conda, or of an installed toolkit.

    `fit` is the CUDA that torch is built for: an NVRTC of its major version comes before others. Raises ToolchainError if
    there is none, or it is too old or broken.
    """
    found = _choose(fit)
    if found is None:
        major = (fit or "13").split(".", maxsplit=1)[0]
        wheel = '"opsmith[nvrtc]"' if int(major) >= 13 else f"nvidia-cuda-nvrtc-cu{major}"
        raise ToolchainError(
            "This machine has no NVRTC (libnvrtc.so), which compiles the kernels of `opsmith.kernel`. torch for CUDA brings "
            f"it along; elsewhere `pip install {wheel}` does, or CUDA_HOME names a toolkit. Where a library is only loaded, "
            "it is not needed"
        )
    answer = (probes or default_probes()).ask(
        Path(sys.executable), "-I", "-S", str(_PROBE), str(found), depends_on=lambda _: (found, _PROBE)
    )
    facts = json.loads(answer)
    if facts["version"][0] < _OLDEST_MAJOR:
        raise ToolchainError(f"{found} is of CUDA {facts['version'][0]}; opsmith needs {_OLDEST_MAJOR} or newer")
    return NvrtcInstall(
        python=Path(sys.executable),
        library=found,
        version=".".join(map(str, facts["version"])),
        build=facts["build"],
        archs=tuple(f"{arch // 10}.{arch % 10}" for arch in facts["archs"]),
        includes=tuple(_includes(found)),
    )


def nvrtc_note(fit: str | None) -> str:
    """Return which NVRTC would be found, by its path; nothing if there is none. The probe cache knows its version."""
    return str(_choose(fit) or "")


def _choose(fit: str | None) -> Path | None:
    libraries = list(_candidates())
    wanted = (fit or "").split(".", maxsplit=1)[0]
    return next((library for library in libraries if _major(library) == wanted), next(iter(libraries), None))


def _major(library: Path) -> str:
    found = _LIBRARY.fullmatch(library.name)
    return found[1] if found else ""


def _candidates() -> Iterator[Path]:
    """Yield the libraries that are installed in usual folders, in order of preference."""
    for folder in _folders():
        found = [file for file in folder.glob("libnvrtc.so.*") if _LIBRARY.fullmatch(file.name)]
        yield from sorted(found, key=lambda file: -int(_major(file)))


def _folders() -> Iterator[Path]:
    chosen = [root for name in ("CUDA_HOME", "CUDA_PATH") if (root := chosen_toolkit(name))]
    yield from (root / name for root in chosen for name in _LIB_FOLDERS)
    for entry in dict.fromkeys(sys.path):
        nvidia = Path(entry or ".").absolute() / "nvidia"
        # nvidia/cu13; the wheels of CUDA 12 have a folder for each part.
        yield from sorted(nvidia.glob("cu[0-9]*/lib"), reverse=True)
        yield nvidia / "cuda_nvrtc" / "lib"
    activated = _env.read("CONDA_PREFIX")
    here = sys.prefix if Path(sys.prefix, "conda-meta").is_dir() else None
    toolkits = [Path(prefix) for prefix in dict.fromkeys(filter(None, (activated, here)))]
    toolkits += [_SYSTEM / "cuda", *sorted(_SYSTEM.glob("cuda-[0-9]*"), reverse=True)]
    yield from (root / name for root in toolkits for name in _LIB_FOLDERS)
    yield from _DEBIAN


def _includes(library: Path) -> Iterator[Path]:
    """Yield the folders with the headers of CUDA that belong to a library: of its wheel or its toolkit."""
    root = library.parent.parent
    # The wheels of CUDA 12 have the headers of the runtime in another folder; Debian's are in /usr/include.
    for folder in (root / "include", root.parent / "cuda_runtime" / "include", root.parent / "include"):
        if (folder / "cuda_fp16.h").is_file():
            yield folder
            if (folder / "cccl").is_dir():
                yield folder / "cccl"
            return
