"""Compiles the variants of a kernel, in several processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from typing import Any

from .errors import compile_error
from .images import Image
from .kernel import RefusalError

__all__ = ["compile_all", "describe"]

# Below so many compilations another process costs more than it saves. Several kernels are compiled side by side, so one
# does not take all cores; each process needs 200 MB.
_WORTH_A_PROCESS, _MOST_PROCESSES = 2, 4
_WARP_SIZE = 32  # NVIDIA's; Triton 3.4 does not tell


def compile_all(function: Any, tasks: list[tuple[dict[str, Any], str]]) -> Iterator[Image | str]:
    """Yield the image of each task, or the message of its error. Several processes share the work."""
    processes = min(len(os.sched_getaffinity(0)), len(tasks) // _WORTH_A_PROCESS, _MOST_PROCESSES)
    if processes < 2:
        yield from (_compile(function, variant, image) for variant, image in tasks)
        return
    # PTX comes after machine code, in the same process: what both need is in Triton's cache by then.
    images = {image for _, image in tasks}
    together = len(images) if any(image.startswith("ptx:") for image in images) else 1
    # Forked, they have Triton and the kernel already.
    _forked.append(function)
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap(_compile_forked, tasks, together)


# The kernel, for the processes that are forked.
_forked: list[Any] = []


def _compile_forked(task: tuple[dict[str, Any], str]) -> Image | str:
    return _compile(_forked[0], *task)


def _compile(function: Any, variant: dict[str, Any], image: str) -> Image | str:
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
