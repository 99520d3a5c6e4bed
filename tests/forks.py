"""Runs Python code as `python -c` does, in a process forked from one that has torch imported: two seconds sooner.

Nothing of opsmith is imported in that process, so what a test says of a new process holds here too, but for what torch
and the interpreter read as they start: interpreter options, LD_ variables, OMP_NUM_THREADS.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

__all__ = ["python_c", "spent_s"]

# A child leaves the loop and runs its code where the module ends, so that its interpreter ends as it always does.
_SERVER = """
import json, os, sys
import torch

base = list(sys.path[1:])


def next_request():
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            return json.loads(line)
        print(child, flush=True)
        _, status, usage = os.wait4(child, 0)
        print(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, flush=True)
    os._exit(0)


request = next_request()
for descriptor, name in enumerate((os.devnull, request["out"], request["err"])):
    os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), descriptor)
os.chdir(request["cwd"])
os.environ.clear()
os.environ.update(request["env"])
sys.argv[:] = ["-c", *request["arguments"]]
sys.path[:] = ["", *filter(None, request["env"].get("PYTHONPATH", "").split(os.pathsep)), *base]
sys.dont_write_bytecode = bool(request["env"].get("PYTHONDONTWRITEBYTECODE"))
exec(compile(request["code"], "<string>", "exec"), {"__name__": "__main__"})
"""


class _Server:
    """The process that has torch imported."""

    def __init__(self) -> None:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        atexit.register(self._process.kill)
        self.spent_s = 0.0

    def ask(self, request: Mapping[str, object], timeout_s: float) -> int | None:
        """Run what a request says and return the exit status, negative for a signal; None where the time was over."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        child = int(self._process.stdout.readline())
        over = threading.Event()
        timer = threading.Timer(timeout_s, lambda: (over.set(), os.kill(child, signal.SIGKILL)))
        timer.start()
        status, spent_s = self._process.stdout.readline().split()
        timer.cancel()
        self.spent_s += float(spent_s)
        return None if over.is_set() else int(status)


@cache
def _server() -> _Server:
    return _Server()


def spent_s() -> float:
    """Return the processor time of what has run here, with the processes that it waited for."""
    return _server().spent_s if _server.cache_info().currsize else 0.0


def python_c(
    code: str,
    arguments: Sequence[str] = (),
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    timeout_s: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run code with arguments, in an environment and a folder; return its exit status and what it printed.

    Raises subprocess.TimeoutExpired for a process that takes longer than `timeout_s`; it is killed.
    """
    with tempfile.TemporaryDirectory(prefix="opsmith-fork-") as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        status = _server().ask(
            {
                "code": code,
                "arguments": list(arguments),
                "env": dict(env),
                "cwd": str(cwd or Path.cwd()),
                "out": str(out),
                "err": str(err),
            },
            timeout_s,
        )
        text = [file.read_text() if file.exists() else "" for file in (out, err)]
    argv = ["python", "-c", code, *arguments]
    if status is None:
        raise subprocess.TimeoutExpired(argv, timeout_s, *text)
    return subprocess.CompletedProcess(argv, status, *text)
