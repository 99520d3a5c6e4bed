"""The table of gradient_floor.py: how much faster than eager a gradient of five inputs can be, whatever its kernels do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["gradient_floor"]

RESULTS = Path(__file__).resolve().parent / "results"
_NAMES = {
    "eager": "eager",
    "mlp": "`mlp`",
    "nothing": "the same operator with kernels that only allocate",
    "cat": "`torch.cat` of five single elements",
}


def gradient_floor() -> str:
    """Return a table for each result file that is there."""
    paths = [RESULTS / f"gradient_floor_{device}.json" for device in ("cpu", "gpu")]
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]
    return "\n\n".join("\n".join(_table(result)) for result in found) or "Nothing has been measured yet."


def _table(result: dict[str, Any]) -> Iterator[str]:
    threads = f", {result['threads']} threads" if result["device"] == "cpu" else ""
    sizes = ", ".join(f"{name} {size}" for name, size in result["sizes"].items())
    yield (
        f"Forward and backward on {result['machine']}{threads}, torch {result['torch']}, {result['date'][:10]}, "
        f"wall-clock time; float32, {sizes}:"
    )
    yield ""
    yield "| operator | time | speedup over eager |"
    yield "|---|---|---|"
    for name, words in _NAMES.items():
        yield f"| {words} | {result['seconds'][name] * 1e6:.1f} us | {result['eager_over'][name]:.2f}x |"
