"""What the two implementations are called in tables and pictures, on each device."""

from __future__ import annotations

__all__ = ["KERNELS", "REFERENCES"]

# The body in plain PyTorch.
REFERENCES = {"cpu": "reference", "cuda": "reference, GPU"}

# The kernels.
KERNELS = {"cpu": "opsmith C++", "cuda": "opsmith CUDA"}
