"""Examines what this machine has to build and run operators with, what is broken, and which command fixes it.

Each topic is a module with two halves: facts that are gathered, and findings that are a pure function of them.
"""

from __future__ import annotations

from opsmith._lazy import lazy_names

__all__ = ["Finding", "Status", "examine"]

__getattr__ = lazy_names(__name__, {"Finding": "finding", "Status": "finding", "examine": "examine"})
