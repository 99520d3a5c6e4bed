"""What the tests of `opsmith judge` share lies in `judging_kit` and `suite`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
