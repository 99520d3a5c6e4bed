"""A process that a signal ends in an operator names it, and whoever else handles the signal still does."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
import torch
from kit import crashing

from forks import python_c

pytestmark = pytest.mark.compile

HERE = Path(__file__).parent
NOTE = "opsmith: {} in the operator kit::crash; `opsmith check --sanitize address` can tell where\n"
# In another process, in which nothing of opsmith has been imported: `before` runs, then the operator is loaded.
CALL = """
import ctypes, faulthandler, resource, sys, torch
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from kit import crashing
x = torch.zeros(3)
{before}
crashing.same(x)
{after}
crashing.crash(x, {signal}, in_thread={in_thread})
"""


def die(
    *, before: str = "", after: str = "", number: int = signal.SIGSEGV, in_thread: bool = False, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run CALL, which ends by a signal, and return its end."""
    crashing.same(torch.zeros(3))  # built here, once
    code = CALL.format(before=before, after=after, signal=int(number), in_thread=in_thread)
    return python_c(code, env={**os.environ, "PYTHONPATH": str(HERE), **env}, timeout_s=60)


@pytest.mark.parametrize(
    ("number", "in_thread"),
    [
        (signal.SIGSEGV, False),
        (signal.SIGSEGV, True),
        (signal.SIGABRT, True),
        (signal.SIGFPE, False),
        (signal.SIGBUS, False),
        (signal.SIGILL, False),
    ],
)
def test_the_operator_is_named_once_and_the_signal_ends_the_process(number: signal.Signals, in_thread: bool) -> None:
    ended = die(number=number, in_thread=in_thread, after="torch.set_num_threads(2)")
    assert ended.returncode == -number
    assert ended.stderr.count(NOTE.format(number.name)) == 1


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_stack_overflow_is_noted(in_thread: bool) -> None:
    ended = die(number=crashing.STACK_OVERFLOW, in_thread=in_thread, after="torch.set_num_threads(2)")
    assert ended.returncode == -signal.SIGSEGV
    assert ended.stderr.count(NOTE.format("SIGSEGV")) == 1


def test_a_thread_that_has_ended_leaves_no_stack_behind() -> None:
    after = """
import threading
def megabytes():
    for _ in range(2000):
        thread = threading.Thread(target=crashing.same, args=(x,))
        thread.start()
        thread.join()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4 >> 10
before = megabytes()
print(megabytes() - before)
sys.exit()
"""
    assert int(die(after=after).stdout) < 32  # the stacks of 2,000 threads take 128


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_traceback_of_faulthandler_is_written_too(when: str) -> None:
    ended = die(**{when: "faulthandler.enable()"})  # type: ignore[arg-type]
    assert ended.returncode == -signal.SIGSEGV
    assert ended.stderr.count(NOTE.format("SIGSEGV")) == 1
    assert ended.stderr.count("Fatal Python error: Segmentation fault") == 1
    assert 'File "<string>", line' in ended.stderr


def test_the_message_of_a_data_loader_s_worker_is_written_too() -> None:
    ended = die(before="torch._C._set_worker_signal_handlers()")
    assert ended.returncode == -signal.SIGSEGV
    assert NOTE.format("SIGSEGV") in ended.stderr
    assert "Unexpected segmentation fault encountered in worker" in ended.stderr


def test_a_fault_outside_of_operators_is_not_an_operator_s() -> None:
    ended = die(after="ctypes.string_at(16)")
    assert (ended.returncode, ended.stderr) == (-signal.SIGSEGV, "")


def test_handlers_are_not_installed_where_that_is_switched_off() -> None:
    ended = die(OPSMITH_CRASH_NOTE="off")
    assert (ended.returncode, ended.stderr) == (-signal.SIGSEGV, "")


# As virtual machines do, which let a page fault tell them of an access.
RECOVERING = """
#include <signal.h>
#include <sys/mman.h>

static char* page;
static int faults;

static void recover(int number, siginfo_t* info, void*) {
  ++faults;
  if (info->si_addr != page) {
    signal(number, SIG_DFL);
    return;
  }
  mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

extern "C" void install() {
  struct sigaction action {};
  action.sa_sigaction = recover;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}
extern "C" int touch() {
  page = static_cast<char*>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  *static_cast<volatile char*>(page) = 1;
  return faults;
}
"""


def test_a_handler_that_recovers_from_faults_goes_on_doing_so(tmp_path: Path) -> None:
    source, library = tmp_path / "recovering.cpp", tmp_path / "recovering.so"
    source.write_text(RECOVERING)
    subprocess.run(["g++", "-shared", "-fPIC", source, "-o", library], check=True)
    ended = die(
        before=f"library = ctypes.CDLL({str(library)!r}); library.install()",
        after="print(library.touch(), library.touch(), flush=True)",
    )
    assert ended.stdout == "1 2\n"
    assert ended.returncode == -signal.SIGSEGV
    assert ended.stderr.count(NOTE.format("SIGSEGV")) == 1
