"""How entries of a configuration are read: YAML, and types that do not take one kind of entry for another."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, Field

__all__ = [
    "Float",
    "Int",
    "NonNegativeFloat",
    "NonNegativeInt",
    "PathName",
    "PositiveFloat",
    "PositiveInt",
    "read_yaml",
]


def _no_boolean(found: object) -> object:
    if isinstance(found, bool):  # of which pydantic would make 0 or 1
        raise ValueError("a boolean is not a number")
    return found


def _as_name(found: object) -> object:
    return str(found) if type(found) is int else found


Int = Annotated[int, BeforeValidator(_no_boolean)]
Float = Annotated[float, BeforeValidator(_no_boolean)]
PositiveInt = Annotated[Int, Field(gt=0)]
PositiveFloat = Annotated[Float, Field(gt=0)]
NonNegativeInt = Annotated[Int, Field(ge=0)]
NonNegativeFloat = Annotated[Float, Field(ge=0)]
PathName = Annotated[Path, BeforeValidator(_as_name)]  # 2026 is a name, too


class _Loader(yaml.SafeLoader):
    """Reads booleans and integers as YAML 1.2 does, and dates as text.

    YAML 1.1, which PyYAML follows, also has `off` and `no` for false, and 2026_11_29, 007 and 10:30 for integers.
    """


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":bool", ":int", ":timestamp"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("(true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile("-?(0|[1-9][0-9]*)$"), list("-0123456789"))


def read_yaml(text: str) -> Any:
    """Return what a text in YAML has.

    Raises:
        yaml.YAMLError: it is not YAML.
    """
    return yaml.load(text, _Loader)
