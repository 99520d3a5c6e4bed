"""Runs the command line for `python -m opsmith`, where the `opsmith` script is not on PATH."""

from __future__ import annotations

from opsmith.cli import main

if __name__ == "__main__":
    main()
