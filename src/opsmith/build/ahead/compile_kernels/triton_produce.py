"""Imports a kernel's file and compiles what is asked for with Triton."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from .images import Image
from .importing import error_at_line
from .producer import FailureError, Order, Produced, compile_all
from .triton_compiling import compile_variant, describe
from .triton_kernel import files_of, import_kernel, place_of

__all__ = ["produce"]


def produce(order: Order) -> Produced:
    """Return the images of an order; raises FailureError for a kernel that cannot be imported or compiled."""
    request = order.request
    with tempfile.TemporaryDirectory(dir=order.output.absolute().parent, prefix="triton-") as cache:
        _prepare_triton(Path(cache))
        before = set(sys.modules)
        try:
            function = import_kernel(order.kernel, request["module"], request["function"])
        except Exception as error:
            raise FailureError(error_at_line(error, (str(order.kernel),))) from None
        images: list[Image] = []
        tasks = [(variant, image) for variant in request["kernels"] for image in order.images]
        # PTX comes after machine code, in the same process: what both need is in Triton's cache by then.
        together = len(order.images) if any(image.startswith("ptx:") for image in order.images) else 1
        for (variant, _), made in zip(tasks, compile_all(partial(_compile, function), tasks, together), strict=False):
            if isinstance(made, str):
                file, line = place_of(function)
                raise FailureError(f"{made}\n{file}:{line}: note: compiled for {describe(variant)}")
            images.append(made)
    return Produced(images, files_of(function, before))


def _compile(function: Any, task: tuple[dict[str, Any], str]) -> Image | str:
    return compile_variant(function, *task)


def _prepare_triton(cache: Path) -> None:
    """Import Triton as it is without the user's settings: they are not part of what a build depends on."""
    for name in list(os.environ):
        if name.startswith(("TRITON_", "AMDGCN_")):
            del os.environ[name]
    os.environ["TRITON_CACHE_DIR"] = str(cache)
    # Lines lead to absolute paths, which would differ between machines.
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
    # Backends of other packages are found by a search through all that is installed; NVIDIA's and AMD's are in Triton.
    os.environ["TRITON_BACKENDS_IN_TREE"] = "1"
    warnings.simplefilter("ignore")
    from triton.runtime import cache as keys

    # The key of its cache has a digest of Triton's own files, half a gigabyte. In a cache of one run it tells nothing apart.
    if hasattr(keys, "triton_key"):
        keys.triton_key = lambda: ""
