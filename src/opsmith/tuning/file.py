"""Keeps what was chosen as a module beside the definition: a list of configurations for each kernel.

A definition has them in front of those to choose from, `configs=[*tuned.SOFTMAX, *CONFIGS]`: a launch takes the first whose
condition holds. The module is part of the package, so a wheel carries it.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from opsmith.errors import ArgumentError
from opsmith.tuning.measure import Tuned

__all__ = ["configurations", "name_of", "read_lists", "write"]

_HEAD = '"""Configurations that `opsmith tune` has measured; each run of it writes the list of its kernel anew."""\n'


def configurations(tuned: Tuned) -> list[dict[str, Any]]:
    """Return a configuration for each region, whose condition is that of the region and its own."""
    found = []
    for region in tuned.regions:
        config = tuned.contenders[region.choice].config
        conditions = [] if config.when is None else [_enclosed(config.when.text)]
        conditions += [region.condition] if region.condition else []
        # A list before others needs a condition in each: any size of the call is at least 0.
        when = " and ".join(conditions) or f"{next(iter(tuned.measured[0].sizes))} >= 0"
        found.append({**dict(config.constants), **dict(config.options), "when": when})
    return found


def name_of(tuned: Tuned) -> str:
    """Return the name of the list."""
    name = tuned.operator.rpartition("::")[2].upper()
    return name if tuned.phase == "forward" else f"{name}_BACKWARD"


def read_lists(file: Path) -> dict[str, tuple[str, Any]]:
    """Return the lists of a file by name, each with the comment above it; nothing where there is no file.

    Raises ArgumentError for a file that has anything else, which writing it anew would lose.
    """
    if not file.exists():
        return {}
    text = file.read_text(encoding="utf-8")
    lines, found = text.splitlines(), {}
    try:
        for node in ast.parse(text).body:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue  # what the file is about
            if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
                raise ArgumentError(
                    f"{file}:{node.lineno}: it has more than lists of configurations; name another file"
                )
            above = lines[node.lineno - 2] if node.lineno > 1 else ""
            comment = above.removeprefix("# ") if above.startswith("# ") else ""
            found[node.targets[0].id] = (comment, ast.literal_eval(node.value))
    except (SyntaxError, ValueError) as error:
        raise ArgumentError(f"{file} is not a module of lists of configurations ({error}); name another file") from None
    return found


def write(tuned: Tuned, file: Path) -> None:
    """Put the list of a kernel into a file, and keep those of others. Raises as `read_lists` and OSError."""
    about = f"{tuned.machine}, torch {tuned.torch}, {date.today().isoformat()}"
    lists: Mapping[str, tuple[str, Any]] = {**read_lists(file), name_of(tuned): (about, configurations(tuned))}
    text = _HEAD
    for name, (comment, configs) in sorted(lists.items()):
        text += f"\n# {comment}\n" if comment else "\n"
        text += f"{name} = [\n" + "".join(f"    {_literal(config)},\n" for config in configs) + "]\n"
    beside = file.with_name(f".{file.name}.new")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, file)  # noqa: PTH105 - as the store does it


def _literal(config: Mapping[str, Any]) -> str:
    def item(value: Any) -> str:
        quoted = repr(value)
        return f'"{value}"' if isinstance(value, str) and quoted == f"'{value}'" else quoted

    return "{" + ", ".join(f'"{name}": {item(value)}' for name, value in config.items()) + "}"


def _enclosed(condition: str) -> str:
    return f"({condition})" if isinstance(ast.parse(condition, mode="eval").body, ast.BoolOp) else condition
