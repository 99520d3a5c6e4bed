"""docs/style.py finds slips in the documentation's prose; `make lint` runs it over all of it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def style() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_style", ROOT / "docs" / "style.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


PAGE = """
It is the the first kernel for Cuda.
Simply call it: it mends the file.

Images of 64 x 64 x 64 elements, `Cuda`, and [one](Cuda/simply.md).

```python
simply = "Cuda"
```

<a title="Cuda">x</a>
"""


def test_slips_are_found_where_they_are_and_code_is_not_prose(
    style: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("proselint")
    monkeypatch.setattr(style, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(PAGE)
    repeated, *others = map(str, style.find_all(["page.md"]))
    assert repeated.startswith("page.md:2:") and "'the the'" in repeated
    assert others == [
        "page.md:2:32: 'Cuda': write CUDA",
        "page.md:3:1: 'Simply': write nothing: leave it out",
        "page.md:3:20: 'mends': write fix",
    ]


def test_generated_pages_are_not_looked_at(style: ModuleType):
    found = style.documents()
    assert len(found) > 60
    assert not [path for path in found if path.startswith(("docs/results/", "docs/reference/"))]
