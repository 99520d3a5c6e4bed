"""Deprecated import path of the types in `opsmith.checker`; see `opsmith._former_package`."""

from opsmith._former_package import replace_by_function
from opsmith.checker.api import check

replace_by_function(__name__, check, "opsmith.checker")
