"""Loads libraries that were built elsewhere with PyTorch alone, without opsmith, and checks their operators.

    python benchmarks/foreign_binary.py LIBRARY... [--output results.json]

For libraries built with another torch and another Python (`opsmith build opsmith.ops.add2 --device cpu --device cuda
--arch 9.0`): nothing here imports opsmith, so only the binary and torch run. Operators are checked on the CPU and, if there
is one, on the GPU, against PyTorch's own formulas in float64.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from datetime import datetime, timezone
from pathlib import Path

import torch
from torch.nn import functional


def lltm(gates, cell):
    i, o, c = gates.chunk(3, dim=1)
    new_cell = cell + functional.elu(c) * torch.sigmoid(i)
    return torch.tanh(new_cell) * torch.sigmoid(o), new_cell


# Operator -> shapes of its inputs, and its formula.
OPERATORS = {
    "add2": (((1000, 37), (1000, 37)), lambda a, b: (a + b,)),
    "sigmoid": (((1000, 37),), lambda x: (torch.sigmoid(x),)),
    "lltm_gates": (((64, 384), (64, 128)), lltm),
}
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}


def check(name: str, device: str, dtype: torch.dtype) -> float:
    """Return the largest error relative to what the element type allows."""
    shapes, formula = OPERATORS[name]
    generator = torch.Generator().manual_seed(3)
    inputs = [torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype) for shape in shapes]
    found = getattr(torch.ops.opsmith, name)(*inputs)
    found = found if isinstance(found, tuple) else (found,)
    worst = 0.0
    for actual, exact in zip(found, formula(*(tensor.double() for tensor in inputs)), strict=True):
        error = (actual.double() - exact).abs() / (TOLERANCE[dtype] * (1 + exact.abs()))
        worst = max(worst, error.max().item())
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path, nargs="+")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    for library in arguments.library:
        torch.ops.load_library(str(library.resolve()))
    assert "opsmith" not in sys.modules, "this is to show what runs without it"
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    rows = []
    for name in OPERATORS:
        if hasattr(torch.ops.opsmith, name):
            for device in devices:
                for dtype in TOLERANCE:
                    worst = check(name, device, dtype)
                    rows.append({"operator": name, "device": device, "dtype": str(dtype), "error_of_allowed": worst})
                    print(f"{name:12} {device:5} {dtype!s:15} error {worst:6.3f} of what the type allows")
    report = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "gpu": torch.cuda.get_device_name() if "cuda" in devices else None,
        "libraries": [library.name for library in arguments.library],
        "rows": rows,
    }
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if not rows or any(row["error_of_allowed"] > 1 for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
