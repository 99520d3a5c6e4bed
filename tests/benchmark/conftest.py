"""What the tests of `opsmith bench` share: made-up reports, and small operators in kit_bench."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
