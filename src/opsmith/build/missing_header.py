"""Says what to do about a header that a compiler does not find."""

from __future__ import annotations

import re

from opsmith._keywords import nearest
from opsmith.build.plan import INCLUDE_DIR, Plan

__all__ = ["advice_on_header", "missing_header"]

_NO_HEADER = re.compile(
    r"^'(?P<clang>[^']+)' file not found|^(?P<gcc>\S+): No such file or directory|"
    r"cannot open source file \"(?P<nvcc>[^\"]+)\""
)
_TORCH_FOLDERS = frozenset({"torch", "ATen", "c10"})


def missing_header(text: str) -> str | None:
    """Return the header that a compiler's message calls missing, None for another message."""
    match = _NO_HEADER.search(text)
    return None if match is None else match["clang"] or match["gcc"] or match["nvcc"]


def advice_on_header(header: str, plan: Plan) -> str:
    """Return what to do about a header that is not found: opsmith's, PyTorch's in a view kernel, or the user's."""
    folder, _, name = header.partition("/")
    if folder == "opsmith":
        headers = INCLUDE_DIR / "opsmith"
        guess = nearest(name, [path.relative_to(headers).as_posix() for path in sorted(headers.rglob("*.h"))])
        return f"opsmith has no header {header}" + (f"; did you mean opsmith/{guess}?" if guess else "")
    apis = {source.api for source in plan.extension.sources if source.users}
    if folder in _TORCH_FOLDERS and "none" in apis and "full" not in apis:
        return (
            "A view kernel is compiled without PyTorch's headers. A kernel that needs tensors is native: "
            "`opsmith.native(...)`, with `#include <opsmith/native.h>`. Code that needs more of PyTorch stays an "
            "extension, which opsmith.cpp_extension builds as it is."
        )
    folders = ", ".join(map(str, plan.extension.include_dirs)) or "none"
    if "full" in apis:
        return f"Add the folder that has {header} to the include folders of {plan.extension.name} (now: {folders})"
    return f"The kernels of {plan.extension.name} find headers in {folders}: name it by its path from there"
