"""What `opsmith` prints where the system refuses something: one line and the remedy, without a traceback."""

from __future__ import annotations

import errno
import os

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
