"""The README is short, and its first operator works as printed: its files, its calls, and the text of its error."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README, CHECK = ROOT / "README.md", ROOT / "docs" / "guides" / "check.md"

pytestmark = pytest.mark.compile


def blocks(language: str, page: Path = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_first_operator(tmp_path: Path):
    definition, session = blocks("python")
    (kernel,) = blocks("cpp")
    package = tmp_path / "smooth"
    package.mkdir()
    (package / "__init__.py").write_text(definition)
    (package / "lowpass.cpp").write_text(kernel)
    # The lines that are typed, each behind what it prints; the one that fails stands in a try of its own.
    typed = [line.removeprefix(">>> ") for line in session.splitlines() if line.startswith(">>> ")]
    failing = "lowpass(torch.randn(100), 0.9)"
    assert failing in typed
    lines = [
        f"try:\n    {line}\nexcept Exception as error:\n    print(type(error).__name__, error)"
        if line == failing
        else f"print(repr({line}))"
        if line.startswith("torch.compile")
        else line
        for line in typed
    ]
    program = "\n".join(lines)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    (error,) = [line for line in session.splitlines() if line.startswith("opsmith.errors.")]
    assert printed[0] == error.removeprefix("opsmith.errors.").replace(": ", " ", 1)
    assert printed[1] == "torch.Size([4, 100])"


def test_it_is_read_in_minutes():
    assert len(README.read_text(encoding="utf-8").split()) <= 900


def test_the_report_of_the_check_has_every_property():
    from opsmith.checker.properties.table import PROPERTIES

    (printed,) = [block for block in blocks("console", CHECK) if block.startswith("$ opsmith check smooth\nsmooth.")]
    head, _, rest = printed.partition("bf16\n")
    assert head.splitlines()[1].split() == ["smooth.lowpass", "cpu"]
    rows = [line[:17].strip() for line in rest.partition("\n\n")[0].splitlines()]
    assert rows == [item.name for item in PROPERTIES if "cpu" in item.devices]
    assert "✗" not in printed
    assert "!" not in printed
