"""A program is asked once, and again only when it or what stands behind it has changed."""

from __future__ import annotations

import json
import threading

import pytest

from opsmith.errors import ToolchainError
from opsmith.toolchain import ProbeCache, default_probes, find_host_compiler


def test_a_second_question_starts_nothing(machine, probes):
    program = machine.put("tool", "1.0")
    assert [probes.ask(program, "-v") for _ in range(3)] == ["1.0"] * 3
    assert machine.started == ["tool -v"]


def test_another_process_starts_nothing_either(machine, tmp_path):
    program = machine.put("tool", "1.0")
    assert [ProbeCache(tmp_path / "v1/probes.json").ask(program, "-v") for _ in range(3)] == ["1.0"] * 3
    assert machine.started == ["tool -v"]


def test_other_arguments_are_another_question(machine, probes):
    program = machine.put("tool", "1.0")
    probes.ask(program, "-v")
    probes.ask(program, "--version")
    assert machine.started == ["tool -v", "tool --version"]


def test_a_changed_program_is_asked_again(machine, probes, touch):
    program = machine.put("tool", "1.0")
    probes.ask(program)
    machine.put("tool", "2.0.0")
    assert probes.ask(program) == "2.0.0"
    touch(program)
    probes.ask(program)
    assert len(machine.started) == 3


def test_a_link_that_leads_elsewhere_is_asked_again(machine, probes):
    old, new = machine.put("tool-1", "1.0"), machine.put("tool-2", "2.0")
    link = machine.bin / "tool"
    link.symlink_to(old)
    assert probes.ask(link) == "1.0"
    link.unlink()
    link.symlink_to(new)
    assert probes.ask(link) == "2.0"


def test_a_script_is_asked_again_when_what_it_starts_has_changed(machine, probes, touch):
    hidden = machine.put("hidden/tool", "1.0")
    program = machine.put("tool", "1.0")
    for _ in range(2):
        probes.ask(program, depends_on=lambda _: [hidden])
    assert len(machine.started) == 1
    touch(hidden)
    probes.ask(program, depends_on=lambda _: [hidden])
    hidden.unlink()
    probes.ask(program, depends_on=lambda _: [hidden])
    assert len(machine.started) == 3


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '{"format": 1}', '{"format": 1, "answers": []}', '{"format": 99, "answers": {}}', "\xff"],
)
def test_a_damaged_file_is_as_good_as_none(machine, tmp_path, content):
    path = tmp_path / "probes.json"
    path.write_bytes(content.encode("latin-1"))
    program = machine.put("tool", "1.0")
    assert ProbeCache(path).ask(program) == "1.0"
    assert ProbeCache(path).ask(program) == "1.0"
    assert len(machine.started) == 1


@pytest.mark.parametrize("entry", [None, 1, {}, {"stamps": None, "answer": "0"}, {"stamps": {}, "answer": "0"}])
def test_a_damaged_answer_is_as_good_as_none(machine, tmp_path, entry):
    path = tmp_path / "probes.json"
    program = machine.put("tool", "1.0")
    path.write_text(json.dumps({"format": 1, "answers": {json.dumps([str(program)]): entry}}))
    assert ProbeCache(path).ask(program) == "1.0"


def test_an_answer_that_is_no_text_is_asked_again(machine, tmp_path):
    path = tmp_path / "probes.json"
    program = machine.put("tool", "1.0")
    ProbeCache(path).ask(program)
    content = json.loads(path.read_text())
    content["answers"][json.dumps([str(program)])]["answer"] = 7
    path.write_text(json.dumps(content))
    assert ProbeCache(path).ask(program) == "1.0"


def test_a_file_that_cannot_be_written_costs_only_time(machine, tmp_path):
    (tmp_path / "file").touch()
    program = machine.put("tool", "1.0")
    assert ProbeCache(tmp_path / "file" / "probes.json").ask(program) == "1.0"


def test_two_caches_of_one_file_keep_each_others_answers(machine, tmp_path):
    path = tmp_path / "probes.json"
    one, other = ProbeCache(path), ProbeCache(path)
    programs = [machine.put(name, name) for name in ("a", "b")]
    for cache in (one, other):
        cache.ask(machine.put("shared", "1.0"))
    one.ask(programs[0])
    other.ask(programs[1])
    started = len(machine.started)
    for program in programs:
        ProbeCache(path).ask(program)
    assert len(machine.started) == started


def test_threads_may_share_a_cache(machine, tmp_path):
    cache = ProbeCache(tmp_path / "probes.json")
    programs = [machine.put(f"tool{number}", str(number)) for number in range(8)]
    threads = [threading.Thread(target=cache.ask, args=(program,)) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [cache.ask(program) for program in programs] == [str(number) for number in range(8)]
    assert len(machine.started) == 8


def test_a_failure_is_told_and_not_remembered(machine, probes):
    program = machine.put("tool", "no licence", status=3)
    for _ in range(2):
        with pytest.raises(ToolchainError, match=r"tool -v` failed with status 3:\nno licence"):
            probes.ask(program, "-v")
    assert len(machine.started) == 2


def test_a_program_that_cannot_start_is_told(machine, probes):
    program = machine.bin / "tool"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    with pytest.raises(ToolchainError, match="tool cannot be started: Exec format error"):
        probes.ask(program)


def test_the_default_cache_lies_in_the_store(machine, monkeypatch, tmp_path):
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(tmp_path / "root"))
    machine.put_gcc()
    assert not (tmp_path / "root").exists()
    find_host_compiler()
    assert (tmp_path / "root/v1/probes.json").is_file()
    assert list((tmp_path / "root/v1/staging").iterdir()) == []
    assert default_probes() is default_probes()


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"format": 1, "answers": {"x": 1, "y": {"stamps": 2, "answer": ""}}}',
        b'{"format": 1, "answers": {"\\ud800": {"stamps": {"\\ud800": [1, 2, 3]}, "answer": "9"}}}',
        b"\xff\xfe\x00",
        b"null",
    ],
)
def test_a_damaged_file_of_answers_is_written_anew(machine, tmp_path, content):
    program = machine.put("tool", "1.0")
    file = tmp_path / "v1/probes.json"
    file.parent.mkdir()
    file.write_bytes(content)
    assert ProbeCache(file).ask(program, "-v") == "1.0"
    probes = ProbeCache(file)
    assert probes.ask(program, "-v") == "1.0"
    assert machine.started == ["tool -v"]
    assert [*probes.stamps()] == [str(program.resolve())]


def test_answers_that_others_could_have_written_do_not_count(machine, tmp_path):
    program = machine.put("tool", "1.0")
    file = tmp_path / "v1/probes.json"
    ProbeCache(file).ask(program, "-v")
    file.chmod(0o666)
    ProbeCache(file).ask(program, "-v")
    assert machine.started == ["tool -v"] * 2
    assert file.stat().st_mode & 0o022 == 0


def test_a_program_that_is_gone_does_not_count(machine, tmp_path):
    gone, here = machine.put("gone", "1.0"), machine.put("here", "2.0")
    other = machine.put("other")
    file = tmp_path / "v1/probes.json"
    ProbeCache(file).ask(gone, "-v", depends_on=lambda _: (other,))
    ProbeCache(file).ask(here, "-v")
    assert {*ProbeCache(file).stamps()} == {str(path.resolve()) for path in (gone, here, other)}
    gone.unlink()
    assert [*ProbeCache(file).stamps()] == [str(here.resolve())]
