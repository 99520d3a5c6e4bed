"""Finds the program's modules by their folder alone, and runs it."""

import importlib
import sys
from pathlib import Path

# In place of this folder, which Python has put there.
sys.path[0] = str(Path(__file__).resolve().parent.parent)
sys.exit(importlib.import_module("compile_kernels.command").main(sys.argv[1:]))
