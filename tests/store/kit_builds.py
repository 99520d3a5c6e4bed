"""A build that takes a third of a second, and a program that forks processes which make it: for races and kills.

The program imports everything once and then forks, so that a process costs milliseconds. It is run as a script.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from opsmith.build.artifact import obtain_artifact
from opsmith.build.plan import Target, plan_extension
from opsmith.build.watcher import Watcher
from opsmith.spec.extension import Extension, Source
from opsmith.store import Store
from opsmith.toolchain import find_toolchain

TEXT = 'extern "C" __attribute__((visibility("default"))) int answer() {{ return {number}; }}\n'
# The same, and some seconds of the compiler's time.
HEAVY = (
    """constexpr unsigned long work(int start) {{
  unsigned long sum = 0;
  for (int i = start; i < start + 2; ++i)
    for (unsigned long j = 0; j < 200000; ++j) sum += j * i;
  return sum;
}}
"""
    # Each stays within the compiler's limit for one.
    + "".join(f"static_assert(work({start}) + 1 != 0);\n" for start in range(1))
    + TEXT
)
# What a build may take beside what it does: a machine that runs other tests is uneven.
PATIENCE_S = 5.0


def build(store: Store, number: int, on_build: Callable[[], None] | None = None, text: str = TEXT) -> Path:
    """Build a library whose `answer()` is a number, or find it, and return its path."""
    source = Source("x.cpp", "cxx", "none", text=text.format(number=number))
    extension = Extension("x", store.root.parent, (source,), ("cpu",), library="x.so")
    toolchain = find_toolchain(cuda=False, rocm=False)
    plan = plan_extension(extension, toolchain, Target())
    watcher = Watcher(on_start=lambda plan: on_build() if on_build else None)
    return obtain_artifact(plan, toolchain, Target(), store, watcher=watcher).library


def in_child(action: Callable[[], None], *, group: bool = False) -> int:
    """Start a process that does something; its exit status is 0 where that was done."""
    child = os.fork()
    if child == 0:
        if group:
            os.setpgid(0, 0)
        status = 1
        try:
            action()
            status = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(status)
    return child


def check(store: Store, number: int, text: str = TEXT) -> None:
    """Build, load in this process, and compare."""
    answer = ctypes.CDLL(str(build(store, number, text=text))).answer()
    if answer != number:
        raise AssertionError(f"the library for {number} answers {answer}")


def finish(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def timed_build(store: Store, number: int, text: str = TEXT) -> float:
    start_s = time.perf_counter()
    if finish(in_child(lambda: check(store, number, text))) != 0:
        raise AssertionError(f"the build of {number} failed")
    return time.perf_counter() - start_s


def kill_builds(store: Store, rounds: int, seed: int) -> dict[str, object]:
    """Kill a build at a random point so many times; after each, another process must build the same, soon."""
    chance = random.Random(seed)
    usual_s = sorted(timed_build(store, -number) for number in range(1, 6))[2]
    survived, slowest_s, struck = 0, 0.0, 0
    for number in range(rounds):
        # Half of the time the compilers die too; the other half they go on as orphans while the next build runs.
        group = chance.random() < 0.5
        child = in_child(lambda number=number: check(store, number), group=group)
        time.sleep(chance.uniform(0, usual_s * 1.1))
        try:
            os.killpg(child, signal.SIGKILL) if group else os.kill(child, signal.SIGKILL)
        except ProcessLookupError:  # killed before it had a group of its own
            os.kill(child, signal.SIGKILL)
        struck += finish(child) == -signal.SIGKILL
        took_s = timed_build(store, number)
        slowest_s = max(slowest_s, took_s)
        survived += took_s < 3 * usual_s + PATIENCE_S
    return {"survived": survived, "struck": struck, "usual_s": usual_s, "slowest_s": slowest_s}


def race(store: Store, processes: int, number: int) -> dict[str, object]:
    """Let so many processes want the same library at once; count who builds and how long all of them take."""
    usual_s = sorted(timed_build(store, -number, HEAVY) for number in range(1, 4))[1]
    builds = store.root.parent / "builds"
    builds.touch()

    def one() -> None:
        def note() -> None:
            with builds.open("a") as file:
                file.write("x")

        build(store, number, note, HEAVY)

    start_s = time.perf_counter()
    children = [in_child(one) for _ in range(processes)]
    failures = sum(finish(child) != 0 for child in children)
    took_s = time.perf_counter() - start_s
    check(store, number, HEAVY)
    return {"builds": len(builds.read_text()), "failures": failures, "usual_s": usual_s, "took_s": took_s}


if __name__ == "__main__":
    what, root, count, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    doing = {"kill": kill_builds, "race": race}[what]
    print(json.dumps(doing(Store(root), count, seed)))
