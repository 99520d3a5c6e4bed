"""A plan that runs faster gives what it would have given, and where a guess was wrong it is set right."""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from pathlib import Path

import pytest

from opsmith.errors import ArgumentError, CompileError

pytestmark = pytest.mark.compile

TORCH = "#include <torch/extension.h>\n"
# Says which header it was compiled with.
WHICH = '#ifdef SLIM\nextern "C" int which() { return 1; }\n#else\nextern "C" int which() { return 2; }\n#endif\n'
RARE = "int use() { return torch::rare(); }\n"


def which(library: Path) -> int:
    return ctypes.CDLL(str(library)).which()


def test_a_source_that_needs_no_more_is_compiled_with_the_slim_header(build, tmp_path):
    made = build(a=TORCH + WHICH)
    assert which(made.run(tmp_path / "one")) == 1
    assert len(made.rounds) == 1


def test_a_source_that_needs_more_is_compiled_again_with_the_whole_header_and_that_is_remembered(build, tmp_path):
    made = build(a=TORCH + WHICH + "inline " + RARE)
    assert which(made.run(tmp_path / "one")) == 2
    assert len(made.rounds) == 2
    assert which(made.run(tmp_path / "two")) == 2
    assert len(made.rounds) == 1


def test_only_the_source_that_failed_is_compiled_again(build, tmp_path):
    made = build(a=TORCH + WHICH, b=TORCH + "inline " + RARE)
    assert which(made.run(tmp_path / "one")) == 1
    again = [command for command in made.rounds[-1] if "-I" + str(tmp_path / "slim") in command]
    assert ["a.cpp" in command for command in again] == [True]


def test_an_error_of_the_users_own_is_told_at_once(build, tmp_path):
    made = build(a=TORCH + "int f() { return 1 }\n")
    with pytest.raises(CompileError, match=r"a\.cpp:2"):
        made.run(tmp_path / "one")
    assert len(made.rounds) == 1


@pytest.mark.parametrize(
    "mistake",
    [
        "int f() { return undeclared; }",
        "int f() { return torch::no_such_thing(); }",
        "No_such_type f();",
        "struct Own {}; int f(Own own) { return own.nothing(); }",
        "struct Own {}; int f(Own own) { return own; }",
        '#include "no_such_header.h"',
    ],
)
def test_a_mistake_that_no_header_can_mend_is_compiled_once(mistake, build, tmp_path):
    made = build(a=f"{TORCH}{mistake}\n")
    with pytest.raises(CompileError, match=r"a\.cpp:2"):
        made.run(tmp_path / "one")
    assert len(made.rounds) == 1


@pytest.mark.parametrize(
    "use",
    [
        "int f() { return torch::rare(); }",
        "int f() { return RARE_MACRO; }",
        "int f(Rare rare) { return rare.member; }",
        "int f() { return rare_number; }",
        "Rare_alias f();",
    ],
)
def test_what_the_whole_header_declares_is_compiled_again(use, build, tmp_path):
    made = build(a=f"{TORCH}{WHICH}{use}\n")
    assert which(made.run(tmp_path / "one")) == 2
    assert len(made.rounds) == 2


def test_an_error_in_both_headers_is_that_of_the_whole_one(build, tmp_path):
    made = build(a=TORCH + "int f() { return torch::rare(1); }\n")
    with pytest.raises(CompileError, match="too many arguments"):
        made.run(tmp_path / "one")
    assert len(made.rounds) == 2
    assert "slim" not in " ".join(made.rounds[-1])
    # The header was not at fault: once the error is mended, the slim one serves again.
    assert which(build(a=TORCH + WHICH).run(tmp_path / "two")) == 1


def test_slim_headers_can_be_switched_off(build, tmp_path, monkeypatch):
    monkeypatch.setenv("OPSMITH_SLIM_HEADERS", "off")
    assert which(build(a=TORCH + WHICH).run(tmp_path / "one")) == 2


def test_a_precompiled_header_is_built_once_and_read(build, tmp_path, monkeypatch):
    monkeypatch.setenv("OPSMITH_PCH", "wait")
    made = build(flags=("-Winvalid-pch", "-Werror"), a=TORCH + WHICH)
    assert which(made.run(tmp_path / "one")) == 1
    (first,) = [command for command in made.rounds[0] if "-include" in command]
    kept = [artifact for artifact in made.store.artifacts() if artifact.manifest.kind == "header"]
    assert len(kept) == 1
    assert str(kept[0].folder) in first
    monkeypatch.setenv("OPSMITH_PCH", "auto")  # from now on it is only found
    other = build(flags=("-Winvalid-pch", "-Werror"), b=TORCH + WHICH)
    assert which(other.run(tmp_path / "two")) == 1
    assert str(kept[0].folder) in other.rounds[0][0]


def test_a_precompiled_header_holds_for_its_flags_alone(build, tmp_path, monkeypatch):
    monkeypatch.setenv("OPSMITH_PCH", "wait")
    for index, flags in enumerate([("-O1",), ("-O2",), ("-O2", "-DMINE", "-Wall"), ("-O2", "-march=native")]):
        made = build(flags=flags, a=TORCH + WHICH)
        assert which(made.run(tmp_path / str(index))) == 1
    assert sum(artifact.manifest.kind == "header" for artifact in made.store.artifacts()) == 3


def test_a_damaged_precompiled_header_is_made_again(build, tmp_path, monkeypatch):
    monkeypatch.setenv("OPSMITH_PCH", "wait")
    made = build(a=TORCH + WHICH)
    made.run(tmp_path / "one")
    (kept,) = made.store.artifacts()
    kept.library.chmod(0o644)
    kept.library.write_bytes(kept.library.read_bytes()[:-100])
    assert which(made.run(tmp_path / "two")) == 1
    (again,) = made.store.artifacts()
    assert again.library.stat().st_size == again.manifest.size_bytes


@pytest.mark.parametrize("text", [TORCH + WHICH, TORCH + "int here() { return torch::nowhere(); }\n"])
def test_what_an_altered_precompiled_header_had_a_part_in_does_not_count(text, build, tmp_path, monkeypatch):
    monkeypatch.setenv("OPSMITH_PCH", "wait")
    made = build(a=TORCH + WHICH)
    made.run(tmp_path / "one")
    (kept,) = made.store.artifacts()
    altered = bytearray(kept.library.read_bytes())
    altered[-100] ^= 1
    kept.library.chmod(0o644)
    kept.library.write_bytes(altered)
    made = build(a=text)
    with nullcontext() if text.endswith(WHICH) else pytest.raises(CompileError, match="nowhere"):
        made.run(tmp_path / "two")
    assert ["-include" in " ".join(commands) for commands in made.rounds][:2] == [True, False]
    assert list(made.store.artifacts()) == []


def test_nothing_is_read_before_a_macro_of_the_source(build, tmp_path, monkeypatch):
    monkeypatch.setenv("OPSMITH_PCH", "wait")
    made = build(a="#define EARLY\n" + TORCH + WHICH)
    assert which(made.run(tmp_path / "one")) == 1
    assert "-include" not in made.rounds[0][0]


def test_a_header_is_precompiled_in_the_background_of_the_first_build(build, tmp_path, monkeypatch):
    started = []
    monkeypatch.setenv("OPSMITH_PCH", "auto")
    monkeypatch.setattr(
        "opsmith.build.fast.precompiled.start_in_background", lambda *words, lock: started.append(words)
    )
    made = build(a=TORCH + WHICH)
    made.run(tmp_path / "one")
    ((module, root, text),) = started
    assert module == "opsmith.build.fast.precompiled"
    from opsmith.build.fast.precompiled import main

    monkeypatch.setattr("os.nice", lambda by: 0)
    main(root, text)
    made.run(tmp_path / "two")
    assert "-include" in made.rounds[0][0]
    monkeypatch.setattr("opsmith.build.fast.precompiled.available_memory_bytes", lambda: 1 << 30)
    build(flags=("-O2",), a=TORCH + WHICH).run(tmp_path / "three")
    assert len(started) == 1, "there is no memory for it"


def test_the_mode_is_checked(build, tmp_path, monkeypatch):
    monkeypatch.setenv("OPSMITH_PCH", "sometimes")
    with pytest.raises(ArgumentError, match="OPSMITH_PCH is 'sometimes'; it must be auto, wait or off"):
        build(a=TORCH).run(tmp_path / "one")


def test_an_edit_of_one_source_compiles_one_source(build, tmp_path):
    first = build(a=WHICH, b="int b() { return 1; }\n", c="int c() { return 1; }\n")
    first.run(tmp_path / "one")
    assert len(first.rounds[0]) == 4
    made = build(a=WHICH, b="int b() { return 2; }\n", c="int c() { return 1; }\n")
    assert which(made.run(tmp_path / "two")) == 2
    assert len(made.rounds[0]) == 2
    assert "b.cpp" in made.rounds[0][0]


def test_a_kept_object_is_not_used_when_a_header_of_it_has_changed(build, tmp_path):
    sources = {"a": '#include "own.h"\nextern "C" int which() { return VALUE; }\n', "b": "int b;\n"}
    (tmp_path / "project").mkdir()
    for value in (5, 6):
        (tmp_path / "project" / "own.h").write_text(f"#define VALUE {value}\n")
        assert which(build(**sources).run(tmp_path / str(value))) == value


def test_what_compiled_in_a_failed_build_is_kept(build, tmp_path):
    sources = {"a": WHICH, "b": "int b() { return 1; }\n"}
    made = build(**sources, c="int c() { return }\n")
    with pytest.raises(CompileError):
        made.run(tmp_path / "one")
    fixed = build(**sources, c="int c() { return 1; }\n")
    fixed.run(tmp_path / "two")
    assert sum(" -c " in command for command in fixed.rounds[0]) < 3


def test_a_compiler_cache_on_path_is_asked(build, tmp_path, monkeypatch):
    monkeypatch.delenv("TORCH_NO_COMPILER_WRAPPER")
    log = tmp_path / "log"
    cache = tmp_path / "bin" / "ccache"
    cache.parent.mkdir()
    cache.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec "$@"\n')
    cache.chmod(0o755)
    monkeypatch.setenv("PATH", str(cache.parent), prepend=":")
    build(a=TORCH + WHICH).run(tmp_path / "one")
    assert " -c " in log.read_text()
    log.unlink()
    monkeypatch.setenv("TORCH_NO_COMPILER_WRAPPER", "1")
    build(a=TORCH + WHICH).run(tmp_path / "two")
    assert not log.exists()
