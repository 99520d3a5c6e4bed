"""Defines an edit of a source: the tokens to replace, and the text in place of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from opsmith.checker.mutate.functions import Body
from opsmith.checker.mutate.source import Source

__all__ = ["Edit", "ordinary"]


@dataclass(frozen=True)
class Edit:
    """A replacement of the tokens from `begin` to before `end`."""

    begin: int
    end: int
    after: str


def ordinary(source: Source, body: Body) -> Iterator[int]:
    """Yield the tokens of a body that decide results: no template's arguments, and not `Source.without_result`."""
    for at in range(body.begin, body.end):
        if at not in source.in_templates and at not in source.without_result and source.tokens[at].kind != "directive":
            yield at
