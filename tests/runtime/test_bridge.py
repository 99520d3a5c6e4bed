"""Where the bridge comes from: the store, a build in the background, or nowhere; and that nobody has to wait for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from compilers import compiler_with_bridge
from forks import python_c
from opsmith._background import do_quietly
from opsmith.errors import ArgumentError, CompileError, OpsmithError, StoreError, ToolchainError
from opsmith.runtime import bridge, bridge_library

pytestmark = pytest.mark.compile

CHILD = """
import json, time
import torch
from opsmith.ops.sigmoid import sigmoid

x = torch.linspace(-3, 3, 7, dtype=torch.float64).requires_grad_()
y = sigmoid(x)
(first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
(second,) = torch.autograd.grad(first.sum(), x)
with torch.autograd.forward_ad.dual_level():
    dual = torch.autograd.forward_ad.make_dual(x.detach(), torch.ones_like(x))
    tangent = torch.autograd.forward_ad.unpack_dual(sigmoid(dual)).tangent
print(json.dumps({
    "bridge": y.grad_fn.name() == "SigmoidBackward" and "CppFunction" in repr(y.grad_fn),
    "values": [item.tolist() for item in (y, first, second, tangent)],
}))
"""


WRITES = """
import json
import torch
from kit import elementwise

x = torch.ones(3, requires_grad=True)
y = x * 1
before = y._version
with torch.no_grad():
    elementwise.scale_(y, 2.0)
try:
    elementwise.scale_(x * 1, 2.0)
    refusal = ""
except Exception as error:
    refusal = f"{type(error).__name__}: {error}"
print(json.dumps({"counted": y._version - before, "refusal": refusal}))
"""


RAISES = """
import gc, json, sys, threading, weakref
import torch
from opsmith.errors import ShapeError
from opsmith.ops.add2 import add2
from opsmith.ops.sigmoid import sigmoid
from opsmith.runtime.differentiate import Body

class Own(Exception):
    pass

def second_gradient():
    x = torch.randn(4, requires_grad=True)
    (first,) = torch.autograd.grad(sigmoid(x).sum(), x, create_graph=True)
    first.sum().backward()

def attempt():
    try:
        second_gradient()
    except Own as error:
        caught.append(str(error))

def backward(self, *arguments):
    error = Own("from the body")
    alive.append(weakref.ref(error))
    raise error

second_gradient()
caught, alive = [], []
Body.backward = backward
attempt()
thread = threading.Thread(target=attempt)
thread.start()
thread.join()

def refuse(times):
    for _ in range(times):
        try:
            add2(a, b)
        except ShapeError:
            pass

a, b = torch.ones(3), torch.ones(4)
refuse(1)
before = [sys.getrefcount(item) for item in (a, b, None)]
refuse(1000)
for _ in range(1000):
    add2(a, a)
kept = [sys.getrefcount(item) - count for item, count in zip((a, b, None), before)]
gc.collect()
print(json.dumps({"caught": caught, "alive": sum(item() is not None for item in alive), "kept": max(kept)}))
"""


FIRST_CALLS = """
import builtins, faulthandler, json, threading, time
import torch
from opsmith.ops.sigmoid import sigmoid

sigmoid.load()
plain_import = builtins.__import__

def slow_import(name, *arguments, **keywords):
    if name.startswith("torch"):
        time.sleep(0.5)  # gives the lock of the interpreter away, as reading a file does
    return plain_import(name, *arguments, **keywords)

x = torch.zeros(3)
values = []
faulthandler.dump_traceback_later(60, exit=True)  # needs no lock of the interpreter
builtins.__import__ = slow_import
threads = [threading.Thread(target=lambda: values.append(sigmoid(x).tolist())) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
builtins.__import__ = plain_import
print(json.dumps({"values": values}))
"""


def run(store: Path, child: str = CHILD, **environment: str) -> dict[str, object]:
    env = {**os.environ, "OPSMITH_CACHE_DIR": str(store), "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    done = python_c(child, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def notes(store: Path) -> list[dict[str, object]]:
    return [json.loads(file.read_text()) for file in store.glob("*/bridge/*.json")]


@pytest.mark.slow("two processes that import torch")
def test_both_paths_give_the_same_bits(session_store: Path) -> None:
    with_bridge, without = run(session_store, OPSMITH_BRIDGE="wait"), run(session_store, OPSMITH_BRIDGE="off")
    assert with_bridge["bridge"]
    assert not without["bridge"]
    assert with_bridge["values"] == without["values"]


@pytest.mark.parametrize("path", ["wait", "off"])
def test_both_paths_count_writes_and_refuse_their_gradient(session_store: Path, path: str) -> None:
    done = run(session_store, WRITES, OPSMITH_BRIDGE=path)
    assert done["counted"] == 1
    assert str(done["refusal"]).startswith("GradientError: scale_() writes to x and has no gradient.")


def test_an_exception_of_the_body_comes_back_as_it_is_and_nothing_is_kept(session_store: Path) -> None:
    done = run(session_store, RAISES, OPSMITH_BRIDGE="wait")
    assert done["caught"] == ["from the body"] * 2
    assert done["alive"] == 0
    assert int(str(done["kept"])) < 100


def test_two_threads_may_make_the_first_call(session_store: Path) -> None:
    """What a call needs of torch is found before: an import in a static initialiser would be a deadlock."""
    assert run(session_store, FIRST_CALLS, OPSMITH_BRIDGE="wait")["values"] == [[0.5] * 3] * 2


def test_who_asks_is_told_where_the_bridge_is(
    session_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(session_store, OPSMITH_BRIDGE="wait")
    library = bridge_library.describe_bridge()["library"]
    assert library is not None
    assert Path(library).is_file()
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(tmp_path))
    assert bridge_library.describe_bridge() == {"library": None, "failure": None, "misfit": None}


@pytest.mark.slow("builds in the background, and an operator")
def test_the_first_process_does_not_wait_and_a_later_one_has_the_bridge(tmp_path: Path) -> None:
    compiler = compiler_with_bridge(tmp_path)
    first = run(tmp_path, OPSMITH_BRIDGE="auto", CXX=compiler)
    assert not first["bridge"]
    deadline = time.monotonic() + 300
    while not notes(tmp_path):
        assert time.monotonic() < deadline, "the build in the background did not end"
        time.sleep(0.5)
    later = run(tmp_path, OPSMITH_BRIDGE="auto", CXX=compiler)
    assert later["bridge"]
    assert later["values"] == first["values"]


def test_a_failed_build_is_noted_and_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(bridge_library, "start_in_background", lambda module, lock: started.append((module, lock)))
    assert bridge_library.load_bridge("auto") is None
    assert len(started) == 1
    # What the process in the background would do, with a compiler that fails.
    compiler = tmp_path / "c++"
    compiler.write_text('#!/bin/sh\ncase "$*" in *-c*) echo "error: no such luck" >&2; exit 1;; esac\nexec g++ "$@"\n')
    compiler.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("CXX", str(compiler))
        patch.setattr("os.nice", lambda by: 0)
        do_quietly(bridge_library.build_bridge, lock=tmp_path / "lock")
        (note,) = notes(tmp_path)
        assert "no such luck" in str(note["failure"])
        assert bridge_library.load_bridge("auto") is None
        assert len(started) == 1
        with pytest.warns(RuntimeWarning, match=r"(?s)runs without its bridge, more slowly: .*no such luck"):
            assert bridge_library.load_bridge("wait") is None
    # Another compiler is another chance.
    assert bridge_library.load_bridge("auto") is None
    assert len(started) == 2


@pytest.mark.parametrize(
    ("error", "minutes"),
    [
        (CompileError("opsmith_bridge does not compile\n\na.cpp:1: error: no such luck"), 24 * 60),
        (ToolchainError("no C++ compiler was found"), 24 * 60),
        (
            CompileError(
                "opsmith_bridge does not build. The compiler printed:\n\ncc1plus: out of memory allocating 64 bytes"
            ),
            10,
        ),
        (CompileError("g++: fatal error: Killed signal terminated program cc1plus"), 10),
        (CompileError("g++: fatal error: Terminated signal terminated program cc1plus"), 10),
        (StoreError("opsmith cannot write its store: the disk is full"), 10),
    ],
)
def test_a_failed_build_is_tried_again_after_a_while(
    error: OpsmithError, minutes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    started: list[object] = []
    now = time.time()
    clock = SimpleNamespace(time=lambda: now)
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(bridge_library, "start_in_background", lambda module, lock: started.append(module))
    monkeypatch.setattr(bridge_library, "compile_bridge", fail)
    monkeypatch.setattr(bridge_library, "time", clock)
    with pytest.raises(type(error)):
        bridge_library.build_bridge()
    assert bridge_library.describe_bridge()["failure"] == str(error)
    for passed, wanted in ((0, 0), (minutes - 1, 0), (minutes + 1, 1), (-24 * 60, 2)):
        clock.time = lambda passed=passed: now + 60 * passed
        assert bridge_library.load_bridge("auto") is None
        assert len(started) == wanted


def test_a_store_that_cannot_be_written_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(blocked / "store"))
    # Otherwise a folder beside the temporary files would stand in for it.
    monkeypatch.setattr("opsmith.store.locate._can_write", lambda root: True)
    monkeypatch.setattr(os, "posix_spawn", lambda *_, **__: pytest.fail("a process was started"))
    assert bridge_library.load_bridge("auto") is None


def test_a_damaged_note_or_library_is_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from opsmith.store import Manifest, Store, source_key

    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(bridge_library, "start_in_background", lambda module, *, lock: None)
    store = Store(tmp_path)
    note = bridge_library._note_file(store.layout)
    note.parent.mkdir(parents=True)
    for text in ("{", "[]", '{"artifact": 1}', '{"artifact": "../x"}', json.dumps({"artifact": "0" * 64})):
        note.write_text(text)
        assert bridge_library.load_bridge("auto") is None
    with store.staging() as staging:
        garbage = staging / "opsmith_bridge.so"
        garbage.write_bytes(b"no library")
        manifest = Manifest.describe(
            garbage, name="b", inputs={}, devices=(), archs=(), toolchain={}, torch_version=None, opsmith_version="0"
        )
        artifact = store.publish(source_key({}), staging, manifest=manifest, headers={})
    note.write_text(json.dumps({"artifact": artifact.key}))
    with pytest.warns(RuntimeWarning, match="runs without its bridge"):
        assert bridge_library.load_bridge("auto") is None


def test_the_variable_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPSMITH_BRIDGE", "maybe")
    with pytest.raises(ArgumentError, match="OPSMITH_BRIDGE is 'maybe'; it must be auto, wait or off"):
        bridge.find_bridge()
    monkeypatch.setenv("OPSMITH_BRIDGE", "off")
    assert bridge.find_bridge() is None


@pytest.mark.slow("processes that import torch")
def test_the_command_prints_where_it_is(session_store: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-m", "opsmith", "bridge"], env=env, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()).is_file()
    assert Path(done.stdout.strip()).is_relative_to(session_store)
