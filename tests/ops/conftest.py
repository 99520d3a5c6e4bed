"""What the tests of the library's operators share: the operators, each with its inputs, in operator_cases.py."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
