"""Where does one call's time go? `opsmith.profile(op)` finds out; the modules in here are how.

The package can be called: to Python's import system it is the package, to everybody else the
function. Importing it stays cheap: what measures, and torch with it, is imported by the call.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from opsmith._lazy import lazy_names

if TYPE_CHECKING:
    from opsmith.profile.api import ProfileReports
    from opsmith.profile.result import CallProfile, Gpu, Kernel, Part, ProfileReport

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


class _ProfilePackage(ModuleType):
    """The package's type: a module that profiles an operator when it is called."""

    def __call__(self, op: Any, **options: Any) -> ProfileReport | ProfileReports:
        """Profile an operator; see `opsmith.profile.api.profile` for the arguments and the result."""
        from opsmith.profile.api import profile

        report: ProfileReport | ProfileReports = profile(op, **options)
        return report


sys.modules[__name__].__class__ = _ProfilePackage
