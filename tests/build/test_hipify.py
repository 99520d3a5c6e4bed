"""Sources that are translated for ROCm, in a folder of the store that processes share."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from opsmith.build.existing import assemble_sources, file_sources
from opsmith.build.hipify import hipify
from opsmith.spec.extension import ExistingSources
from opsmith.store import default_root

KERNEL = '#include <cuda_runtime.h>\n#include "scale.h"\nvoid wait() { cudaDeviceSynchronize(); }\n'


@pytest.fixture
def extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExistingSources:
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(tmp_path / "store"))
    folder = tmp_path / "user"
    folder.mkdir()
    (folder / "kernel.cu").write_text(KERNEL)
    (folder / "scale.h").write_text("#pragma once\n")
    return assemble_sources("own", file_sources([folder / "kernel.cu"]), library="own.so")


def copies(name: str) -> list[Path]:
    return list((default_root() / "hipified").rglob(name))


def test_a_source_is_translated_beside_a_copy_of_itself(extension: ExistingSources, tmp_path: Path) -> None:
    (source,) = hipify(extension).sources
    assert source.path is not None
    assert "hipDeviceSynchronize" in source.path.read_text()
    assert [copy.read_text() for copy in copies("kernel.cu")] == [KERNEL]
    assert sorted(path.name for path in (tmp_path / "user").iterdir()) == ["kernel.cu", "scale.h"]


def test_what_a_killed_process_left_is_replaced_and_what_fits_stays(extension: ExistingSources) -> None:
    hipify(extension)
    (kernel,), (header,) = copies("kernel.cu"), copies("scale.h")
    kernel.write_text(KERNEL[:20])
    before = header.stat()
    hipify(extension)
    assert kernel.read_text() == KERNEL
    assert (header.stat().st_ino, header.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_one_at_a_time_translates(extension: ExistingSources, monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[int] = []
    most = 0

    def translate(**_: Any) -> dict[str, Any]:
        nonlocal most
        inside.append(0)
        time.sleep(0.1)
        most = max(most, len(inside))
        inside.pop()
        return {}

    monkeypatch.setattr("torch.utils.hipify.hipify_python.hipify", translate)
    with ThreadPoolExecutor(3) as pool:
        assert len(list(pool.map(lambda _: hipify(extension), range(3)))) == 3
    assert most == 1
