"""Finds the operators that C++ sources define by reading their text, to refuse what would end the process.

PyTorch aborts, past every `except`, when a library defines a namespace or an operator twice. What is read here only
ever leads to a refusal, and only where PyTorch confirms that it has the very namespace or operator already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from opsmith.spec.extension import Source

__all__ = ["Registered", "Registrations", "find_clash", "find_namespaces", "find_registrations", "source_texts"]

# A comment, or a string that may look like one: strings stay. (Texts, because most sources define no operators, and
# compiling these takes longer than reading such a source.)
_COMMENT = r"""(?s)//[^\n]*|/\*.*?\*/|(?P<kept>R"(?P<mark>\w*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*")"""
_DIRECTIVE = r"(?m)^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$"
# TORCH_LIBRARY(ns, m) {, TORCH_LIBRARY_FRAGMENT, STABLE_TORCH_LIBRARY, and the TORCH_LIBRARY_EXPAND that many projects
# define so that TORCH_EXTENSION_NAME is expanded. TORCH_LIBRARY_IMPL defines nothing.
_BLOCK = (
    r"\b(?:STABLE_)?TORCH_LIBRARY(?P<kind>_FRAGMENT\w*|_EXPAND\w*)?"
    r"\s*\(\s*(?P<namespace>\w+)\s*,\s*(?P<variable>\w+)\s*\)\s*\{"
)
_SCHEMA = (
    r"\s*\.\s*def\s*\(\s*(?:(?:TORCH_SELECTIVE_SCHEMA|torch::schema)\s*\(\s*)?"
    r'(?:R"\w*\(|")\s*(?:(?P<ns>\w+)::)?(?P<name>\w+(?:\.\w+)?)'
)


class Registrations(NamedTuple):
    """What sources define: whole namespaces, and operators (`namespace::name.overload`) in fragments."""

    namespaces: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()


class Registered:
    """A library of this process and what it registered."""

    def __init__(self, name: str, file: Path, registrations: Registrations) -> None:
        """Note a library that has just been loaded; `file` may be a copy of it."""
        self.name, self.file, self.registrations = name, file, registrations
        self.released = False


def find_registrations(texts: Iterable[str], extension_name: str) -> Registrations:
    """Return what some sources define, as far as their text tells it; `extension_name` is TORCH_EXTENSION_NAME."""
    namespaces: set[str] = set()
    operators: set[str] = set()
    for raw in texts:
        if "TORCH_LIBRARY" not in raw:
            continue
        text = re.sub(_DIRECTIVE, "", re.sub(_COMMENT, lambda match: match["kept"] or " ", raw))
        blocks = list(re.finditer(_BLOCK, text))
        ends = [*(block.start() for block in blocks[1:]), len(text)]
        for block, end in zip(blocks, ends, strict=False):
            namespace = extension_name if block["namespace"] == "TORCH_EXTENSION_NAME" else block["namespace"]
            if (block["kind"] or "").startswith("_FRAGMENT"):
                body = text[block.end() : end]
                for schema in re.finditer(rf"\b{block['variable']}{_SCHEMA}", body):
                    operators.add(f"{schema['ns'] or namespace}::{schema['name']}")
            else:
                namespaces.add(namespace)
    return Registrations(frozenset(namespaces), frozenset(operators))


def source_texts(sources: Iterable[Source]) -> list[str]:
    """Return the texts of sources, generated ones and the user's files."""
    texts = [source.text for source in sources if source.text is not None]
    files = (user for source in sources for user in source.users)
    return [*texts, *(file.read_text(encoding="utf-8", errors="replace") for file in files)]


def find_namespaces(texts: Iterable[str], extension_name: str) -> frozenset[str]:
    """Return the namespaces of torch.ops that some sources define operators in, as far as their text tells it."""
    found = find_registrations(texts, extension_name)
    return found.namespaces | {operator.partition("::")[0] for operator in found.operators}


def find_clash(registrations: Registrations) -> str | None:
    """Return what PyTorch has already of what a library would define, in words, or None."""
    for namespace in sorted(registrations.namespaces):
        if _is_taken(namespace):
            return f"the namespace {namespace}"
    for operator in sorted(registrations.operators):
        name, _, overload = operator.partition(".")
        if any(schema.overload_name == overload for schema in torch._C._jit_get_schemas_for_operator(name)):
            return f"the operator {operator}"
    return None


def _is_taken(namespace: str) -> bool:
    """Ask PyTorch by making the namespace: that raises where it is taken, and is undone at once where it is not."""
    try:
        library = torch._C._dispatch_library("DEF", namespace, "")
    except RuntimeError:
        return True
    del library
    return False
