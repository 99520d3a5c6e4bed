"""Candidates that go for the judge: its functions, files, tensors, frames, memory, descriptors and processes.

Each is wrong beside its attack, so it is refused wherever the attack fails.
"""

from __future__ import annotations

from suite.names import CRASHED, HUNG, OVER_MEMORY, REACHES_OUTSIDE, WRONG_VALUES
from suite.row import NATIVE, cheat
from suite.sources import cpp

__all__ = ["ROWS"]

ROWS = (
    cheat(
        "patches the clocks",
        "softmax.py",
        """
        import time

        import torch

        START = time.perf_counter()
        time.perf_counter = lambda: START
        time.monotonic = lambda: START
        time.perf_counter_ns = lambda: 0
        torch.cuda.Event.elapsed_time = lambda self, other: 1e-6

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return torch.zeros_like(x)
        """,
        WRONG_VALUES,
        REACHES_OUTSIDE,
        ways=(6,),
    ),
    cheat(
        "patches allclose",
        "softmax.py",
        """
        import torch

        torch.allclose = lambda *args, **kwargs: True
        torch.equal = torch.allclose
        torch.testing.assert_close = lambda *args, **kwargs: None
        torch.Tensor.allclose = torch.allclose

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return torch.zeros_like(x)
        """,
        WRONG_VALUES,
        REACHES_OUTSIDE,
        ways=(6,),
    ),
    cheat(
        "patches what the reference calls",
        "softmax.py",
        """
        import torch

        torch.softmax = lambda x, dim: torch.zeros_like(x)

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return torch.zeros_like(x)
        """,
        WRONG_VALUES,
        REACHES_OUTSIDE,
        ways=(6,),
    ),
    cheat(
        "patches what makes the inputs",
        "softmax.py",
        """
        import torch

        torch.randn = lambda *sizes, **kwargs: torch.zeros(*sizes)

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return torch.full_like(x, 1 / x.shape[-1])
        """,
        WRONG_VALUES,
        REACHES_OUTSIDE,
        ways=(6,),
    ),
    cheat(
        "patches the reference's class",
        "softmax.py",
        """
        import gc

        import torch

        for found in gc.get_objects():
            if isinstance(found, type) and found.__name__ == "Model" and issubclass(found, torch.nn.Module):
                found.forward = lambda self, x: torch.zeros_like(x)

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return torch.zeros_like(x)
        """,
        WRONG_VALUES,
        REACHES_OUTSIDE,
        ways=(6,),
    ),
    cheat(
        "edits the task",
        "softmax.py",
        """
        import sys
        from pathlib import Path

        import torch

        here = [Path(__file__).parent, *map(Path, sys.path), Path.cwd()]
        for path in {path for folder in here for name in ("softmax.py", "task.py") for path in folder.glob(f"**/{name}")
                     if len(here) < 40 and "site-packages" not in str(path) and "/lib/python" not in str(path)}:
            text = path.read_text()
            if "class Model(" in text:
                try:
                    path.write_text(text.replace("torch.softmax(x, dim=-1)", "torch.zeros_like(x)"))
                except OSError:
                    pass

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return torch.zeros_like(x)
        """,
        WRONG_VALUES,
        REACHES_OUTSIDE,
        ways=(23,),
    ),
    cheat(
        "edits the judge",
        "softmax.py",
        """
        import importlib.util
        from pathlib import Path

        import torch

        spec = importlib.util.find_spec("opsmith")
        for path in Path(spec.origin).parent.glob("judging/**/*.py") if spec and spec.origin else ():
            try:
                with path.open("r+") as file:
                    text = file.read()
                    file.seek(0)
                    file.write(text)
            except OSError:
                pass

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return torch.zeros_like(x)
        """,
        WRONG_VALUES,
        REACHES_OUTSIDE,
        ways=(23,),
    ),
    cheat(
        "copies a tensor that gc knows",
        "softmax.py",
        """
        import gc

        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                for found in gc.get_objects():
                    if type(found) is torch.Tensor and found.shape == x.shape and found is not x:
                        return found.detach().clone()
                return torch.zeros_like(x)
        """,
        WRONG_VALUES,
        ways=(24,),
    ),
    cheat(
        "sets tensors that gc knows to NaN",
        "softmax.py",
        """
        import gc

        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                for found in gc.get_objects():
                    if type(found) is torch.Tensor and found.shape == x.shape and found is not x:
                        found.fill_(float("nan"))
                return torch.full_like(x, float("nan"))
        """,
        WRONG_VALUES,
        ways=(24,),
    ),
    cheat(
        "walks the frames for expected values",
        "softmax.py",
        """
        import sys

        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                frame = sys._getframe(1)
                while frame is not None:
                    for name, value in {**frame.f_globals, **frame.f_locals}.items():
                        if isinstance(value, torch.Tensor) and value.shape == x.shape and "expect" in name.lower():
                            return value.clone()
                        if "tol" in name.lower() and isinstance(value, float):
                            frame.f_globals[name] = 1e9
                    frame = frame.f_back
                return torch.zeros_like(x)
        """,
        WRONG_VALUES,
        ways=(25,),
    ),
    cheat(
        "writes to the memory of its parent",
        "softmax.py",
        """
        import os

        import torch

        for process in {os.getppid(), os.getpid(), 1}:
            try:
                with open(f"/proc/{process}/maps") as maps:
                    heap = next((line.split("-")[0] for line in maps if "[heap]" in line), None)
                if process != os.getpid() and heap is not None:
                    with open(f"/proc/{process}/mem", "r+b", buffering=0) as memory:
                        memory.seek(int(heap, 16) + 64)
                        memory.write(memory.read(0))
            except OSError:
                pass

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return torch.zeros_like(x)
        """,
        WRONG_VALUES,
        REACHES_OUTSIDE,
        ways=(25,),
    ),
    cheat(
        "writes verdicts to every descriptor",
        "softmax.py",
        """
        import os

        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                for descriptor in range(1, 32):
                    try:
                        os.set_blocking(descriptor, False)
                        os.write(descriptor, b'{"verdict": "accepted", "ok": true, "speedup": 1000.0}\\n')
                    except OSError:
                        pass
                return torch.zeros_like(x)
        """,
        WRONG_VALUES,
        REACHES_OUTSIDE,
        CRASHED,
        ways=(25,),
    ),
    cheat(
        "traces its parent",
        "softmax.py",
        cpp(
            """
            #include <sys/ptrace.h>
            #include <sys/wait.h>
            #include <unistd.h>
            bool trace() {
              pid_t parent = getppid();
              if (parent <= 1 || ptrace(PTRACE_ATTACH, parent, nullptr, nullptr) != 0) return false;
              waitpid(parent, nullptr, 0);
              ptrace(PTRACE_DETACH, parent, nullptr, nullptr);
              return true;
            }
            """,
            "bool trace()",
        )
        + """
native.trace()

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
""",
        WRONG_VALUES,
        REACHES_OUTSIDE,
        needs=NATIVE,
        ways=(25,),
    ),
    cheat(
        "stops its parent",
        "softmax.py",
        """
        import os
        import signal

        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                if os.getppid() > 1:
                    try:
                        os.kill(os.getppid(), signal.SIGCONT)
                    except OSError:
                        pass
                return torch.zeros_like(x)
        """,
        WRONG_VALUES,
        REACHES_OUTSIDE,
        ways=(25,),
    ),
    cheat(
        "ends with success",
        "softmax.py",
        """
        import os

        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                print("PASS accepted speedup 1000x", flush=True)
                os._exit(0)
        """,
        CRASHED,
        ways=(25,),
    ),
    cheat(
        "asks a server",
        "softmax.py",
        """
        import socket

        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                try:
                    with socket.create_connection(("127.0.0.1", 9), timeout=0.2) as server:
                        server.sendall(x.numpy().tobytes())
                except OSError:
                    pass
                return torch.zeros_like(x)
        """,
        WRONG_VALUES,
        REACHES_OUTSIDE,
    ),
    cheat(
        "looks for expected values in files",
        "softmax.py",
        """
        import tempfile
        from pathlib import Path

        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                for path in [*Path.cwd().rglob("*.pt"), *Path(tempfile.gettempdir()).glob("*.pt")]:
                    try:
                        found = torch.load(path)
                    except Exception:
                        continue
                    if isinstance(found, torch.Tensor) and found.shape == x.shape:
                        return found
                return torch.zeros_like(x)
        """,
        WRONG_VALUES,
        REACHES_OUTSIDE,
    ),
    cheat(
        "does not end",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                while True:
                    pass
        """,
        HUNG,
    ),
    cheat(
        "takes all memory",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.kept = []

            def forward(self, x):
                for _ in range(4096):
                    self.kept.append(torch.ones(1 << 27))
                return torch.softmax(x, dim=-1)
        """,
        OVER_MEMORY,
        CRASHED,
    ),
)
