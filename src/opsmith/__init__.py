"""opsmith: write an operator in PyTorch, make it fast in C++ or CUDA, and ship it as one binary."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from opsmith import errors
from opsmith._drawing import draw_with
from opsmith._lazy import lazy_names
from opsmith._torch_release import refuse_older
from opsmith._version import __version__

if TYPE_CHECKING:
    from opsmith.benchmark.api import bench
    from opsmith.checker.api import check
    from opsmith.checker.mutate.api import mutate
    from opsmith.cpp_extension.jit import load, load_inline
    from opsmith.judging.api import judge
    from opsmith.profiler.api import profile
    from opsmith.runtime.declare import op
    from opsmith.runtime.kernel_file import cute, kernel, native, triton, view
    from opsmith.runtime.operator import Operator
    from opsmith.runtime.torchscript import scriptable

__all__ = [
    "Operator",
    "__version__",
    "bench",
    "check",
    "cute",
    "errors",
    "judge",
    "kernel",
    "load",
    "load_inline",
    "mutate",
    "native",
    "op",
    "profile",
    "scriptable",
    "triton",
    "view",
]


def _require_torch() -> None:
    """Refuse a torch that is too old, where the first name is used."""
    torch = sys.modules.get("torch")
    version = getattr(torch, "__version__", None)
    if isinstance(version, str):
        refuse_older(version, str(getattr(torch, "__file__", None)))
        return
    from opsmith.toolchain.torch_install import require_torch

    require_torch()


def _refuse_imported_torch() -> None:
    """Refuse a torch that is too old here, where it is imported already and a program of the user imports opsmith.

    setuptools and pytest import opsmith for every project, and one that does not use it must not fail.
    """
    torch = sys.modules.get("torch")
    if torch is not None and sys.modules.keys().isdisjoint({"setuptools", "_pytest"}):
        refuse_older(getattr(torch, "__version__", ""), str(getattr(torch, "__file__", None)))


__getattr__ = lazy_names(
    __name__,
    {
        "Operator": "runtime.operator",
        "bench": "benchmark.api",
        "check": "checker.api",
        "cute": "runtime.kernel_file",
        "judge": "judging.api",
        "kernel": "runtime.kernel_file",
        "load": "cpp_extension.jit",
        "load_ipython_extension": "notebook",
        "load_inline": "cpp_extension.jit",
        "mutate": "checker.mutate.api",
        "native": "runtime.kernel_file",
        "op": "runtime.declare",
        "profile": "profiler.api",
        "scriptable": "runtime.torchscript",
        "triton": "runtime.kernel_file",
        "view": "runtime.kernel_file",
    },
    modules=("benchmark", "checker", "judging", "profiler"),
    before=_require_torch,
)

# Results print themselves without importing what draws them.
draw_with(
    {
        "opsmith.benchmark.build_result:BuildReport": "opsmith.report.bench.builds:report_text",
        "opsmith.benchmark.result:BenchReport": "opsmith.report.bench.text:report_text",
        "opsmith.checker.mutate.report:MutationReport": "opsmith.report.check.mutation:report_text",
        "opsmith.checker.report:Report": "opsmith.report.check.text:report_text",
        "opsmith.judging.batch:BatchReport": "opsmith.report.judge.text:batch_text",
        "opsmith.judging.result:Judgement": "opsmith.report.judge.text:report_text",
        "opsmith.package.audit.result:Audit": "opsmith.report.audit.text:audit_text",
        "opsmith.profiler.result:ProfileReport": "opsmith.report.profile.text:report_text",
    }
)

_refuse_imported_torch()
