"""Import statements lead to the copy, bind the names that they bound, and stay on their lines."""

from __future__ import annotations

import pytest

from opsmith.package.standalone.imports import find_imports, with_imports_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import opsmith\n", "import p._opsmith as opsmith\n"),
        ("import opsmith as o, torch\n", "import p._opsmith as o, torch\n"),
        (
            "import torch, opsmith.errors\n",
            "import torch, p._opsmith as opsmith, p._opsmith.errors as _opsmith_errors\n",
        ),
        ("import opsmith.errors as e\n", "import p._opsmith.errors as e\n"),
        ("from opsmith import op, view\n", "from p._opsmith import op, view\n"),
        ("from opsmith.errors import (\n    ShapeError,\n)\n", "from p._opsmith.errors import (\n    ShapeError,\n)\n"),
        ("def f():\n    from  opsmith import op; op\n", "def f():\n    from  p._opsmith import op; op\n"),
        ('x = "ö"; import opsmith  # opsmith\n', 'x = "ö"; import p._opsmith as opsmith  # opsmith\n'),
        ("import opsmith; from opsmith import op\n", "import p._opsmith as opsmith; from p._opsmith import op\n"),
        ("if 1:\r\n\timport opsmith\r\n", "if 1:\r\n\timport p._opsmith as opsmith\r\n"),
        ('"""import opsmith"""\nfrom . import opsmith\nimport opsmith_x\n', None),
        ("from .opsmith import op\nfrom opsmithx import op\n", None),
    ],
)
def test_a_statement_leads_to_the_copy(text: str, expected: str | None) -> None:
    changed = with_imports_of(text.encode(), "p._opsmith").decode()
    assert changed == (text if expected is None else expected)
    assert not list(find_imports(changed.encode()))


def test_what_is_imported_is_told_with_its_line() -> None:
    text = b"import torch\nimport opsmith.errors, opsmith\ndef f():\n    from opsmith.ops.nms import nms, soft_nms\n"
    assert sorted(find_imports(text)) == [
        (2, "opsmith", ""),
        (2, "opsmith.errors", ""),
        (4, "opsmith.ops.nms", "nms"),
        (4, "opsmith.ops.nms", "soft_nms"),
    ]
