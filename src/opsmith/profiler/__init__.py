"""Shows where the time of one call goes; `opsmith.profile` is the entry.

The results' types are exported lazily: what measures, and torch with it, is imported by the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opsmith._lazy import lazy_names

if TYPE_CHECKING:
    from opsmith.profiler.api import ProfileReports
    from opsmith.profiler.result import CallProfile, Gpu, Kernel, Part, ProfileReport

__all__ = ["CallProfile", "Gpu", "Kernel", "Part", "ProfileReport", "ProfileReports"]

__getattr__ = lazy_names(
    __name__,
    {
        "CallProfile": "result",
        "Gpu": "result",
        "Kernel": "result",
        "Part": "result",
        "ProfileReport": "result",
        "ProfileReports": "api",
    },
)
