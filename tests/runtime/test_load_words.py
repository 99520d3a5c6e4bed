"""What the loader says of a library becomes what is missing and what to type."""

from pathlib import Path

import pytest
import torch

from opsmith.runtime.load_failure import explain_load_failure
from opsmith.toolchain.shims import release_text, shim_table

LIBRARY = Path("/x/smooth/_ops.so")


def explained(message: str) -> str:
    return explain_load_failure("smooth", LIBRARY, message)


def test_a_function_of_a_newer_torch_names_that_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    table = shim_table()
    symbol = next(name for name, since in table.since.items() if since == table.newest)
    monkeypatch.setattr(torch, "__version__", "2.10.1")
    found = explained(f"{LIBRARY}: undefined symbol: {symbol}")
    assert f"The library needs torch {release_text(table.newest)} or newer, which has {symbol}." in found
    assert f"`pip install --upgrade 'torch>={release_text(table.newest)}'`" in found


def test_a_function_that_this_torch_should_have_is_another_matter() -> None:
    symbol = next(name for name, since in shim_table().since.items() if since == shim_table().oldest)
    assert "or newer, which has" not in explained(f"{LIBRARY}: undefined symbol: {symbol}")


@pytest.mark.skipif(torch.version.cuda is not None or torch.version.hip is not None, reason="torch is for GPUs here")
def test_gpu_code_beside_a_cpu_build() -> None:
    found = explained(f"{LIBRARY}: undefined symbol: aoti_torch_get_current_cuda_stream")
    assert "is a CPU build" in found
    assert "`pip install --force-reinstall torch`" in found


@pytest.mark.parametrize(
    ("message", "cause", "command"),
    [
        (
            "libcudart.so.12: cannot open shared object file: No such file or directory",
            "libcudart.so.12",
            "pip install",
        ),
        (
            "/lib/libc.so.6: version `GLIBC_2.38' not found (required by /x/smooth/_ops.so)",
            "it needs GLIBC_2.38",
            "pip install --no-binary",
        ),
        (
            "CUDA error: no kernel image is available for execution on the device",
            "machine code only for other GPUs",
            "TORCH_CUDA_ARCH_LIST",
        ),
    ],
)
def test_each_cause_has_a_command(message: str, cause: str, command: str) -> None:
    found = explained(message)
    assert cause in found
    assert command in found.replace("\n", " ")
