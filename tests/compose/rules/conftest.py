"""What these tests share: `rules_kit`, operators without kernels, and the operators of tests/runtime/kit with them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[2] / "runtime"))
