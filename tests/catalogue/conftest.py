"""The tests of this folder share cases.py with record.py, which is a program."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
