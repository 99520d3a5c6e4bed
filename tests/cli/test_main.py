"""What `opsmith` prints where the system refuses something: one line and the remedy; and what it does not print."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
from types import ModuleType

import pytest

from opsmith import cli
from opsmith.cli import main


@pytest.mark.parametrize(
    ("number", "file", "says", "remedy"),
    [
        (errno.EMFILE, None, "error: Too many open files", "ulimit -n 4096"),
        (errno.ENOSPC, "/store/x", "error: /store/x: No space left on device", "df -i"),
        (errno.ENAMETOOLONG, "/x\x1b[31m", r"error: /x\x1b[31m: File name too long", ""),
    ],
)
def test_an_answer_of_the_system_is_told_with_its_remedy(monkeypatch, capsys, number, file, says, remedy):
    def refuse(**_arguments):
        raise OSError(number, os.strerror(number), file)

    monkeypatch.setattr(cli._cli, "main", refuse)
    with pytest.raises(SystemExit, match="1"):
        main(["doctor"])
    printed = capsys.readouterr().err
    assert printed.startswith(says)
    assert remedy in printed


def test_an_error_of_ours_keeps_its_traceback(monkeypatch):
    """Without a file and without a remedy it is a defect, and its traceback is the report."""

    def fail(**_arguments):
        raise OSError(errno.EPROTO, "odd")

    monkeypatch.setattr(cli._cli, "main", fail)
    with pytest.raises(OSError, match="odd"):
        main(["doctor"])


@pytest.mark.parametrize("there", [False, True])
def test_a_half_imported_triton_is_collected_at_the_end(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    """Without NumPy its interpreter fails to import, and `triton` is gone from sys.modules while its library is loaded."""
    frozen = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    monkeypatch.delitem(sys.modules, "triton._C.libtriton", raising=False)
    if there:
        monkeypatch.setitem(sys.modules, "triton._C.libtriton", ModuleType("libtriton"))
    cli._spare_last_collections()
    assert bool(frozen) == (not there)


_WITHOUT_NUMPY = """
import subprocess
import sys
sys.modules["numpy"] = None
from opsmith.cli import main
try:
    main(["--version"])
finally:
    import torch._subclasses.functional_tensor
"""


def test_commands_do_not_miss_numpy():
    ran = subprocess.run([sys.executable, "-c", _WITHOUT_NUMPY], check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
