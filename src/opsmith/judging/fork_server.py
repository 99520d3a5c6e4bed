"""Starts candidates' processes by a process that has PyTorch imported, from the second one on (see `inside.fork_server`)."""

from __future__ import annotations

import atexit
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Protocol

__all__ = ["Forked", "Request", "Started", "start_forked", "start_program"]

_FIND = "import json, sys; path, *rest = sys.argv[1:]; sys.path[:] = json.loads(path); "
_SERVE = (
    "from opsmith.judging.inside.fork_server import serve; arguments = serve(int(rest[0])); "
    "from opsmith.judging.inside.main import main; main(arguments)"
)
_FORK_S, _END_S = 60.0, 5.0
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


class Started(Protocol):
    """A process that was started, as `subprocess.Popen` has it."""

    @property
    def pid(self) -> int:
        """Its number; raises ProcessLookupError for one that has never begun."""

    @property
    def returncode(self) -> Any:
        """How it has ended, as far as that has been asked for."""

    def poll(self) -> int | None:
        """Return how it has ended, if it has: the exit status, or the negative number of a signal."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return that; raises subprocess.TimeoutExpired."""


@dataclass(frozen=True)
class Request:
    """What a process is started with."""

    arguments: tuple[str, ...]
    folder: str
    environment: Mapping[str, str]


class Forked:
    """A child of the server's. Until the server has it waited for, its number is nobody else's.

    A server that does not answer is ended, and so are its children.
    """

    def __init__(self, channel: socket.socket, server: _Server) -> None:
        self._channel, self._server = channel, server
        self._pid, self._end = 0, -1
        self.returncode: int | None = None

    @property
    def pid(self) -> int:
        """The number of the process, which the server tells when it has forked."""
        if self._pid == 0:
            told = self._told(_FORK_S)
            try:
                self._end = os.pidfd_open(int(told or 0))
            except OSError:  # there is none, or the server was killed meanwhile, and so was its child
                self.returncode = -signal.SIGKILL
                self._channel.close()
                raise ProcessLookupError("the process that forks for candidates has ended") from None
            self._pid = int(told)
        return self._pid

    def poll(self) -> int | None:
        """Return how it has ended, if it has."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(timeout=0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Return how it has ended, when it has."""
        if self.returncode is None:
            self._wait_for(self._channel.fileno() if self._pid == 0 else self._end, timeout)
            with suppress(ProcessLookupError):
                assert self.pid  # which is asked for before there is an end to wait for
                self._wait_for(self._end, timeout)
                self._ask()
        assert self.returncode is not None
        return self.returncode

    def _wait_for(self, descriptor: int, timeout: float | None) -> None:
        looked = select.poll()  # takes numbers of any size
        looked.register(descriptor, select.POLLIN)
        if not looked.poll(None if timeout is None else 1000 * timeout):
            raise subprocess.TimeoutExpired("a candidate's process", timeout or 0.0)

    def _ask(self) -> None:
        """Have the server say how it has ended; one that says nothing was killed, and so were its children."""
        with suppress(OSError):
            self._channel.send(b"?")
        self.returncode = int(self._told(_END_S) or -signal.SIGKILL)
        self._channel.close()
        os.close(self._end)

    def _told(self, patience_s: float) -> bytes:
        try:
            self._channel.settimeout(patience_s)
            return self._channel.recv(16)
        except TimeoutError:
            self._server.end()
        except OSError:
            pass
        return b""


class _Server:
    """The process that forks, and this process's end of the link to it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        # A request is one message: those of several threads do not mix.
        self._control, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            self._process = start_program(_SERVE, theirs, environment=environment)
        self._owner = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether it is alive, and a child of this process and not of one that this was forked from."""
        return self._owner == os.getpid() and self._process.poll() is None

    def fork(self, request: Request, link: socket.socket, output: IO[bytes]) -> Forked:
        """Have a process forked; raises OSError where there is no server any more."""
        channel, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            packed = json.dumps({"path": _path(), **asdict(request)}).encode()
            socket.send_fds(self._control, [packed], [link.fileno(), output.fileno(), theirs.fileno()])
        return Forked(channel, self)

    def close(self) -> None:
        """Ask for no more processes: it ends with the last of them."""
        self._control.close()

    def end(self) -> None:
        """End it, and with it its children."""
        self.close()
        if self.is_here:
            with suppress(subprocess.TimeoutExpired):
                self._process.kill()
                self._process.wait(_END_S)


class _Servers:
    """The server of this process, and those of before whose last children have not ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._settings: tuple[Any, ...] | None = None
        self._server: _Server | None = None
        self._closed: list[_Server] = []

    def current(self, environment: Mapping[str, str]) -> _Server | None:
        """Return the server; None for the first process with an environment, which would only wait for it.

        A process has the processors, limits and priority of who starts it: where these change, so does the server.
        """
        limits = [resource.getrlimit(one) for one in _LIMITS]
        priority = os.getpriority(os.PRIO_PROCESS, 0)
        settings = (dict(environment), os.sched_getaffinity(0), limits, priority, os.getpid())
        with self._lock:
            self._closed = [one for one in self._closed if one.is_here]
            is_first, self._settings = settings != self._settings, settings
            if self._server is not None and (is_first or not self._server.is_here):
                self._server.close()
                self._closed.append(self._server)
                self._server = None
            if self._server is None and not is_first:
                self._server = _Server(environment)
            return self._server

    def end(self) -> None:
        """End all of them, as this process ends."""
        for one in (*self._closed, *filter(None, [self._server])):
            one.end()


_servers = _Servers()
atexit.register(_servers.end)


def start_forked(
    request: Request, environment: Mapping[str, str], link: socket.socket, output: IO[bytes]
) -> Forked | None:
    """Have a process forked by one that was started with `environment`, to serve a link and to print to `output`.

    None where it is to be started as a program of its own: the first one, and all where Linux is too old (before 5.3), or
    was so where Python was built.
    """
    try:
        os.close(os.pidfd_open(os.getpid()))
        server = _servers.current(environment)
        return None if server is None else server.fork(request, link, output)
    except (OSError, AttributeError):
        return None


def start_program(
    code: str,
    link: socket.socket,
    arguments: tuple[str, ...] = (),
    *,
    environment: Mapping[str, str],
    folder: Path | None = None,
    output: IO[bytes] | int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start a program in Python, which has the descriptor of a link and arguments as `rest`, and finds modules as this one.

    Isolated (-I): neither a file beside it nor a variable decides what it imports.
    """
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _FIND + code, json.dumps(_path()), str(link.fileno()), *arguments],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=[link.fileno()],
        start_new_session=True,
    )


def _path() -> list[str]:
    return [path or str(Path.cwd()) for path in sys.path]
