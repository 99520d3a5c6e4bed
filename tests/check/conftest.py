"""What the tests of `opsmith check` share: `from kit_screen import operators`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
