"""Native code is for one kind of processor, and a key that does not say which would send it to another."""

from __future__ import annotations

import pytest

from opsmith.toolchain.processor import asks_for_native, processor_identity

CPUINFO = (
    "processor\t: {core}\nvendor_id\t: GenuineIntel\nmodel\t\t: 85\ncpu MHz\t\t: {mhz}\nflags\t\t: fpu {flags}\n\n"
)


@pytest.mark.parametrize(
    ("word", "native"),
    [
        ("-march=native", True),
        ("-mtune=native", True),
        ("-Xcompiler=-fPIC,-march=native", True),
        ("-march=znver4", False),
        ("-I/home/native", False),
    ],
)
def test_native_flags_are_seen(word, native):
    assert asks_for_native(["c++", word, "-c"]) is native


def test_the_identity_changes_with_instructions_and_not_with_the_clock(tmp_path):
    def identity(name: str, **facts: object) -> str:
        file = tmp_path / name
        file.write_text("".join(CPUINFO.format(core=core, **facts) for core in range(2)))
        return processor_identity(file)

    assert identity("a", mhz=1000, flags="avx2") == identity("b", mhz=3000, flags="avx2")
    assert identity("a", mhz=1000, flags="avx2") != identity("c", mhz=1000, flags="avx2 avx512f")
    assert processor_identity(tmp_path / "missing")
