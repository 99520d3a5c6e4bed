"""opsmith: write an operator in PyTorch, make it fast in C++ or CUDA, and ship it as one binary."""

from __future__ import annotations

from opsmith import errors
from opsmith._version import __version__
from opsmith.runtime.declare import native, op, view
from opsmith.runtime.operator import Operator

__all__ = ["Operator", "__version__", "errors", "native", "op", "view"]
