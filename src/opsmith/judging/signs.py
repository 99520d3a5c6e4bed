"""Reads what a candidate is made of from its source: signs for a reader, never a verdict.

Python is read as a tree, C++ and CUDA in its texts and files by a few words, without comments. A sign says where it
stands; code that hides what it does gives none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from opsmith.judging.candidate import Candidate
from opsmith.judging.result import Sign

__all__ = ["SIGNS", "signs_of"]


@dataclass(frozen=True)
class _Python:
    """One Python file: its tree, and the texts in it that are C++ or CUDA, each with its first line."""

    name: str
    tree: ast.Module

    @cached_property
    def imports(self) -> dict[str, int]:
        """The modules that it imports, with the line."""
        found: dict[str, int] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {alias.name: node.lineno for alias in node.names if alias.name not in found}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.setdefault(node.module, node.lineno)
        return found

    @cached_property
    def names(self) -> dict[str, int]:
        """Every attribute and name that it uses, dotted as far as it is written so, with the first line."""
        found: dict[str, int] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute | ast.Name) and (text := _dotted(node)):
                found.setdefault(text, node.lineno)
        return found

    @cached_property
    def native(self) -> list[tuple[str, int]]:
        """Texts that are C++ or CUDA."""
        return [
            (node.value, node.lineno)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _NATIVE.search(node.value)
        ]

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        """Its classes."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]


@dataclass(frozen=True)
class _Sources:
    python: tuple[_Python, ...]
    native: tuple[tuple[str, str, int], ...]

    @property
    def has_kernel(self) -> bool:
        """Whether there is code of a kernel: a device function, a loop in C++, or a function for a kernel compiler."""
        return any(_LAUNCHES.search(text) or _LOOPS.search(text) for _, text, _ in self.native) or any(
            any(_is_of(name, _KERNEL_LANGUAGES) for name in one.imports) and _decorated(one.tree) for one in self.python
        )


_NATIVE = re.compile(r"#include|__global__|TORCH_LIBRARY|PYBIND11_MODULE|torch::Tensor|at::Tensor|\bvoid\s+\w+\s*\(")
_LAUNCHES = re.compile(r"__global__|<<<")
_LOOPS = re.compile(r"\b(?:for|while)\s*\(")
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_KERNEL_LANGUAGES = ("triton", "tilelang", "cutlass", "helion", "numba", "cupy", "warp", "pycuda", "cuda")
_KERNEL_DECORATORS = ("jit", "kernel", "prim_func", "autotune")
_LIBRARIES = re.compile(
    r"\b(?:at|torch)::(?!Tensor\b|empty|TensorOptions|k[A-Z]|cuda|nn\b)(\w+)\s*\(|\bcu(?:blas|dnn)\w+\("
)
_NATIVE_ENDINGS = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".h", ".hpp")
_Look = Callable[[_Sources], Iterator[Sign]]


def signs_of(candidate: Candidate) -> tuple[Sign, ...]:
    """Return the signs of a candidate, each name once for each file at most; none of a file that is not Python."""
    sources = _read(candidate)
    found: dict[tuple[str, str], Sign] = {}
    for look in _LOOKS:
        for sign in look(sources):
            found.setdefault((sign.name, sign.message), sign)
    return tuple(found.values())


def _read(candidate: Candidate) -> _Sources:
    python, native = [], []
    for name, content in candidate.text.items():
        text = content.decode(errors="replace")
        if name.endswith(_NATIVE_ENDINGS):
            native.append((name, _without_comments(text), 1))
        elif name.endswith(".py"):
            try:
                one = _Python(name, ast.parse(text))
            except (SyntaxError, ValueError, RecursionError):
                continue
            python.append(one)
            native += [(name, _without_comments(found), line) for found, line in one.native]
    return _Sources(tuple(python), tuple(native))


def _without_comments(text: str) -> str:
    return _COMMENTS.sub(lambda found: "\n" * found[0].count("\n"), text)


def _kernels(sources: _Sources) -> Iterator[Sign]:
    if sources.has_kernel:
        return
    if not sources.native:
        yield Sign("no kernel", "no kernel in C++, CUDA, Triton or another language for kernels: operators do the work")
        return
    name, text, line = sources.native[0]
    call = _LIBRARIES.search(text)
    at = line + text[: call.start()].count("\n") if call else line
    what = f"it calls {call[0].rstrip('( ')}" if call else "it calls a runtime or a library"
    yield Sign("library calls only", f"{name}: native code without a loop or a device function; {what}", at)


def _fallbacks(sources: _Sources) -> Iterator[Sign]:
    """A `try` around a call whose `except` computes something else."""
    for one in sources.python:
        functions = [node for node in ast.walk(one.tree) if isinstance(node, ast.FunctionDef)]
        for node in (tried for function in functions for tried in ast.walk(function)):
            if isinstance(node, ast.Try) and any(_calls(node.body)) and any(map(_goes_on, node.handlers)):
                text = f"{one.name}: what fails in this `try` is computed otherwise, or not at all"
                yield Sign("try/except around a call", text, node.lineno)


def _goes_on(handler: ast.ExceptHandler) -> bool:
    return not any(isinstance(node, ast.Raise) for node in ast.walk(handler))


def _calls(body: list[ast.stmt]) -> Iterator[ast.Call]:
    return (node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Call))


def _words(name: str, message: str, python: str, native: str = "") -> _Look:
    """Return a look for names of Python, and words of C++, that a pattern finds."""
    in_python = re.compile(python)
    in_native = re.compile(native) if native else None

    def look(sources: _Sources) -> Iterator[Sign]:
        for one in sources.python:
            for used, line in {**one.imports, **one.names}.items():
                if in_python.search(used):
                    yield Sign(name, f"{one.name}: {message} ({used})", line)
                    break
        for file, text, line in sources.native:
            if in_native is not None and (found := in_native.search(text)):
                yield Sign(name, f"{file}: {message} ({found[0]})", line + text[: found.start()].count("\n"))

    return look


def _patches(sources: _Sources) -> Iterator[Sign]:
    """Assignments to attributes of modules that it has imported."""
    for one in sources.python:
        roots = {name.split(".")[0] for name in one.imports}
        assigned: dict[str, int] = {}
        targets = [one for node in ast.walk(one.tree) if isinstance(node, ast.Assign) for one in node.targets]
        for target in (one for one in targets if isinstance(one, ast.Attribute)):
            text = _dotted(target)
            if text.split(".")[0] in roots and not text.startswith("torch.backends."):
                assigned.setdefault(text, target.lineno)
        if assigned:
            yield Sign("patched functions", f"{one.name}: it assigns to {', '.join(assigned)}", min(assigned.values()))


def _subclasses(sources: _Sources) -> Iterator[Sign]:
    for one in sources.python:
        for node in one.classes:
            if any(_dotted(base) in ("torch.Tensor", "Tensor") for base in node.bases):
                yield Sign("tensor subclass", f"{one.name}: {node.name} is a kind of tensor of its own", node.lineno)


def _dotted(node: ast.AST) -> str:
    """Return `a.b.c` for an expression that is written so, and "" for others."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def _is_of(name: str, packages: tuple[str, ...]) -> bool:
    return name.partition(".")[0] in packages


def _decorated(tree: ast.Module) -> bool:
    """Whether a function has a decorator of a kernel compiler."""
    for node in ast.walk(tree):
        for one in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            name = _dotted(one.func if isinstance(one, ast.Call) else one)
            if name.rpartition(".")[2] in _KERNEL_DECORATORS:
                return True
    return False


_LOOKS: tuple[_Look, ...] = (
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
        r"(?:unordered_)?map<[^;]*(?:void\s*\*|intptr_t|uintptr_t)",
    ),
    _words("the stack is read", "it looks at who calls it", r"^inspect\.(?:stack|currentframe)|^sys\._getframe"),
    _words("objects are searched", "it looks for other objects of the process", r"^gc\.get_|^ctypes\b"),
    _words(
        "lower precision",
        "it allows or asks for fewer digits",
        r"allow_tf32|set_float32_matmul_precision|allow_\w+_reduced_precision",
        r"CUBLAS_COMPUTE_32F_FAST|--use_fast_math|CUBLAS_TF32",
    ),
    _words("cache control", "it sets a part of L2 aside", r"$^", r"PersistingL2CacheSize|accessPolicyWindow"),
    _words("files and network", "it reads or connects elsewhere", r"^(?:socket|urllib|http|requests)\b|^open$"),
    _words("torch.compile", "PyTorch's compiler makes the kernel", r"^torch\.compile$"),
)
# The names of all signs.
SIGNS = (
    "library calls only",
    "no kernel",
    "try/except around a call",
    "patched functions",
    "tensor subclass",
    "CUDA graph",
    "other streams",
    "threads or processes",
    "pointers as keys",
    "the stack is read",
    "objects are searched",
    "lower precision",
    "cache control",
    "files and network",
    "torch.compile",
)
