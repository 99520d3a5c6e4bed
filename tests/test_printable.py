"""Names and logs that come from elsewhere cannot speak to the terminal, or in our name."""

from __future__ import annotations

import io
import json
import logging
import zipfile

import pytest

from opsmith._printable import printable
from opsmith.build.announce import step_lines
from opsmith.build.screens import Log, Terminal
from opsmith.cli import main
from opsmith.errors import StoreError
from opsmith.store import Change, Miss, Store, shared
from opsmith.store.archive import import_archive
from opsmith.store.machine import platform_name
from opsmith.store.shared import fetch_shared
from opsmith.store.wording import tell_miss

EVIL = "a\x1b[2J\x1b]0;title\x07\nerror: run this\r\u202e\ud800"
ESCAPED = r"a\x1b[2J\x1b]0;title\x07\nerror: run this\r\u202e\ud800"


def is_harmless(text: str) -> bool:
    return text.replace("\n", "").isprintable() and "\nerror: run this" not in text


def test_what_is_not_printable_is_escaped():
    assert printable(EVIL) == ESCAPED
    assert printable("naïve 演算\n\t", lines=True) == "naïve 演算\n\t"
    assert printable("a\rb\n", lines=True) == "a\\rb\n"


def test_the_terminal_and_the_log_show_escaped_titles(caplog):
    stream = io.StringIO()
    screen = Terminal(stream)
    screen.say(EVIL)
    assert stream.getvalue() == f"opsmith  {ESCAPED}\n"
    with caplog.at_level(logging.INFO, "opsmith"):
        Log().say(EVIL)
    assert caplog.messages == [f"opsmith: {ESCAPED}"]


def test_the_lines_of_a_log_are_escaped():
    stream = io.StringIO()
    step_lines(EVIL, stream).on_wait(0)
    assert stream.getvalue() == f"opsmith  waiting for {ESCAPED}: another process is building it\n"


def test_what_changed_is_escaped():
    assert is_harmless(tell_miss(Miss("headers", (Change(EVIL, "changed"), Change(f"source {EVIL}", "added")))))


def test_a_shared_store_warns_in_printable_lines(monkeypatch, tmp_path):
    monkeypatch.setattr(shared, "_given_up", set())
    monkeypatch.setenv("OPSMITH_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("OPSMITH_STORE", str(tmp_path / "shared"))
    folder = tmp_path / "shared" / shared._folder("0" * 64)
    folder.mkdir(parents=True)
    (folder / f"{EVIL[:-1].replace('/', '')}.json").write_text("{")
    with pytest.warns(RuntimeWarning, match="is damaged") as caught:
        fetch_shared(Store(tmp_path / "store"), "0" * 64)
    assert all(is_harmless(str(warning.message)) for warning in caught)

    def fail(_):
        raise OSError(EVIL)

    monkeypatch.setattr(shared, "open_transport", fail)
    with pytest.warns(RuntimeWarning, match="is not used") as caught:
        fetch_shared(Store(tmp_path / "store"), "0" * 64)
    assert all(is_harmless(str(warning.message)) for warning in caught)


@pytest.mark.parametrize("where", ["platform", "folder"])
def test_an_archive_is_refused_in_printable_lines(tmp_path, where):
    platform = EVIL[:-1] if where == "platform" else platform_name()
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("opsmith-archive.json", json.dumps({"format": 1, "platform": platform}))
        file.writestr(f"{EVIL[:-1]}/record.json", "{}")
    with pytest.raises(StoreError) as caught:
        import_archive(Store(tmp_path / "store"), tmp_path / "a.zip")
    assert is_harmless(str(caught.value))


def test_errors_of_the_command_line_are_escaped(monkeypatch, tmp_path, capfd):
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(tmp_path))
    archive = tmp_path / "a\x1b]0;title\x07.zip"
    archive.touch()
    with pytest.raises(SystemExit):
        main(["cache", "import", str(archive)])
    err = capfd.readouterr().err
    assert r"a\x1b]0;title\x07.zip is not an opsmith archive" in err


def test_a_log_is_explained_without_its_escape_codes(tmp_path, capfd):
    log = tmp_path / "log"
    log.write_bytes(b"a\x1b]0;title\x07.cpp:1:10: fatal error: cuda_runtime.h: No such file or directory\n")
    with pytest.raises(SystemExit):
        main(["explain-error", str(log)])
    out, err = capfd.readouterr()
    assert "title" in out
    assert "\x1b" not in out + err
    assert "\x07" not in out + err
