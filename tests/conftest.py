"""What all tests share: a store of their own, so that none touches the user's and equal definitions are built once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def session_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Send every build of the session to one temporary store; under pytest-xdist all workers share it."""
    base = tmp_path_factory.getbasetemp()
    # A worker's base is a folder of its own inside the session's.
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "opsmith-store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPSMITH_CACHE_DIR", str(root))
        patch.setenv("OPSMITH_QUIET", "1")
        yield root


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none, and say so."""
    import torch

    if torch.cuda.is_available():
        return
    reason = "needs a GPU; torch sees none here" if torch.backends.cuda.is_built() else "needs a GPU; torch is a CPU build"
    for item in items:
        if item.get_closest_marker("gpu") is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
