"""What a candidate's process sends is believed only where it has the form of an answer."""

from __future__ import annotations

import gc
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from opsmith.judging.answers import CellError, charge_of, charge_of_cache, place_in, returned, signs_in
from opsmith.judging.diagnosis import is_near, same_numbers
from opsmith.judging.memory import DTYPES, Area, read_tensor
from opsmith.judging.messages import MessageError, receive, send
from opsmith.judging.refusals import Refusal
from opsmith.judging.tasks.trees import as_real

WHOLE = {"at": 0, "shape": [2, 2], "dtype": "float32"}


def test_a_described_tensor_is_copied() -> None:
    area = Area(4096)
    area.part(0, 4, torch.float32).copy_(torch.arange(4.0))
    found = read_tensor(WHOLE, area)
    area.bytes.zero_()
    assert found.tolist() == [[0.0, 1.0], [2.0, 3.0]]


@pytest.mark.parametrize(
    "changed",
    [
        {"at": 1 << 40},
        {"at": -4},
        {"at": 4090},
        {"at": "0"},
        {"at": True},
        {"shape": [1 << 40, 1 << 40]},
        {"shape": [1 << 47, 1 << 47, 0]},
        {"shape": [-2, -2]},
        {"shape": [1] * 100},
        {"shape": 4},
        {"shape": [2.0]},
        {"dtype": "Tensor"},
        {"dtype": None},
    ],
    ids=str,
)
def test_a_description_of_something_else_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        read_tensor({**WHOLE, **changed}, Area(4096))
    with pytest.raises(CellError) as refused:
        returned([[{**WHOLE, **changed}]], Area(4096), 1)
    assert refused.value.charge.refusal is Refusal.REACHES_OUTSIDE


@pytest.mark.parametrize("found", [None, 3, "results", [], [[WHOLE], [WHOLE]], [3], [[3]], {"results": []}], ids=str)
def test_results_of_another_form_are_refused(found: Any) -> None:
    with pytest.raises(CellError):
        returned(found, Area(4096), 1)


@pytest.mark.parametrize("name", DTYPES)
def test_results_have_types_that_can_be_compared(name: str) -> None:
    described = {"at": 0, "shape": [4], "dtype": name}
    area = Area(4096)
    area.bytes[:64] = torch.arange(64, dtype=torch.uint8) % 2
    try:
        ((result,),) = returned([[described]], area, 1)
    except CellError as refused:
        assert refused.charge.refusal is Refusal.WRONG_DTYPE
        with pytest.raises(NotImplementedError):
            read_tensor(described, area).to(torch.float64)
        return
    assert result is not None
    assert result.tensor is not None
    same_numbers([result.tensor], [result.tensor])
    is_near([result.tensor], [result.tensor])
    as_real(result.tensor).to(torch.float64)


def test_a_refusal_that_does_not_exist_is_the_usual_one() -> None:
    charge = charge_of({"error": "ValueError", "message": "no", "refusal": "a name of its own"}, Refusal.RAISED)
    assert charge is not None
    assert charge.refusal is Refusal.RAISED
    known = charge_of({"error": "OpeningError", "message": "no", "refusal": "missing parameters"}, Refusal.NOT_LOADED)
    assert known is not None
    assert known.refusal is Refusal.MISSING_PARAMETERS
    assert charge_of({}, Refusal.RAISED) is None
    # The task's are not for its process to tell.
    other = charge_of({"error": "Error", "message": "no", "refusal": "degenerate task"}, Refusal.RAISED)
    assert other is not None
    assert other.refusal is Refusal.RAISED


def test_words_of_a_candidate_are_fit_for_files_and_terminals() -> None:
    charge = charge_of({"error": "\x1b[2J", "message": "\ud800 on\ntwo lines"}, Refusal.RAISED)
    assert charge is not None
    assert charge.message == r"\x1b[2J: \ud800 on" + "\ntwo lines"


@pytest.mark.parametrize(
    ("trace", "place"),
    [
        ('File "/tmp/x/candidate/main.py", line 7, in forward\n', " (main.py, line 7)"),
        ("/candidate/" * 1_400_000, ""),
        ('/candidate/main.py", line 7' + " " * 5_000, ""),
        (f'/candidate/{"a" * 5_000}", line 7', ""),
        ('/candidate/a\n", line 7', ""),
        (f'/candidate/a", line {"7" * 1_000}', ""),
        ('/candidate/\x1b[2J", line 7', r" (\x1b[2J, line 7)"),
        ([["/candidate/"]], ""),
    ],
    ids=["a place", "no end", "far from the end", "a long name", "two lines", "a long number", "a command", "no text"],
)
def test_a_traceback_is_searched_within_bounds(trace: object, place: str) -> None:
    begun_s = time.process_time()
    charge = charge_of({"error": "E", "message": "m", "trace": trace}, Refusal.RAISED)
    # Hours with an unbounded expression.
    assert time.process_time() - begun_s < 5
    assert charge is not None
    assert charge.message == f"E: m{place}"


_COMMAND = f"c++ -MMD -MF main.o.d {'-isystem /usr/include/torch ' * 60}-c /tmp/scratch/native/main.cpp -o main.o"
_FAULT = "/tmp/scratch/native/main.cpp:6:3: error: expected ';' before 'return'"


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        (_FAULT, "main.cpp:6:3: error: expected ';' before 'return'"),
        ("kernel.cu(5): error: identifier is undefined", "kernel.cu(5): error: identifier is undefined"),
        ("main.cpp: undefined reference to `g()'", "main.cpp: undefined reference to `g()'"),
    ],
    ids=["gcc", "nvcc", "ld"],
)
@pytest.mark.parametrize("commands", [1, 2], ids=["in the message", "behind its end"])
def test_a_build_that_fails_begins_with_what_the_compiler_says(fault: str, shown: str, commands: int) -> None:
    text = f"Error building extension 'native': {_COMMAND}\n" * commands + f"{fault}\n  6 |  return a;\nninja: stopped"
    trace = f'File "/tmp/candidate/main.py", line 3, in <module>\nRuntimeError: {text}'
    charge = charge_of({"error": "RuntimeError", "message": text[:2000], "trace": trace[-4000:]}, Refusal.NOT_LOADED)
    assert charge is not None
    first, *others = charge.message.splitlines()
    assert first == f"RuntimeError: Error building extension 'native': {shown}"
    assert others[0] == "  6 |  return a;"


def test_a_build_that_says_nothing_known_is_told_as_it_is() -> None:
    charge = charge_of(
        {"error": "RuntimeError", "message": "Error building extension 'n': no ninja"}, Refusal.NOT_LOADED
    )
    assert charge is not None
    assert charge.message == "RuntimeError: Error building extension 'n': no ninja"


def test_a_place_is_told_once() -> None:
    trace = 'File "/tmp/candidate/main.py", line 1\n    x = (\n'
    message = "'(' was never closed (main.py, line 1)"
    charge = charge_of({"error": "SyntaxError", "message": message, "trace": trace}, Refusal.NOT_LOADED)
    assert charge is not None
    assert charge.message == f"SyntaxError: {message}"


def test_words_that_are_not_text_are_not_written_out() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    charge = charge_of({"error": nested, "message": nested, "refusal": nested}, Refusal.RAISED)
    assert charge is not None
    assert charge.message == "no text: no text"


def test_claims_of_the_wrong_type_are_nothing() -> None:
    assert charge_of_cache({"set_aside": "all"}) is None
    assert charge_of_cache({"set_aside": 0}) is None
    assert charge_of_cache({"set_aside": 4096}) is not None
    assert signs_in({"caught": "everything"}) == ()
    assert signs_in({"caught": [3, ["ValueError", "no", 7]]})[0].line == 7


def test_caught_in_an_answer_are_few_and_short() -> None:
    many = signs_in({"caught": [["a" * 1_000, "b" * 1_000_000, 10**4_000]] * 1_000_000})
    assert len(many) == 20
    assert len(many[0].message) < 1_000
    assert many[0].line is None


def test_memory_that_is_shared_cannot_shrink() -> None:
    area = Area(1 << 16)
    with pytest.raises(OSError, match="not permitted"):
        os.ftruncate(area.descriptor, 0)


@pytest.fixture
def link() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_messages_cross_with_descriptors(link: tuple[socket.socket, socket.socket]) -> None:
    area = Area(4096)
    send(link[0], {"number": 1, "nan": float("inf")}, (area.descriptor,))
    message, descriptors = receive(link[1], 1)
    assert message["number"] == 1
    area.bytes[7] = 9
    same = Area(4096, descriptors[0])
    assert same.bytes[7] == 9
    same.close()


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack("<I", 1 << 31),
        struct.pack("<I", 2) + b"{x",
        struct.pack("<I", 1) + b"3",
        struct.pack("<I", 200_000) + b"[" * 200_000,
    ],
    ids=["too long", "no JSON", "no dictionary", "too deep"],
)
def test_what_is_not_a_message_is_refused(sent: bytes, link: tuple[socket.socket, socket.socket]) -> None:
    link[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    link[0].sendall(sent)
    with pytest.raises(MessageError):
        receive(link[1])


def test_descriptors_that_nobody_wants_do_not_stay_open(link: tuple[socket.socket, socket.socket]) -> None:
    before = _opened()
    send(link[0], {"number": 1}, (0, 0, 0, 0))
    assert receive(link[1]) == ({"number": 1}, [])
    assert _opened() <= before


def _opened() -> int:
    gc.collect()  # what other tests have left open closes now, not meanwhile
    return len(list(Path("/proc/self/fd").iterdir()))


def test_results_that_overlap_are_refused() -> None:
    area = Area(4096)
    whole = {"at": 0, "shape": [area.size], "dtype": "uint8"}
    assert len(returned([[whole]], area, 1)) == 1
    with pytest.raises(CellError, match="overlap"):
        returned([[whole, {**whole, "shape": [1]}]], area, 1)


@pytest.mark.parametrize("found", [None, "here", -1.5, ["here"], [1, None], True], ids=str)
def test_a_place_that_is_not_one_is_refused(found: Any) -> None:
    with pytest.raises(ValueError, match="place"):
        place_in(found)


def test_a_place_has_strides_where_a_result_is_not_dense() -> None:
    assert place_in(4096) == (4096, None)
    assert place_in([4096, 1, 4]) == (4096, [1, 4])


def test_a_message_that_is_cut_off_is_an_end(link: tuple[socket.socket, socket.socket]) -> None:
    link[0].sendall(struct.pack("<I", 100) + b"{")
    link[0].close()
    with pytest.raises(EOFError):
        receive(link[1])
