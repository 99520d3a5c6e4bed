"""Builds lltm.cpp without an installation, or loads it if it is already built."""

from __future__ import annotations

import sys
from pathlib import Path

import opsmith

sys.modules["lltm_cpp"] = opsmith.load("lltm_cpp", [Path(__file__).with_name("lltm.cpp")], verbose="-v" in sys.argv)

import lltm  # noqa: E402 -- it imports lltm_cpp

lltm.check()
