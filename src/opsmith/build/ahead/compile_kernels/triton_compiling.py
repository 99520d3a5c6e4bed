"""Compiles one variant of a Triton kernel."""

from __future__ import annotations

from typing import Any

from .images import Image
from .triton_errors import compile_error
from .triton_kernel import RefusalError

__all__ = ["compile_variant", "describe"]

_WARP_SIZE = 32  # NVIDIA's; Triton 3.4 does not tell


def compile_variant(function: Any, variant: dict[str, Any], image: str) -> Image | str:
    """Return an image of a kernel, or the message of what is wrong with it."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    import triton

    kind, _, arch = image.partition(":")
    names = list(variant["types"])
    multiples = {(names.index(name),): [["tt.divisibility", 16]] for name in variant["multiples"]}
    source = ASTSource(function, variant["types"], variant["constants"], multiples)
    try:
        made = triton.compile(source, target=GPUTarget("cuda", int(arch), 32), options=variant["options"])
        _refuse(made.metadata)
    except Exception as error:
        return compile_error(error, function)
    text = made.asm["ptx"]
    arguments = sum(kind != "constexpr" for kind in variant["types"].values())
    return Image(
        arch=int(arch),
        is_exact=f".target sm_{arch}a" in text,
        is_ptx=kind == "ptx",
        threads=made.metadata.num_warps * _WARP_SIZE,
        shared_bytes=made.metadata.shared,
        scratch=text.partition(".entry")[2].partition("{")[0].count(".param ") - arguments,
        name=made.metadata.name,
        data=text.encode() + b"\0" if kind == "ptx" else made.asm["cubin"],
    )


def _refuse(metadata: Any) -> None:
    """Raise RefusalError for what a launch would need and launchers do not do."""
    needs = {
        "scratch memory on the GPU (tensor descriptors made in the kernel, profiling)": metadata.global_scratch_size
        or getattr(metadata, "profile_scratch_size", 0),
        "tensor descriptors": getattr(metadata, "tensordesc_meta", None),
        "a cooperative launch": metadata.launch_cooperative_grid,
        "clusters of blocks (num_ctas)": metadata.num_ctas != 1,
    }
    for what, is_needed in needs.items():
        if is_needed:
            raise RefusalError(f"it needs {what}, which a kernel compiled ahead cannot have yet")


def describe(variant: dict[str, Any]) -> str:
    """Return a variant's types, constants and options, for a message."""
    words = [f"{name}={kind}" for name, kind in variant["types"].items() if kind != "constexpr"]
    words += [f"{name}={value!r}" for name, value in {**variant["constants"], **variant["options"]}.items()]
    return ", ".join(words)
