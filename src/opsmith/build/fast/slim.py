"""Chooses the part of torch's headers that is enough for a source, and recognises when it was not.

`#include <torch/extension.h>` is 5,400 files, and half of its compile time goes into the C++ frontend (torch::nn,
torch::optim, torch::data), serialisation and TorchScript, which few extensions touch. In front of torch's header comes
one of opsmith's, include/slim/torch/extension.h, that includes the rest. What it lacks causes an error, never a
different program: a missing name, class or overload is the compiler's to see, and conditions on torch's macros, which
it would not see, are looked for here.
"""

from __future__ import annotations

import re
from dataclasses import replace

from opsmith.build.fast.scan import Scan
from opsmith.build.messages import Message
from opsmith.build.plan import INCLUDE_DIR, Step

__all__ = ["SLIM_DIR", "may_lack_headers", "slim_defines", "slim_step"]

SLIM_DIR = INCLUDE_DIR / "slim"

# What the slim header adds where a source mentions it. Each costs from half a second to one and a half.
_ON_DEMAND = {
    "OPSMITH_SLIM_LIBRARY": re.compile(
        r"\bTORCH_(?:LIBRARY|SELECTIVE)\w*|\b(?:Library|CppFunction|Dispatcher|RegisterOperators|class_)\b"
        r"|\btorch/(?:library|custom_class)\.h\b"
    ),
    "OPSMITH_SLIM_AUTOGRAD": re.compile(r"\bautograd\b|\bAutogradContext\b|\bvariable_list\b"),
    "OPSMITH_SLIM_UTILS": re.compile(r"\b(?:NoGradGuard|AutoGradMode|manual_seed|set_num_interop_threads)\b"),
}

# What only the whole header has: trying the slim one would be lost time.
_WHOLE = re.compile(
    r"\btorch\s*::\s*(?:nn|optim|data|jit|serialize|save|load|pickle_save|pickle_load|OrderedDict|python)\b"
    r"|\bTORCH_(?:MODULE|ARG)\b|\bbind_module\b|\btorch/script\.h\b"
)
# A source may ask `#if AT_PARALLEL_OPENMP`, and an undefined macro silently counts as 0. The macros of torch's
# version and of the extension itself are there either way.
_ASKED_MACRO = re.compile(r"\b(?:AT|C10|CAFFE2|TORCH|ROLLBEAR)_\w+")
_KNOWN_MACRO = re.compile(r"TORCH_VERSION\w*|TORCH_EXTENSION_NAME|TORCH_CHECK\w*|AT_PARALLEL_\w+")

# What a compiler says about a name, a type or an overload that it does not know; gcc, clang and nvcc.
_MISSING = re.compile(
    r"was not declared|has not been declared|is not a member|does not name a|no member named|has no member"
    r"|undeclared identifier|unknown type name|no type named|is undefined|is not a (?:template|class|namespace|type)"
    r"|incomplete type|No such file|file not found|cannot open source file|no template named|not defined"
    r"|no match(?:ing)? |no operator|no instance of|no suitable|cannot convert|could not convert|no viable"
    r"|invalid use of|ambiguous|static assertion|static_assert|deduced|undefined (?:function|template)"
)


def slim_defines(scan: Scan) -> tuple[str, ...] | None:
    """Return the macros that make the slim header enough for a source, or None if the whole one is needed."""
    if scan.umbrella is None or _WHOLE.search(scan.text):
        return None
    if any(not _KNOWN_MACRO.fullmatch(name) for name in _ASKED_MACRO.findall(scan.conditions)):
        return None
    return tuple(f"-D{name}" for name, pattern in _ON_DEMAND.items() if pattern.search(scan.text))


def slim_step(step: Step, flags: tuple[str, ...]) -> Step:
    """Return a compile step that finds the slim headers, and those that `flags` name, before torch's."""
    # First of all folders: an extension's own list may have torch's.
    at = next(index for index, word in enumerate(step.argv) if word.startswith(("-I", "-isystem", "-MD")))
    return replace(step, argv=(*step.argv[:at], *flags, f"-I{SLIM_DIR}", *step.argv[at:]))


def may_lack_headers(messages: tuple[Message, ...]) -> bool:
    """Tell whether the errors of a slim step may come from what the slim header leaves out.

    A syntax error does not: then the user need not wait for the same error from the whole header.
    """
    return not messages or any(_MISSING.search(message.text) for message in messages)
