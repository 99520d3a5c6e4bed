"""Deprecated import path of the types in `opsmith.profiler`; see `opsmith._former_package`."""

from opsmith._former_package import replace_by_function
from opsmith.profiler.api import profile

replace_by_function(__name__, profile, "opsmith.profiler")
