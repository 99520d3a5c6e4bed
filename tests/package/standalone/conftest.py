"""What these tests share with the audit's: small libraries made with gcc, and wheels around them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "audit"))
