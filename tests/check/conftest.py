"""What the tests of `opsmith check` share: small operators, in kit and in the folders beside it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
