"""The object of a host function gets other names, which link, and shows none of them."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from opsmith.build.ahead.compile_kernels.host_object import adapt, undefined

pytestmark = pytest.mark.compile

_HOST = """
int printf(const char*, ...);
int _cudaGetDevice(int*);
static int kept = 3;
int entry(void) { int device = 0; _cudaGetDevice(&device); return printf("%d", kept) + device; }
int other(void) { return entry() + kept; }
"""
_OURS = """
int ours_printf(const char* format, ...) { return format[1]; }
int ours_device(int* device) { return *device = 1000; }
int ours_entry(void);
int called(void) { return ours_entry(); }
"""


def test_names_change_and_are_hidden(tmp_path: Path) -> None:
    for name, text in (("host", _HOST), ("ours", _OURS)):
        (tmp_path / f"{name}.c").write_text(text)
        command = ["gcc", "-fPIC", "-fno-builtin", "-O0", "-c", f"{name}.c", "-o", f"{name}.o"]
        subprocess.run(command, cwd=tmp_path, check=True)
    data = (tmp_path / "host.o").read_bytes()
    assert sorted(undefined(data)) == ["_cudaGetDevice", "printf"]
    names = {"printf": "ours_printf", "_cudaGetDevice": "ours_device", "entry": "ours_entry", "absent": "nothing"}
    changed = adapt(data, names)
    assert sorted(undefined(changed)) == ["ours_device", "ours_printf"]
    (tmp_path / "changed.o").write_bytes(changed)
    subprocess.run(["gcc", "-shared", "changed.o", "ours.o", "-o", "both.so"], cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "both.so"))
    assert library.called() == ord("d") + 1000
    for hidden in ("entry", "ours_entry", "other"):
        with pytest.raises(AttributeError):
            getattr(library, hidden)


@pytest.mark.parametrize("data", [b"", b"MZ" + bytes(100), b"\x7fELF\x02\x01" + bytes(100)])
def test_what_is_no_object(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"it is no ELF file of 64 bits|it has no symbols"):
        undefined(data)
