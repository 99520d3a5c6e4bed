"""Prints what an NVRTC says of itself, as JSON: `python nvrtc_probe.py LIBRARY`. Started by toolchain/nvrtc.py.

The library is not loaded into the process that builds: torch may have one of its own there.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import sys
from pathlib import Path

# Its beginning has the build's number (.note.gnu.build-id), which the linker makes of all of it.
_BEGINNING = 1 << 20


def main(path: str) -> None:
    """Print the version, the architectures, and what is different in every build."""
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        sys.exit(f"it cannot be loaded: {error}")
    major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) != 0:
        sys.exit(f"{path}: nvrtcVersion fails")
    if library.nvrtcGetNumSupportedArchs(ctypes.byref(count)) != 0:
        sys.exit(f"{path}: nvrtcGetNumSupportedArchs fails")
    archs = (ctypes.c_int * count.value)()
    if library.nvrtcGetSupportedArchs(archs) != 0:
        sys.exit(f"{path}: nvrtcGetSupportedArchs fails")
    with Path(path).open("rb") as file:
        beginning = file.read(_BEGINNING)
    build = hashlib.sha256(beginning + str(Path(path).stat().st_size).encode()).hexdigest()[:16]
    print(json.dumps({"version": [major.value, minor.value], "archs": sorted(archs), "build": build}))


if __name__ == "__main__":
    main(sys.argv[1])
