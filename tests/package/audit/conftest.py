"""What the audit's tests share: `from planted_faults import ...`, small libraries made with gcc, and wheels around them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
