"""Tells what a kernel of a detector's step does by its name, for benchmarks/detection_profile.py and the table from it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

__all__ = ["KINDS", "by_kind"]

# Kinds of kernels by patterns of their names, the first that fits. What no pattern knows is "others".
KINDS: tuple[tuple[str, str], ...] = (
    ("copies and zeros", r"^Mem(cpy|set)"),
    ("detection operators", r"opsmith|vision::ops"),
    ("NCHW to NHWC and back", r"nchwToNhwc|nhwcToNchw|nchw_to_nhwc|nhwc_to_nchw|convert_tensor"),
    (
        "convolutions",
        r"cudnn|conv|wgrad|dgrad|fprop|implicit|winograd|(sm\d+|cutlass|xmma).*nhwc",
    ),
    ("matrix products", r"gemm|gemv|cublas|cutlass|splitK|nvjet"),
    ("optimizer", r"multi_tensor|FusedSgd|FusedAdam|foreach|lpnorm"),
    (
        "sorting and choosing",
        r"sort|topk|radix|scan|gather|scatter|index|nonzero|bitonic|Select|Reduce(By)?Kernel|histogram|unique",
    ),
    ("reductions and losses", r"reduce|softmax|loss|nll|cross_entropy|norm_kernel|mean"),
    (
        "elementwise, batch norm among them",
        r"elementwise|vectorized|unrolled|CatArray|upsample|batch_norm|relu|fill|triton",
    ),
)


def by_kind(kernels: Iterable[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Return the seconds and the launches of a step of each kind, the longest first."""
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for kernel in kernels:
        kind = next((kind for kind, pattern in KINDS if re.search(pattern, kernel["name"], re.IGNORECASE)), "others")
        found[kind][0] += kernel["seconds"]
        found[kind][1] += kernel["launches"]
    ordered = sorted(found.items(), key=lambda one: -one[1][0])
    return {kind: (seconds, launches) for kind, (seconds, launches) in ordered}
