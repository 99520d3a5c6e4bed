"""Compiles one variant of a Triton kernel."""

from __future__ import annotations

from typing import Any

from .images import Image
from .triton_errors import compile_error
from .triton_kernel import RefusalError
from .triton_targets import find_target

__all__ = ["compile_variant", "describe"]

_MOST_THREADS = 1024  # of a block, on every GPU


def compile_variant(function: Any, variant: dict[str, Any], wanted: str) -> Image | str:
    """Return an image of a kernel, or the message of what is wrong with it."""
    from triton.compiler import ASTSource

    import triton

    target = find_target(wanted)
    names = list(variant["types"])
    hints = {(names.index(name),): found for name in names if (found := target.hints(variant, name))}
    source = ASTSource(function, variant["types"], variant["constants"], hints)
    try:
        made = triton.compile(source, target=target.gpu(), options=variant["options"])
        image = target.image(made, sum(kind != "constexpr" for kind in variant["types"].values()))
        _refuse(made.metadata, image)
    except Exception as error:
        return compile_error(error, function)
    return image


def _refuse(metadata: Any, image: Image) -> None:
    """Raise RefusalError for what a launch would need and launchers or GPUs do not do."""
    if image.threads > _MOST_THREADS:
        warp_size = image.threads // metadata.num_warps
        raise RefusalError(
            f"{metadata.num_warps} warps of {warp_size} threads are more than the {_MOST_THREADS} threads that a block "
            f"may have; give it num_warps={_MOST_THREADS // warp_size} or less"
        )
    scratch = [getattr(metadata, f"{name}_scratch_size", 0) for name in ("global", "profile")]
    needs = {
        "scratch memory on the GPU (tensor descriptors made in the kernel, profiling)": any(scratch),
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
