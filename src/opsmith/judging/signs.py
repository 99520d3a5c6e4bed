"""Reads what a candidate is made of from its source: signs for a reader, never a verdict.

Python is read as a tree, C++ and CUDA in its texts and files by a few words (see `sources`). A sign says where it stands;
code that hides what it does gives none. The expressions have bounds, since the text may be made to take them long.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from opsmith.judging.candidate import Candidate
from opsmith.judging.result import Sign
from opsmith.judging.sources import Python, Sources, dotted, read_sources

__all__ = ["signs_of"]


_LAUNCHES = re.compile(r"__global__|<<<")
_LOOPS = re.compile(r"\b(?:for|while)\s*\(")
_KERNEL_LANGUAGES = ("triton", "tilelang", "cutlass", "helion", "numba", "cupy", "warp", "pycuda", "cuda")
_KERNEL_DECORATORS = ("jit", "kernel", "prim_func", "autotune")
_LIBRARIES = re.compile(
    r"\b(?:at|torch)::(?!Tensor\b|empty|TensorOptions|k[A-Z]|cuda|nn\b)(\w+)\s*\(|\bcu(?:blas|dnn)\w+\("
)
_NEVER = r"(?!)"
# What a reader is shown: names in a source, and files, can be many and long.
_MOST, _LONGEST = 50, 400
_Look = Callable[[Sources], Iterator[Sign]]


def signs_of(candidate: Candidate) -> tuple[Sign, ...]:
    """Return the signs of a candidate, each name once for each file at most; none of a file that is not Python."""
    sources = read_sources(candidate)
    found: dict[tuple[str, str], Sign] = {}
    for look in _LOOKS:
        for sign in look(sources):
            message = sign.message[:_LONGEST]
            found.setdefault((sign.name, message), replace(sign, message=message))
    signs = tuple(found.values())
    more = len(signs) - _MOST
    return signs if more <= 0 else (*signs[:_MOST], Sign("more signs", f"{more} others are not shown"))


def _unread(sources: Sources) -> Iterator[Sign]:
    """Files that others are told not to rely on: nothing that they have is among the signs."""
    for name, reason in sources.unread.items():
        yield Sign("not read", f"{name}: no signs are looked for in it, since {reason}")


def _kernels(sources: Sources) -> Iterator[Sign]:
    if sources.unread or _has_kernel(sources):
        return
    if not sources.native:
        yield Sign("no kernel", "no kernel in C++, CUDA, Triton or another language for kernels: operators do the work")
        return
    name, text, line = sources.native[0]
    call = _LIBRARIES.search(text)
    at = line + text[: call.start()].count("\n") if call else line
    what = f"it calls {call[0].rstrip('( ')}" if call else "it calls a runtime or a library"
    yield Sign("library calls only", f"{name}: native code without a loop or a device function; {what}", at)


def _fallbacks(sources: Sources) -> Iterator[Sign]:
    """A `try` around a call whose `except` computes something else."""
    for one in sources.python:
        text = f"{one.name}: what fails in this `try` is computed otherwise, or not at all"
        yield from (Sign("try/except around a call", text, line) for line in one.fallbacks)


def _words(name: str, message: str, python: str, native: str = "") -> _Look:
    """Return a look for names of Python, and words of C++, that a pattern finds."""
    in_python = re.compile(python)
    in_native = re.compile(native) if native else None

    def look(sources: Sources) -> Iterator[Sign]:
        for one in sources.python:
            for used, line in {**one.imports, **one.names}.items():
                if in_python.search(used):
                    yield Sign(name, f"{one.name}: {message} ({used})", line)
                    break
        for file, text, line in sources.native:
            if in_native is not None and (found := in_native.search(text)):
                yield Sign(name, f"{file}: {message} ({found[0]})", line + text[: found.start()].count("\n"))

    return look


def _patches(sources: Sources) -> Iterator[Sign]:
    """Assignments to attributes of modules that it has imported."""
    for one in sources.python:
        roots = {name.split(".")[0] for name in one.imports}
        assigned: dict[str, int] = {}
        targets = [one for node in one.nodes if isinstance(node, ast.Assign) for one in node.targets]
        for target in (one for one in targets if isinstance(one, ast.Attribute)):
            text = one.in_full(dotted(target))
            if text.split(".")[0] in roots and not text.startswith("torch.backends."):
                assigned.setdefault(text, target.lineno)
        if assigned:
            yield Sign("patched functions", f"{one.name}: it assigns to {', '.join(assigned)}", min(assigned.values()))


def _subclasses(sources: Sources) -> Iterator[Sign]:
    for one in sources.python:
        for node in one.classes:
            if any(dotted(base) in ("torch.Tensor", "Tensor") for base in node.bases):
                yield Sign("tensor subclass", f"{one.name}: {node.name} is a kind of tensor of its own", node.lineno)


def _has_kernel(sources: Sources) -> bool:
    """Whether there is code of a kernel: a device function, a loop in C++, or a function for a kernel compiler."""
    return any(_LAUNCHES.search(text) or _LOOPS.search(text) for _, text, _ in sources.native) or any(
        any(_is_of(name, _KERNEL_LANGUAGES) for name in one.imports) and _decorated(one) for one in sources.python
    )


def _is_of(name: str, packages: tuple[str, ...]) -> bool:
    return name.partition(".")[0] in packages


def _decorated(source: Python) -> bool:
    """Whether a function has a decorator of a kernel compiler."""
    for node in source.nodes:
        for one in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            name = dotted(one.func if isinstance(one, ast.Call) else one)
            if name.rpartition(".")[2] in _KERNEL_DECORATORS:
                return True
    return False


_LOOKS: tuple[_Look, ...] = (
    _unread,
    _kernels,
    _fallbacks,
    _patches,
    _subclasses,
    _words(
        "CUDA graph",
        "it records or replays a graph of launches",
        r"CUDAGraph|cuda\.graph\b|make_graphed_callables",
        r"cudaGraphLaunch|cudaStreamBeginCapture",
    ),
    _words(
        "other streams",
        "it makes a stream of its own",
        r"cuda\.(?:Stream|ExternalStream)\b",
        r"cudaStreamCreate\w*|getStreamFromPool",
    ),
    _words(
        "threads or processes",
        "it starts some",
        r"\b(?:threading|_thread|multiprocessing|subprocess|concurrent\.futures)\b|\bos\.fork\b",
        r"std::(?:j?thread|async)\b|pthread_create|\bfork\(",
    ),
    _words(
        "pointers as keys",
        "it tells tensors by their address or identity",
        r"^id$|\._version$",
        r"(?:unordered_)?map<[^;]{0,200}(?:void\s*\*|intptr_t|uintptr_t)",
    ),
    _words("the stack is read", "it looks at who calls it", r"^inspect\.(?:stack|currentframe)|^sys\._getframe"),
    _words("objects are searched", "it looks for other objects of the process", r"^gc\.get_|^ctypes\b"),
    _words(
        "lower precision",
        "it allows or asks for fewer digits",
        r"allow_tf32|set_float32_matmul_precision|allow_\w{1,40}_reduced_precision",
        r"CUBLAS_COMPUTE_32F_FAST|--use_fast_math|CUBLAS_TF32",
    ),
    _words("cache control", "it sets a part of L2 aside", _NEVER, r"PersistingL2CacheSize|accessPolicyWindow"),
    _words("files and network", "it reads or connects elsewhere", r"^(?:socket|urllib|http|requests)\b|^open$"),
    _words("torch.compile", "PyTorch's compiler makes the kernel", r"^torch\.compile$"),
)
