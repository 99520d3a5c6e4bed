"""The libraries that flags for the linker lead to are found, but for torch's and the system's."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsmith.build.linked import linked_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with libraries in two folders and in torch's."""
    for name in ("one/libv.a", "two/libv.a", "two/libv.so", "two/libw.a", "torch/lib/libc10.so", "map"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "flags").write_text(f"-L '{tmp_path}/two' -lw @{tmp_path}/more")
    (tmp_path / "more").write_text(f"{tmp_path}/one/libv.a @{tmp_path}/flags")  # which names the other again
    return tmp_path


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        (["{0}/one/libv.a"], ["one/libv.a"]),
        (["{0}/one/libv.a", "{0}/one/libv.a"], ["one/libv.a"]),
        (["-Wl,--whole-archive,{0}/one/libv.a,--no-whole-archive"], ["one/libv.a"]),
        (["-Wl,--version-script={0}/map", "-Wl,-rpath,{0}/one"], ["map"]),
        (["-Wl,-Map,{0}/map", "-Wl,-Map={0}/map", "-Wl,--version-script"], []),  # what the linker writes
        (["{0}/one/gone.a", "libv.a", "-lm"], []),
        (["-L{0}/one", "-L{0}/two", "-lv", "-lw"], ["one/libv.a", "two/libw.a"]),
        (["-L{0}/two", "-lv"], ["two/libv.so"]),
        (["-L", "{0}/two", "-l", "w", "-L"], ["two/libw.a"]),
        (["@{0}/flags"], ["flags", "more", "one/libv.a", "two/libw.a"]),
        (["@flags", "@{0}/gone"], []),
        (["-L{0}/two", "-l:libv.a"], ["two/libv.a"]),
        (["-L{0}/torch/lib", "-lc10", "{0}/torch/lib/libc10.so"], []),
    ],
)
def test_what_flags_lead_to(folder: Path, flags: list[str], found: list[str]) -> None:
    words = [flag.format(folder) for flag in flags]
    assert linked_files(words, folder / "torch") == tuple(folder / name for name in found)


def test_libraries_of_arguments_come_first(folder: Path) -> None:
    found = linked_files(["-lw"], folder / "torch", libraries=["v"], library_dirs=[folder / "two"])
    assert found == (folder / "two" / "libv.so", folder / "two" / "libw.a")
