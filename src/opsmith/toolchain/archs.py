"""Parses lists of GPU architectures such as '8.0;9.0a+PTX' and 'gfx90a gfx942', and releases of CUDA."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from opsmith.errors import DefinitionError, ToolchainError

__all__ = ["CudaArch", "RocmArch", "parse_cuda_archs", "parse_cuda_release", "parse_rocm_archs", "split_archs"]

_SEPARATORS = re.compile(r"[;,\s]+")

_CUDA_WORD = re.compile(
    r"""
      (?: (?P<major>\d{1,2})\.(?P<minor>\d)      # 9.0
        | (?P<code>sm_?|compute_)?(?P<number>\d{2,3}) )   # sm_90, compute_90, 90
      (?P<suffix>[af]?)
      (?P<ptx>\+ptx)?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_ROCM_WORD = re.compile(r"gfx(?:[0-9a-f]{3,5}|[0-9]{1,2}(?:-[0-9])?-generic)(?::[a-z]+[+-])*")

Suffix = Literal["", "a", "f"]
_SUFFIXES: dict[str, Suffix] = {"": "", "a": "a", "f": "f"}

# The first architectures with instructions of their own ("a") and with a family ("f").
_FIRST_WITH_SUFFIX = {"": (5, 0), "a": (9, 0), "f": (10, 0)}

# The names that PyTorch's TORCH_CUDA_ARCH_LIST knows, as it understands them.
_GENERATIONS = {
    "maxwell": "5.0;5.2+PTX",
    "maxwell+tegra": "5.3",
    "pascal": "6.0;6.1+PTX",
    "volta": "7.0+PTX",
    "volta+tegra": "7.2",
    "turing": "7.5+PTX",
    "ampere": "8.0;8.6+PTX",
    "ampere+tegra": "8.7",
    "ada": "8.9+PTX",
    "hopper": "9.0+PTX",
    "blackwell": "10.0;10.3;12.0;12.1+PTX",
    "blackwell+tegra": "11.0",
}
# What the word "common" (CMake's, for what is in wide use) stands for, as far as nvcc compiles for it.
_COMMON = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")

_EXAMPLES = "Write them like '8.0;9.0+PTX', '9.0a', '10.0f', 'sm_90' or 'native'."


@dataclass(frozen=True, order=True)
class CudaArch:
    """One CUDA architecture: machine code for it (sass), PTX for it and everything newer, or both.

    The suffix "a" allows instructions of exactly this architecture, "f" those of its family.
    """

    major: int
    minor: int
    suffix: Suffix = ""
    sass: bool = True
    ptx: bool = False

    @property
    def number(self) -> str:
        """As nvcc writes it: 90a."""
        return f"{self.major}{self.minor}{self.suffix}"

    @property
    def name(self) -> str:
        """As people write it: 9.0a."""
        return f"{self.major}.{self.minor}{self.suffix}"

    @property
    def gencode(self) -> tuple[str, ...]:
        """The flags that make nvcc compile for it."""
        codes = [f"{code}_{self.number}" for code, is_wanted in (("sm", self.sass), ("compute", self.ptx)) if is_wanted]
        return tuple(f"-gencode=arch=compute_{self.number},code={code}" for code in codes)

    def __str__(self) -> str:
        return self.name + ("+PTX" if self.sass and self.ptx else " (PTX)" if self.ptx else "")


@dataclass(frozen=True, order=True)
class RocmArch:
    """One ROCm architecture, with the features that it is restricted to, such as gfx90a:xnack-."""

    name: str

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags that make hipcc compile for it."""
        return (f"--offload-arch={self.name}",)

    def __str__(self) -> str:
        return self.name


def split_archs(text: str) -> tuple[str, ...]:
    """Return the words of a list of architectures, as they are written."""
    return tuple(filter(None, _SEPARATORS.split(text)))


def parse_cuda_archs(
    text: str, *, native: Sequence[str] = (), supported: Sequence[str] = (), compiler: str = "nvcc"
) -> tuple[CudaArch, ...]:
    """Return the architectures of a list, each once and the oldest first, so that equal lists make equal artefacts.

    `native` are the capabilities of this machine's GPUs and `supported` what the compiler does, both like "9.0". Where
    `supported` is given, an architecture outside it is refused, and the words "all" and "all-major" may be used;
    "common" stands for what is in wide use. Raises ToolchainError if a word means nothing, or is "native" on a
    machine without a GPU.
    """
    words = split_archs(text)
    if not words:
        raise ToolchainError(f"The list of CUDA architectures is empty. {_EXAMPLES}")
    merged: dict[str, CudaArch] = {}
    for word in words:
        for arch in _expand_cuda(word, native, supported):
            known = merged.get(arch.number, arch)
            merged[arch.number] = replace(arch, sass=arch.sass or known.sass, ptx=arch.ptx or known.ptx)
    for arch in merged.values():
        if supported and f"{arch.major}.{arch.minor}" not in supported:
            raise ToolchainError(
                f"CUDA architecture {arch.name} is requested, but this {compiler} only compiles for {', '.join(supported)}."
            )
    return tuple(sorted(merged.values()))


def parse_rocm_archs(text: str, *, native: Sequence[str] = ()) -> tuple[RocmArch, ...]:
    """Return the architectures of a list such as 'gfx90a;gfx942', each once and in order.

    `native` are the architectures of this machine's GPUs. Raises ToolchainError if a word means nothing, or is
    "native" on a machine without a GPU.
    """
    names: set[str] = set()
    for word in split_archs(text):
        if word.lower() == "native":
            names.update(_native(native, "ROCm", "PYTORCH_ROCM_ARCH or OPSMITH_ROCM_ARCHS, such as 'gfx90a;gfx942'"))
        elif _ROCM_WORD.fullmatch(word):
            names.add(word)
        else:
            raise ToolchainError(
                f"{word!r} is not a ROCm architecture. Write them like 'gfx90a;gfx942' or 'gfx90a:xnack-'."
            )
    if not names:
        raise ToolchainError("The list of ROCm architectures is empty. Write them like 'gfx90a;gfx942'.")
    return tuple(RocmArch(name) for name in sorted(names))


def parse_cuda_release(text: str, where: str) -> str:
    """Return a release of CUDA, such as "12" or "12.8"; raises DefinitionError for what is none."""
    if re.fullmatch(r"\d{2}(\.\d+)?", text) is None:
        raise DefinitionError(f'{where}: {text!r} is not a release of CUDA such as "12" or "12.8"')
    return text


def _expand_cuda(word: str, native: Sequence[str], supported: Sequence[str]) -> tuple[CudaArch, ...]:
    """Return what one word of a list stands for."""
    name = word.lower()
    if name == "native":
        found = _native(native, "CUDA", "TORCH_CUDA_ARCH_LIST or OPSMITH_CUDA_ARCHS, such as '8.0;9.0+PTX'")
        return tuple(_parse_cuda(capability) for capability in found)
    if name == "common":
        usual = [_parse_cuda(capability) for capability in _COMMON if not supported or capability in supported]
        return (*usual, replace(usual[-1], ptx=True)) if usual else ()
    if name in {"all", "all-major"} and supported:
        archs = sorted(_parse_cuda(capability) for capability in supported)
        # As nvcc's own words of that name: with PTX for what comes after the newest.
        chosen = [arch for arch in archs if name == "all" or arch.minor == 0 or arch == archs[0]]
        return (*chosen, replace(chosen[-1], ptx=True))
    if name in _GENERATIONS:
        return tuple(_parse_cuda(part) for part in _GENERATIONS[name].split(";"))
    return (_parse_cuda(word),)


def _parse_cuda(word: str) -> CudaArch:
    found = _CUDA_WORD.fullmatch(word)
    if _ROCM_WORD.fullmatch(word):
        raise ToolchainError(
            f"{word!r} is one of AMD's architectures, and this build is for CUDA's. A library is for one of the two: with a "
            "torch for ROCm, or for CPUs alone, name AMD's alone."
        )
    if found is None:
        raise ToolchainError(f"{word!r} is not a CUDA architecture. {_EXAMPLES}")
    number = found["number"]
    major, minor = (int(number[:-1]), int(number[-1])) if number else (int(found["major"]), int(found["minor"]))
    suffix = _SUFFIXES[found["suffix"].lower()]
    if (major, minor) < _FIRST_WITH_SUFFIX[suffix] or major >= 50:
        raise ToolchainError(f"{word!r} is not a CUDA architecture: there is no {major}.{minor}{suffix}. {_EXAMPLES}")
    is_virtual = (found["code"] or "").lower() == "compute_"
    return CudaArch(major, minor, suffix, sass=not is_virtual, ptx=is_virtual or bool(found["ptx"]))


def _native(found: Sequence[str], kind: str, remedy: str) -> Sequence[str]:
    if not found:
        raise ToolchainError(
            f"'native' means the architecture of this machine's GPU, but no {kind} device was found. Name the "
            f"architectures with {remedy}."
        )
    return found
