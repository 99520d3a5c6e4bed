"""Refuses what waits for a GPU: on one, and without one what would."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Refusing", "refusing_to_wait"]

WAITING = {
    f"aten::{name}"
    for name in (
        "_local_scalar_dense", "item", "nonzero", "nonzero_numpy", "argwhere", "masked_select", "_unique", "_unique2",
        "unique_dim", "unique_consecutive", "unique_dim_consecutive", "is_nonzero", "equal", "bincount",
    )
}  # fmt: skip
INDEXING = ("aten::index", "aten::_unsafe_index")


class Refusing(TorchDispatchMode):
    """Raises at operations that wait for a GPU if their tensors are on one."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        indices = args[1] if name.startswith(INDEXING) and len(args) > 1 and isinstance(args[1], list) else ()
        if name in WAITING or any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices):
            raise AssertionError(f"{name} waits for the GPU")
        if name == "aten::repeat_interleave" and (kwargs or {}).get("output_size") is None:
            raise AssertionError(f"{name} waits for the GPU")
        return func(*args, **(kwargs or {}))


@contextmanager
def refusing_to_wait() -> Iterator[None]:
    """Raise RuntimeError at any call within that waits for the GPU."""
    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that it does not know of all
            torch.cuda.set_sync_debug_mode("error")
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
