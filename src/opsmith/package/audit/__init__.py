"""Audits libraries and wheels: what they need, what they promise, and whether that is true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opsmith._lazy import lazy_names

if TYPE_CHECKING:
    from opsmith.package.audit.api import audit
    from opsmith.package.audit.finding import Finding
    from opsmith.package.audit.result import Audit

__all__ = ["Audit", "Finding", "audit"]

__getattr__ = lazy_names(__name__, {"Audit": "result", "Finding": "finding", "audit": "api"})
