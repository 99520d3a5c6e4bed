"""Finds the headers that a kernel includes, which NVRTC does not tell, and offers it those that a kernel may include.

NVRTC has no headers of a host: <cstdint> is offered here. Of opsmith's it gets those that are for GPUs alone.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .producer import FailureError

__all__ = ["Headers", "why_missing"]

# Of opsmith's headers, those without a host side.
_OFFERED = ("divide.h", "host_device.h", "lanes.h", "math.h", "types.h")

# As CUDA's own headers have them for NVRTC (cuda/std/cstdint).
_CSTDINT = """#pragma once
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef long long intptr_t;
typedef unsigned long long uintptr_t;
typedef long ptrdiff_t;
namespace std {
using ::int8_t, ::int16_t, ::int32_t, ::int64_t, ::uint8_t, ::uint16_t, ::uint32_t, ::uint64_t;
using ::intptr_t, ::uintptr_t, ::ptrdiff_t, ::size_t;
}  // namespace std
"""
_OWN = {"cstdint": _CSTDINT, "stdint.h": "#include <cstdint>\n", "cstddef": "#include <cstdint>\n"}

# The beginnings of the names of CUDA's own.
_CUDA = ("cuda", "cooperative_groups", "mma", "crt/", "nv/", "cub/", "thrust/", "vector_types", "curand")

_INCLUDE = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*(?:\"(?P<quoted>[^\"\n]+)\"|<(?P<angle>[^>\n]+)>|(?P<macro>\w+))", re.MULTILINE
)


@dataclass(frozen=True)
class Headers:
    """The folders of headers: opsmith's, the user's, CUDA's, and one in which what is offered is laid out."""

    opsmith: Path
    users: tuple[Path, ...]
    cuda: tuple[Path, ...]
    offered: Path

    def lay_out(self) -> None:
        """Write the headers that NVRTC is offered."""
        (self.offered / "opsmith").mkdir()
        for name in _OFFERED:
            shutil.copyfile(self.opsmith / "opsmith" / name, self.offered / "opsmith" / name)
        for name, text in _OWN.items():
            (self.offered / name).write_text(text, encoding="utf-8")

    @property
    def options(self) -> list[str]:
        """The options that make NVRTC find them."""
        return [f"-I{folder}" for folder in (*self.users, self.offered, *self.cuda)]

    def closure(self, file: Path) -> list[str]:
        """Return a file and all that it includes, directly or not, under whatever condition.

        Raises FailureError for an `#include` whose header a macro names: what it reads could not be known.
        """
        found: dict[Path, None] = {}
        todo = [file]
        while todo:
            each = todo.pop()
            if each not in found:
                found[each] = None
                todo += self._included(each)
        return [str(each) for each in found]

    def _included(self, file: Path) -> Iterator[Path]:
        text = file.read_text(encoding="utf-8", errors="replace")
        for match in _INCLUDE.finditer(text):
            name = match["quoted"] or match["angle"]
            if name is None:
                # CUDA's own may do so, for what depends on the host.
                if any(file.is_relative_to(folder) for folder in self.cuda):
                    continue
                line = text.count("\n", 0, match.start()) + 1
                raise FailureError(
                    f"{file}({line}): error: the header's name is a macro, {match['macro']}, and opsmith has to know what a "
                    "kernel is made of; write the name itself"
                )
            folders = [*([file.parent] if match["quoted"] else []), *self.users]
            if name.startswith("opsmith/") and name.removeprefix("opsmith/") in _OFFERED:
                folders.append(self.opsmith)
            candidates = (folder / name for folder in (*folders, *self.cuda))
            # One that is not there may stand under a condition that does not hold.
            yield from [candidate for candidate in candidates if candidate.is_file()][:1]


def why_missing(header: str) -> str:
    """Return why NVRTC does not find a header, and what to do."""
    offered = ", ".join(f"<opsmith/{name}>" for name in _OFFERED if name != "host_device.h")
    if header.startswith("opsmith/"):
        return (
            f"<{header}> has a host side, and NVRTC compiles for GPUs alone. A kernel of opsmith.kernel may include "
            f'{offered} and <cstdint>; a file that launches its kernels itself is named alone, cuda="file.cu", and nvcc '
            "compiles it"
        )
    if header.startswith(_CUDA):
        return (
            f"{header} is not beside NVRTC. CUDA's headers are in other wheels: nvidia-cuda-runtime, nvidia-cuda-crt (crt/) "
            "and nvidia-cuda-cccl (cuda/std, cub, nv/). A toolkit has them beside its own NVRTC, and CUDA_HOME names one"
        )
    return (
        f"{header} is neither in the kernel's folder nor a header that NVRTC has, which has none of the host's. A kernel of "
        f"opsmith.kernel may include {offered} and <cstdint>, CUDA's headers, and its own. What only a host needs goes "
        "between `#ifndef __CUDACC_RTC__` and `#endif`"
    )
