"""Deprecated module, kept for `from opsmith.check import Report`: the classes are in `opsmith.checker`.

Importing it replaces it by the function, with the classes as attributes, since `opsmith.check` is the function.
"""

import sys
import warnings

from opsmith import checker

warnings.warn("import from opsmith.checker in place of opsmith.check", DeprecationWarning, stacklevel=2)
vars(checker.check).update({name: getattr(checker, name) for name in checker.__all__})
sys.modules[__name__] = checker.check  # type: ignore[assignment]
