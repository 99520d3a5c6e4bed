"""A file that is saved while a build reads it is noticed, whatever the clocks say; one that is not is no edit."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from opsmith.store.edits import edited_since, outlive_edits, versions_ahead

# More than a tick of the file system's clock.
_TICKS_S = 0.03
_HOUR_NS = 3_600_000_000_000


@pytest.fixture
def header(tmp_path: Path) -> Path:
    """Return a header that was written some ticks of the clock ago."""
    header = tmp_path / "x.h"
    header.write_text("1")
    time.sleep(_TICKS_S)
    return header


@pytest.fixture
def clock_behind(header: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process's clock be an hour behind that of the file system."""
    now_ns = time.time_ns
    monkeypatch.setattr("opsmith.store.edits.time.time_ns", lambda: now_ns() - _HOUR_NS)


def test_a_header_saved_during_a_build_is_noticed(header, tmp_path):
    new, gone = tmp_path / "new.h", tmp_path / "gone.h"
    start_ns = time.time_ns()
    new.touch()
    assert edited_since([header, new], start_ns) == (new,)
    assert edited_since([gone], time.time_ns()) == (gone,)


def test_a_header_saved_just_before_a_build_is_not_taken_for_an_edit(tmp_path):
    header = tmp_path / "new.h"
    header.touch()
    outlive_edits([header])
    assert edited_since([header], time.time_ns()) == ()


def test_a_time_in_the_future_that_was_given_before_a_build_is_not_an_edit(header):
    """So archives leave it, and `touch -d`."""
    later_ns = time.time_ns() + _HOUR_NS
    os.utime(header, ns=(later_ns, later_ns))
    time.sleep(_TICKS_S)
    start_ns = time.time_ns()
    assert edited_since([header], start_ns) == ()
    header.write_text("2")
    os.utime(header, ns=(later_ns, later_ns))
    assert edited_since([header], start_ns) == (header,)


def test_a_time_of_modification_during_a_build_is_an_edit_whatever_the_time_of_change(header):
    """Some file systems do not keep that."""
    start_ns = time.time_ns() + 30_000_000
    os.utime(header, ns=(start_ns, start_ns))
    time.sleep(2 * _TICKS_S)
    assert header.stat().st_ctime_ns < start_ns - 10_000_000
    assert edited_since([header], start_ns) == (header,)


def test_a_file_of_a_server_whose_clock_is_ahead_is_compared_with_what_it_was(header, clock_behind):
    start_ns = time.time_ns()
    assert edited_since([header], start_ns) == (header,), "nobody knows what it was"
    ahead = versions_ahead([header, header.with_name("gone.h")])
    assert edited_since([header], start_ns, ahead) == ()
    status = header.stat()
    header.write_text("2")
    os.utime(header, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert edited_since([header], start_ns, ahead) == (header,)
    header.write_text("1")
    assert edited_since([header], start_ns, ahead) == (header,), "it was another meanwhile"


def test_files_of_the_past_are_not_read_before_a_build(header):
    assert versions_ahead([header]) == {}
