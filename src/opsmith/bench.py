"""Deprecated import path of the types in `opsmith.benchmark`; see `opsmith._former_package`."""

from opsmith._former_package import replace_by_function
from opsmith.benchmark.api import bench

replace_by_function(__name__, bench, "opsmith.benchmark")
