"""Reads a candidate's files as what signs are found in: trees of Python, and texts of C++ and CUDA without comments.

The files are written by somebody who may want this to take long. Every expression here is linear in the text, a tree is
walked once, and what is too large is not read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from opsmith.judging.candidate import Candidate

__all__ = ["Python", "Sources", "dotted", "read_sources"]

# Of one file, and of all Python files together: a tree takes some hundred times the memory of its text.
_MOST_BYTES = 1 << 20
_MOST_NATIVE_BYTES = 8 << 20
_NATIVE_ENDINGS = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".h", ".hpp")
_NATIVE = re.compile(r"#include|__global__|TORCH_LIBRARY|PYBIND11_MODULE|torch::Tensor|at::Tensor|\bvoid\s+\w+\s*\(")
# A comment without an end, and a string without one, are those that end with the file, or the line: looking for an end anew
# from each beginning takes quadratic time.
_COMMENTS = re.compile(r'"(?:[^"\\\n]|\\.)*"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
# Attributes of a name that is looked at: of a longer one each part would be a text as long as what comes before it.
_MOST_PARTS = 16


@dataclass(frozen=True)
class Python:
    """One Python file: its name and its tree."""

    name: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes, each behind the one that has it."""
        return list(ast.walk(self.tree))

    @cached_property
    def imports(self) -> dict[str, int]:
        """The modules that it imports, with the line."""
        found: dict[str, int] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    found.setdefault(alias.name, node.lineno)
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.setdefault(node.module, node.lineno)
        return found

    @cached_property
    def names(self) -> dict[str, int]:
        """Every attribute and name that it uses, in full as far as it is written so, with the first line."""
        found: dict[str, int] = {}
        for node in self.nodes:
            if isinstance(node, ast.Attribute | ast.Name) and (text := dotted(node)):
                found.setdefault(self.in_full(text), node.lineno)
        return found

    def in_full(self, text: str) -> str:
        """Return a dotted name with what its first part was imported as: `F.relu` is torch.nn.functional.relu."""
        first, dot, rest = text.partition(".")
        return f"{self._imported.get(first, first)}{dot}{rest}"

    @cached_property
    def _imported(self) -> dict[str, str]:
        """What names stand for that it imports under, such as "F": "torch.nn.functional"."""
        found: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found |= {alias.asname: alias.name for alias in node.names if alias.asname}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        return found

    @cached_property
    def native(self) -> list[tuple[str, int]]:
        """Texts in it that are C++ or CUDA, each with its first line."""
        return [
            (node.value, node.lineno)
            for node in self.nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _NATIVE.search(node.value)
        ]

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        """Its classes."""
        return [node for node in self.nodes if isinstance(node, ast.ClassDef)]

    @cached_property
    def fallbacks(self) -> list[int]:
        """The lines of each `try` in a function that makes a call, and goes on without it where something is raised."""
        if not (tries := [node for node in self.nodes if isinstance(node, ast.Try)]):
            return []
        owners = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}
        inside: set[ast.AST] = set()
        for node in self.nodes:
            owner = owners.get(node)
            if owner in inside or isinstance(owner, ast.FunctionDef):
                inside.add(node)
        calling: set[ast.AST] = {node for node in self.nodes if isinstance(node, ast.Call)}
        raising: set[ast.AST] = {node for node in self.nodes if isinstance(node, ast.Raise)}
        for node in reversed(self.nodes):
            for found in (calling, raising):
                if node in found and node in owners:
                    found.add(owners[node])
        return [
            node.lineno
            for node in tries
            if node in inside and not calling.isdisjoint(node.body) and not raising.issuperset(node.handlers)
        ]


@dataclass(frozen=True)
class Sources:
    """A candidate's Python, its native texts (file, text, first line), and the files that are not read with the reason."""

    python: tuple[Python, ...]
    native: tuple[tuple[str, str, int], ...]
    unread: Mapping[str, str]


def read_sources(candidate: Candidate) -> Sources:
    """Return what a candidate's files have; the smallest come first where they are too large together."""
    python: list[Python] = []
    native: list[tuple[str, str, int]] = []
    unread: dict[str, str] = {}
    left = {True: _MOST_BYTES, False: _MOST_NATIVE_BYTES}
    for name, content in sorted(candidate.files.items(), key=lambda one: (len(one[1]), one[0])):
        is_python = name.endswith(".py")
        if not is_python and not name.endswith(_NATIVE_ENDINGS):
            continue
        left[is_python] -= len(content)
        if len(content) > _MOST_BYTES or left[is_python] < 0:
            unread[name] = "it is too large"
            continue
        text = content.decode(errors="replace")
        if not is_python:
            native.append((name, _without_comments(text), 1))
            continue
        try:
            one = Python(name, ast.parse(text))
        except (SyntaxError, ValueError):
            continue  # what Python does not import either
        except (MemoryError, RecursionError):
            unread[name] = "its expressions are nested too deep"
            continue
        python.append(one)
        native += [(name, _without_comments(found), line) for found, line in one.native]
    return Sources(tuple(python), tuple(native), unread)


def _without_comments(text: str) -> str:
    return _COMMENTS.sub(lambda found: found[0] if found[0][0] == '"' else "\n" * found[0].count("\n"), text)


def dotted(node: ast.AST) -> str:
    """Return `a.b.c` for an expression that is written so, and "" for others, and for one with very many parts."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < _MOST_PARTS:
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
