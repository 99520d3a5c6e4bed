"""CuTe DSL is found by its distribution, without being imported."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from opsmith.errors import ToolchainError
from opsmith.toolchain import cute
from opsmith.toolchain.cute import find_cute


def _installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def version(package: str) -> str:
        try:
            return versions[package.replace("-", "_")]
        except KeyError:
            raise PackageNotFoundError(package) from None

    monkeypatch.setattr(cute, "version", version)


def test_its_version_and_that_of_its_compiler_are_its_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch, nvidia_cutlass_dsl="4.8.1", nvidia_cutlass_dsl_libs_cu13="4.8.2")
    found = find_cute()
    assert (found.version, found.identity) == ("4.8.1", "CuTe DSL 4.8.1 (cu13 4.8.2)")


def test_without_it_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch)
    with pytest.raises(ToolchainError, match=r"`pip install nvidia-cutlass-dsl` or `pip install \"opsmith\[cute\]\"`"):
        find_cute()


@pytest.mark.parametrize("version", ["3.9.2", "4.7.9", "unknown"])
def test_one_that_is_too_old(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    _installed(monkeypatch, nvidia_cutlass_dsl=version, nvidia_cutlass_dsl_libs_cu12=version)
    with pytest.raises(ToolchainError, match=r"is too old: kernels are compiled ahead with 4\.8 or newer"):
        find_cute()
