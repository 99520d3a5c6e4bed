"""Makes the package of examples/detection importable, and skips this folder where what it needs is not installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "detection"))
sys.path.append(str(Path(__file__).parent))  # detection_kit

MISSING = [name for name in ("pycocotools", "pydantic", "PIL", "yaml") if find_spec(name) is None]


class WithoutPackages(pytest.Module):
    """A file of tests whose imports would fail."""

    def collect(self):
        pytest.skip(f"examples/detection needs {', '.join(MISSING)}", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    return WithoutPackages.from_parent(parent, path=module_path) if MISSING else None


@pytest.fixture(autouse=True)
def precision_of_products() -> Iterator[None]:
    """Leave PyTorch's settings as they were: a training changes them, and with these torch.export refuses to run."""
    matmul, conv = torch.backends.cuda.matmul, torch.backends.cudnn.conv
    before = matmul.fp32_precision, conv.fp32_precision
    yield
    matmul.fp32_precision, conv.fp32_precision = before
