"""Which operators does a C++ source define? Read from its text, well enough to refuse what would end the process.

PyTorch aborts, past every `except`, when a library defines a namespace or an operator twice. What is read here only
ever leads to a refusal, and only where PyTorch confirms that it has the very namespace or operator already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from opsmith.spec.extension import Source

__all__ = ["Registered", "Registrations", "find_clash", "find_namespaces", "find_registrations", "source_texts"]

# A comment, or a string that may look like one: strings stay.
_COMMENT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(?P<kept>R"(?P<mark>\w*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*")""", re.DOTALL
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", re.MULTILINE)
# TORCH_LIBRARY(ns, m) {, TORCH_LIBRARY_FRAGMENT, STABLE_TORCH_LIBRARY, and the TORCH_LIBRARY_EXPAND that many projects
# define so that TORCH_EXTENSION_NAME is expanded. TORCH_LIBRARY_IMPL defines nothing.
_BLOCK = re.compile(
    r"\b(?:STABLE_)?TORCH_LIBRARY(?P<kind>_FRAGMENT\w*|_EXPAND\w*)?\s*\(\s*(?P<namespace>\w+)\s*,\s*(?P<variable>\w+)\s*\)\s*\{"
)
_SCHEMA = (
    r"\s*\.\s*def\s*\(\s*(?:(?:TORCH_SELECTIVE_SCHEMA|torch::schema)\s*\(\s*)?"
    r'(?:R"\w*\(|")\s*(?:(?P<ns>\w+)::)?(?P<name>\w+(?:\.\w+)?)'
)


@dataclass(frozen=True)
class Registrations:
    """What sources define: whole namespaces, and operators (`namespace::name.overload`) in fragments."""

    namespaces: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()


@dataclass
class Registered:
    """A library of this process and what it registered."""

    name: str
    file: Path  # the file that is loaded, which may be a copy
    registrations: Registrations
    released: bool = field(default=False)


def find_registrations(texts: Iterable[str], extension_name: str) -> Registrations:
    """Return what some sources define, as far as their text tells it; `extension_name` is TORCH_EXTENSION_NAME."""
    namespaces: set[str] = set()
    operators: set[str] = set()
    for raw in texts:
        text = _DIRECTIVE.sub("", _COMMENT.sub(lambda match: match["kept"] or " ", raw))
        blocks = list(_BLOCK.finditer(text))
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
