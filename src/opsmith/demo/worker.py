"""Runs one library's operators on saved arguments, in a process that has PyTorch and nothing of opsmith.

    python worker.py LIBRARY CALLS RESULTS THREADS

PyTorch holds an operator once, so each library gets a process of its own. This file is run by its path and imports nothing
but torch: it shows that a library works without opsmith.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypedDict

import torch
from torch import Tensor

__all__ = ["Call", "run_calls"]


class Call(TypedDict):
    """One call: what to call it in a report, the operator as `namespace::name`, the device, and the arguments."""

    name: str
    operator: str
    device: str
    arguments: list[Tensor]


def run_calls(calls: Iterable[Call]) -> list[list[Tensor]]:
    """Return the outputs of each call, on the CPU."""
    results = []
    for call in calls:
        namespace, _, name = call["operator"].partition("::")
        operator = getattr(getattr(torch.ops, namespace), name)
        arguments = [_copy_to(argument, call["device"]) for argument in call["arguments"]]
        outputs = operator(*arguments)
        results.append([output.cpu() for output in ([outputs] if isinstance(outputs, Tensor) else outputs)])
    return results


def _copy_to(tensor: Tensor, device: str) -> Tensor:
    """Return a tensor with the same strides elsewhere; `Tensor.to` would make some of them dense."""
    if tensor.device.type == device:
        return tensor
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device).copy_(tensor)


def _main(library: str, calls: str, results: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    torch.ops.load_library(library)
    outputs = run_calls(torch.load(calls, weights_only=True))
    if "opsmith" in sys.modules:
        sys.exit("opsmith was imported, so this proves nothing")
    torch.save(outputs, results)


if __name__ == "__main__":
    _main(*sys.argv[1:])
