"""Says what differs between the GPUs that Triton compiles for: NVIDIA's and AMD's."""

from __future__ import annotations

import re
from typing import Any, Protocol

from .images import Image

__all__ = ["Target", "find_target"]

_WARP_SIZE = 32  # NVIDIA's; Triton 3.4 does not tell


class Target(Protocol):
    """What an image is for: Triton's own name of it, what a variant may claim there, and what comes out."""

    def gpu(self) -> Any:
        """Return Triton's target."""

    def hints(self, variant: dict[str, Any], name: str) -> list[list[Any]]:
        """Return what is known of a parameter, as Triton's compiler reads it."""

    def image(self, made: Any, arguments: int) -> Image:
        """Return the image of a compiled kernel that takes so many arguments."""


def find_target(image: str) -> Target:
    """Return the target of an image as the step asks for it: "cubin:90", "ptx:80", "hsaco:gfx90a"."""
    kind, _, arch = image.partition(":")
    return _Amd(arch) if kind == "hsaco" else _Nvidia(kind, int(arch))


class _Nvidia:
    def __init__(self, kind: str, arch: int) -> None:
        self.kind, self.arch = kind, arch

    def gpu(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.arch, _WARP_SIZE)

    def hints(self, variant: dict[str, Any], name: str) -> list[list[Any]]:
        return [["tt.divisibility", 16]] if name in variant["multiples"] else []

    def image(self, made: Any, arguments: int) -> Image:
        text = made.asm["ptx"]
        return Image(
            kind=self.kind,
            arch=self.arch,
            is_exact=f".target sm_{self.arch}a" in text,
            threads=made.metadata.num_warps * _WARP_SIZE,
            shared_bytes=made.metadata.shared,
            scratch=text.partition(".entry")[2].partition("{")[0].count(".param ") - arguments,
            name=made.metadata.name,
            data=text.encode() + b"\0" if self.kind == "ptx" else made.asm["cubin"],
        )


class _Amd:
    def __init__(self, arch: str) -> None:
        self.arch = arch
        # As Triton has it: CDNA and what came before have 64 threads in a warp, RDNA has 32.
        self.warp_size = 32 if int(arch.removeprefix("gfx")[:-2]) >= 10 else 64

    def gpu(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("hip", self.arch, self.warp_size)

    def hints(self, variant: dict[str, Any], name: str) -> list[list[Any]]:
        multiple = [["tt.divisibility", 16]] if name in variant["multiples"] else []
        # Offsets of 32 bits in bytes make buffer instructions of loads and stores.
        return [*multiple, ["tt.pointer_range", 32]] if name in variant["near"] else multiple

    def image(self, made: Any, arguments: int) -> Image:
        # The arguments in the code object's metadata, of which those that the compiler adds for itself are "hidden".
        kinds = re.findall(r"\.value_kind:\s*(\w+)", made.asm["amdgcn"])
        return Image(
            kind="hsaco",
            arch=int(self.arch.removeprefix("gfx"), 16),
            is_exact=True,
            threads=made.metadata.num_warps * self.warp_size,
            shared_bytes=made.metadata.shared,
            scratch=sum(not kind.startswith("hidden_") for kind in kinds) - arguments,
            name=made.metadata.name,
            data=made.asm["hsaco"],
        )
