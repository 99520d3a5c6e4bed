"""What a candidate writes is measured and removed, whatever it is."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from opsmith.judging.candidate_process import CandidateProcess
from opsmith.judging.launch import Limits
from opsmith.judging.scratch import nameless_bytes, remove_folder, written_to


def test_folders_deeper_than_python_recurses_are_told_and_removed(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    # In a process of its own: the way down is longer than a path can be.
    program = "import os\nfor _ in range(2500):\n    os.mkdir('d'); os.chdir('d')\nopen('file', 'w').write('x')"
    subprocess.run([sys.executable, "-S", "-c", program], cwd=folder, check=True)
    assert "deep" in written_to(folder).uncounted
    remove_folder(folder)
    assert not folder.exists()


def test_closed_folders_and_links_are_removed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "scratch", tmp_path / "outside"
    (folder / "closed" / "inside").mkdir(parents=True)
    outside.mkdir()
    (outside / "file").write_text("stays")
    (folder / "link").symlink_to(outside)
    os.mkfifo(folder / "closed" / "pipe")
    (folder / "closed").chmod(0)
    remove_folder(folder)
    assert not folder.exists()
    assert (outside / "file").read_text() == "stays"


def test_files_without_a_name_count(tmp_path: Path) -> None:
    before = nameless_bytes([os.getpid()])
    with (tmp_path / "file").open("wb") as file:
        file.write(bytes(1 << 20))
        file.flush()
        (tmp_path / "file").unlink()
        memory = os.memfd_create("memory")
        os.write(memory, bytes(1 << 20))
        place = os.fstat(memory)
        assert nameless_bytes([os.getpid()]) - before == 2 << 20
        assert nameless_bytes([os.getpid()], [(place.st_dev, place.st_ino)]) - before == 1 << 20
        os.close(memory)


@pytest.mark.parametrize("may_follow", [True, False], ids=str)
def test_shared_memory_counts_of_which_no_page_is_mapped_any_more(
    may_follow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not may_follow:
        monkeypatch.setattr(Path, "stat", _stat_but_not_of_mappings)
    before = nameless_bytes([os.getpid()])
    with mmap.mmap(-1, 4 << 20) as memory:  # shared, by default
        memory[: 4 << 20] = b"x" * (4 << 20)
        memory.madvise(mmap.MADV_DONTNEED)
        memory.madvise(mmap.MADV_DONTFORK, 0, 1 << 20)  # which makes two mappings of one
        assert nameless_bytes([os.getpid()]) - before == 4 << 20
    assert nameless_bytes([os.getpid()]) == before


_stat = Path.stat


def _stat_but_not_of_mappings(path: Path, **more: bool) -> os.stat_result:
    if "map_files" in path.parts:
        raise PermissionError
    return _stat(path, **more)


def test_many_files_are_not_counted_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opsmith.judging.scratch._MOST_FILES", 10)
    for number in range(12):
        (tmp_path / str(number)).touch()
    assert "files" in written_to(tmp_path).uncounted


def test_of_much_output_the_end_is_kept() -> None:
    process = CandidateProcess("cpu", Limits())
    try:
        with (process.folder / "output").open("ab") as file:
            file.truncate(1 << 34)  # a hole, that nobody reads
            file.seek(0, os.SEEK_END)
            file.write(b"\nthe \x1b[2J end")
        assert process._printed().endswith(r"the \x1b[2J end")
        assert len(process._printed()) < 1 << 16
    finally:
        process.close()
