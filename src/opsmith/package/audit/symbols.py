"""Sorts the symbols that a library needs by whose they are: torch's C++ or C, Python's, CUDA's, the system's."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from opsmith.package.audit.elf import Elf
from opsmith.package.audit.tables import limited_api
from opsmith.toolchain.shims import shim_table

__all__ = ["Needs", "is_shim_name", "is_unstable_torch", "sort_needs"]

# Names in at::, c10::, torch:: and caffe2::, and their vtables and type information. Whatever is in a namespace begins with
# N; what is only made from such a type, a template of std for example, belongs to who instantiates it.
_TORCH_CPP = re.compile(r"_Z(?:T[VISTC]|GV|TH|TW|Th\w*?_|Tv\w*?_)?(?:N[VKRO]*)(?:2at|3c10|5torch|6caffe2|5at_op)\D?")
_TORCH_CLASS = re.compile(r"THP[A-Z]\w+|THC?[A-Z]\w+_\w+")

_DRIVER = re.compile(r"cu[A-Z]\w+")
_RUNTIME = re.compile(r"(?:__)?cuda[A-Z]\w+")
_CUDA_LIBRARY = re.compile(r"(cublas|cusparse|cusolver|cufft|curand|cudnn|nccl|nvrtc|nvjpeg|npp)[A-Z]\w+|(nvrtc)\w+")
_PYTHON = re.compile(r"_?Py[A-Z_]\w+|_Py\w+")


@dataclass(frozen=True)
class Needs:
    """The undefined symbols of a library, without weak ones, which may stay undefined."""

    torch_cpp: tuple[str, ...] = ()
    shims: tuple[str, ...] = ()
    unknown_shims: tuple[str, ...] = ()  # named like functions of torch's C ABI, in no release of the table
    python_limited: tuple[str, ...] = ()
    python_private: tuple[str, ...] = ()  # outside of the limited API
    cuda_driver: tuple[str, ...] = ()
    cuda_runtime: tuple[str, ...] = ()
    cuda_libraries: tuple[str, ...] = ()

    @property
    def python(self) -> tuple[str, ...]:
        """Everything of Python's."""
        return (*self.python_limited, *self.python_private)

    @property
    def uses_torch(self) -> bool:
        """Whether anything of torch's is needed."""
        return bool(self.torch_cpp or self.shims or self.unknown_shims)


def is_unstable_torch(symbol: str) -> bool:
    """Tell whether a symbol belongs to torch's C++ API, which changes with every release."""
    return _TORCH_CPP.match(symbol) is not None or _TORCH_CLASS.fullmatch(symbol) is not None


def is_shim_name(symbol: str) -> bool:
    """Tell whether a symbol is named like a function of torch's stable C ABI."""
    return symbol.startswith(("aoti_torch_", "torch_"))


def sort_needs(elf: Elf, provided: Iterable[str] = ()) -> Needs:
    """Return what a library needs of others; `provided` are the symbols of libraries that are delivered with it."""
    there = set(provided)
    api, shims = limited_api().since, shim_table().since
    found: dict[str, list[str]] = {}
    for symbol in elf.symbols:
        name = symbol.name
        # A symbol with a version belongs to a library of the system, whatever its name looks like.
        if symbol.is_defined or symbol.is_weak or name in there or symbol.version:
            continue
        if name in shims:
            found.setdefault("shims", []).append(name)
        elif is_shim_name(name):
            found.setdefault("unknown_shims", []).append(name)
        elif is_unstable_torch(name):
            found.setdefault("torch_cpp", []).append(name)
        elif name in api:
            found.setdefault("python_limited", []).append(name)
        elif _PYTHON.fullmatch(name):
            found.setdefault("python_private", []).append(name)
        elif _RUNTIME.fullmatch(name):
            found.setdefault("cuda_runtime", []).append(name)
        elif _DRIVER.fullmatch(name):
            found.setdefault("cuda_driver", []).append(name)
        elif _CUDA_LIBRARY.fullmatch(name):
            found.setdefault("cuda_libraries", []).append(name)
    return Needs(**{kind: tuple(sorted(names)) for kind, names in found.items()})
