"""Candidates that do not compute what they return, each with the name that the judge has to refuse it by.

The task is `softmax(x * w, dim=-1)` of a matrix and a row.
"""

from __future__ import annotations

from opsmith.judging.refusals import Refusal

__all__ = ["CHEATS", "TIMED"]

_HEAD = "import torch\n\ndef right(x, w):\n    return torch.softmax(x * w, dim=-1)\n\n"

# Finds what its process answers with, to replace it.
_ANSWERS = """
import sys
frame = sys._getframe()
while frame.f_code.co_name != "_serve":
    frame = frame.f_back
answers = frame.f_locals["answers"]
"""

CHEATS: dict[str, tuple[str, Refusal]] = {
    "cached by identity": (
        """
kept = {}
def normalize(x, w):
    key = (id(x), id(w))
    if key not in kept:
        kept[key] = right(x, w)
    return kept[key].clone()
""",
        Refusal.CACHED_RESULT,
    ),
    "cached by pointer": (
        """
kept = {}
def normalize(x, w):
    key = (x.data_ptr(), tuple(x.shape))
    if key not in kept:
        kept[key] = right(x, w)
    return kept[key].clone()
""",
        Refusal.CACHED_RESULT,
    ),
    "cached by a sample of the contents": (
        """
kept = {}
def normalize(x, w):
    key = float(x.flatten()[0] > 0)
    if key not in kept:
        kept[key] = right(x, w)
    return kept[key].clone()
""",
        Refusal.CACHED_RESULT,
    ),
    "replayed on the first pointers": (
        """
kept = []
def normalize(x, w):
    if not kept:
        kept.append((x, w))
    return right(*kept[0])
""",
        Refusal.STALE_POINTERS,
    ),
    "first row only": (
        """
def normalize(x, w):
    y = torch.empty_like(x)
    y[:1] = right(x[:1], w)
    return y
""",
        Refusal.UNWRITTEN_OUTPUT,
    ),
    "nothing written": ("\ndef normalize(x, w):\n    return torch.empty_like(x)\n", Refusal.UNWRITTEN_OUTPUT),
    "inputs set to zero": (
        """
def normalize(x, w):
    x.zero_()
    w.zero_()
    return torch.full_like(x, 1 / x.shape[-1])
""",
        Refusal.INPUT_MODIFIED,
    ),
    "inputs used as scratch": (
        """
def normalize(x, w):
    y = right(x, w)
    x.mul_(w)
    return y
""",
        Refusal.INPUT_MODIFIED,
    ),
    "lazy subclass": (
        """
class Lazy(torch.Tensor):
    @staticmethod
    def __new__(cls, x, w):
        self = torch.Tensor._make_subclass(cls, torch.empty_like(x))
        self.given = (x, w)
        return self
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        args = [right(*a.given) if isinstance(a, Lazy) else a for a in args]
        return function(*args, **(kwargs or {}))
def normalize(x, w):
    return Lazy(x, w)
""",
        Refusal.LAZY_RESULT,
    ),
    "overridden method of an instance": (
        """
def normalize(x, w):
    y = torch.empty_like(x)
    y.contiguous = lambda *a: right(x, w)
    y.detach = lambda *a: right(x, w)
    return y
""",
        Refusal.UNWRITTEN_OUTPUT,
    ),
    "half precision": (
        """
def normalize(x, w):
    return right(x.bfloat16(), w.bfloat16()).to(x.dtype)
""",
        Refusal.LOW_PRECISION,
    ),
    "another type": ("\ndef normalize(x, w):\n    return right(x, w).double()\n", Refusal.WRONG_DTYPE),
    "another shape": ("\ndef normalize(x, w):\n    return right(x, w)[:, :-1]\n", Refusal.WRONG_SHAPE),
    "the identity": ("\ndef normalize(x, w):\n    return x * w\n", Refusal.WRONG_VALUES),
    "the mean, whatever the input": (
        "\ndef normalize(x, w):\n    return torch.full_like(x, 1 / x.shape[-1])\n",
        Refusal.WRONG_VALUES,
    ),
    "without the maximum": (
        """
def normalize(x, w):
    e = (x * w).exp()
    return e / e.sum(-1, keepdim=True)
""",
        Refusal.WRONG_FOR_OTHER_VALUES,
    ),
    "a series that is right for small numbers": (
        """
def normalize(x, w):
    z = (x * w).clamp(-20, 20)
    return torch.softmax(z, dim=-1)
""",
        Refusal.WRONG_FOR_OTHER_VALUES,
    ),
    "drift after ten calls": (
        """
calls = 0
def normalize(x, w):
    global calls
    calls += 1
    y = right(x, w)
    return y if calls < 10 else y.roll(1, 0)
""",
        Refusal.DRIFTS,
    ),
    "one buffer for all results": (
        """
buffer = None
def normalize(x, w):
    global buffer
    if buffer is None or buffer.shape != x.shape:
        buffer = torch.empty_like(x)
    return buffer.copy_(right(x, w))
""",
        Refusal.OVERWRITTEN_RESULT,
    ),
    "right by chance": (
        """
import random
def normalize(x, w):
    return right(x, w) if random.random() < 0.8 else right(x, w) * 1.5
""",
        Refusal.NOT_DETERMINISTIC,
    ),
    "it raises": ("\ndef normalize(x, w):\n    raise RuntimeError('launch failed')\n", Refusal.RAISED),
    "it raises when imported": ("\n1 / 0\n", Refusal.NOT_LOADED),
    "it has another name": ("\ndef other(x, w):\n    return right(x, w)\n", Refusal.NOT_LOADED),
    "it crashes": (
        "\nimport ctypes\ndef normalize(x, w):\n    return ctypes.string_at(16)\n",
        Refusal.CRASHED,
    ),
    "it ends the process": ("\nimport os\ndef normalize(x, w):\n    os._exit(0)\n", Refusal.CRASHED),
    "it hangs": ("\ndef normalize(x, w):\n    while True: pass\n", Refusal.HUNG),
    "it takes all memory": (
        "\ndef normalize(x, w):\n    return [torch.ones(1 << 28) for _ in range(64)]\n",
        Refusal.OVER_MEMORY,
    ),
    "memory before the input": (
        """
def normalize(x, w):
    before = x.as_strided((1,), (1,), 0)
    import ctypes
    outside = ctypes.c_float.from_address(x.data_ptr() - 8).value
    return right(x, w) + outside * 0
""",
        Refusal.READS_OUTSIDE,
    ),
    "it writes before the input": (
        """
import ctypes
def normalize(x, w):
    ctypes.memset(x.data_ptr() - 16, 1, 8)
    return right(x, w)
""",
        Refusal.WRITES_OUTSIDE,
    ),
    "None": ("\ndef normalize(x, w):\n    return None\n", Refusal.WRONG_DTYPE),
    "a thread does the work": (
        """
import threading, time
def normalize(x, w):
    y = torch.empty_like(x)
    def work():
        time.sleep(0.02)
        y.copy_(right(x, w))
    threading.Thread(target=work).start()
    return y
""",
        Refusal.WORKS_AFTER_THE_END,
    ),
    "a message of its own": (
        """
import json, os, socket, struct
def normalize(x, w):
    for name in os.listdir("/proc/self/fd"):
        try:
            link = socket.socket(fileno=os.dup(int(name)))
            packed = json.dumps({"number": 10**6, "results": []}).encode()
            link.sendall(struct.pack("<I", len(packed)) + packed)
        except OSError:
            pass
    return right(x, w)
""",
        Refusal.REACHES_OUTSIDE,
    ),
    "half precision after a hundred calls": (
        """
calls = 0
def normalize(x, w):
    global calls
    calls += 1
    return right(x, w) if calls < 100 else right(x.bfloat16(), w.bfloat16()).float()
""",
        Refusal.DRIFTS,
    ),
    "a result by the version of its input": (
        """
kept = {}
def normalize(x, w):
    key = (id(x), x._version, w._version)
    if key not in kept:
        kept[key] = right(x, w)
    return kept[key]
""",
        Refusal.CACHED_RESULT,
    ),
}
# These are right until they are timed.
TIMED: dict[str, tuple[str, Refusal]] = {
    "half precision after 600 calls": (
        """
calls = 0
def normalize(x, w):
    global calls
    calls += 1
    return right(x, w) if calls < 600 else right(x.bfloat16(), w.bfloat16()).float()
""",
        Refusal.DIFFERS_WHEN_TIMED,
    ),
    "only what stands last in the order": (
        """
import sys
def normalize(x, w):
    order = sys._getframe(2).f_locals.get("order", [])
    done = len(sys._getframe(2).f_locals.get("kept", []))
    return torch.zeros_like(x) if len(order) > 20 and done + 1 < len(order) else right(x, w)
""",
        Refusal.DIFFERS_WHEN_TIMED,
    ),
    "one call in twenty left out": (
        """
import random, sys
def normalize(x, w):
    is_timed = len(sys._getframe(2).f_locals.get("order", [])) > 20
    return torch.zeros_like(x) if is_timed and random.random() < 0.05 else right(x, w)
""",
        Refusal.DIFFERS_WHEN_TIMED,
    ),
    "lazy, with the look for it patched away": (
        """
import sys
calls = sys.modules["opsmith.judging.inside.calls"]
calls._oddness = lambda result: ""
class Lazy(torch.Tensor):
    @staticmethod
    def __new__(cls, x, w):
        self = torch.Tensor._make_subclass(cls, torch.empty_like(x))
        self.given = (x, w)
        return self
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            for one in args if function.__name__ in ("clone", "detach") else ():
                if isinstance(one, Lazy) and one.given is not None:
                    x, w = one.given
                    one.given = None
                    for _ in range(40):
                        y = right(x, w)
                    one.as_subclass(torch.Tensor).copy_(y)
            args = [a.as_subclass(torch.Tensor) if isinstance(a, Lazy) else a for a in args]
            return function(*args, **(kwargs or {}))
def normalize(x, w):
    return Lazy(x, w)
""",
        Refusal.LAZY_RESULT,
    ),
    "all calls of a batch made before it, while others do not count": (
        _ANSWERS
        + """
run, done = answers["run"], {}
def ahead(order, is_lead_in=False, **more):
    if is_lead_in:
        done.update({id(slot[0]): right(*slot) for slot in run.__self__.slots})
    found = run(order, is_lead_in=is_lead_in, **more)
    if not is_lead_in:
        done.clear()
    return found
answers["run"] = ahead
def normalize(x, w):
    return done.pop(id(x)) if id(x) in done else right(x, w)
""",
        Refusal.CACHED_RESULT,
    ),
    "computed when it is asked for, and as slowly the second time": (
        _ANSWERS
        + """
run, give, late, count = answers["run"], answers["give"], [], [0]
def empty(order, is_lead_in=False, is_watched=False, **more):
    late.clear()
    count[0] += 1
    late.append(None)
    if is_lead_in or is_watched or len(order) < 2 or count[0] < 60:
        late.clear()
    return run(order, is_lead_in=is_lead_in, is_watched=is_watched, **more)
def compute(which, is_snapshot=False):
    for number in which:
        if len(late) > number + 1:
            x, w, y = late[number + 1]
            y.copy_(right(x, w))
    return give(which, is_snapshot)
answers["run"], answers["give"] = empty, compute
def normalize(x, w):
    if not late:
        return right(x, w)
    late.append((x, w, torch.empty_like(x)))
    return late[-1][2]
""",
        Refusal.LAZY_RESULT,
    ),
    "a thread fills the results when the clock has stopped": (
        _ANSWERS
        + """
import queue, threading
run, give, work, is_late, count = answers["run"], answers["give"], queue.Queue(), [False], [0]
def fill():
    while True:
        x, w, y = work.get()
        y.copy_(right(x, w))
        work.task_done()
threading.Thread(target=fill, daemon=True).start()
def begin(order, is_lead_in=False, is_watched=False, **more):
    count[0] += 1
    is_late[0] = not is_lead_in and not is_watched and len(order) > 1 and count[0] > 60
    found = run(order, is_lead_in=is_lead_in, is_watched=is_watched, **more)
    is_late[0] = False
    return found
def wait(which, is_snapshot=False):
    work.join()
    return give(which, is_snapshot)
answers["run"], answers["give"] = begin, wait
def normalize(x, w):
    if not is_late[0]:
        return right(x, w)
    y = torch.empty_like(x)
    work.put((x, w, y))
    return y
""",
        Refusal.WORKS_AFTER_THE_END,
    ),
    "an answer before the work": (
        """
import json, os, socket, struct, sys
def normalize(x, w):
    frame = sys._getframe(2)
    if len(frame.f_locals.get("order", [])) > 20:
        serve = frame.f_back
        packed = json.dumps({"number": serve.f_locals["number"]}).encode()
        link = serve.f_locals["link"]
        link.sendall(struct.pack("<I", len(packed)) + packed)
    return right(x, w)
""",
        Refusal.REACHES_OUTSIDE,
    ),
}
TIMED = {name: (_HEAD + source, refusal) for name, (source, refusal) in TIMED.items()}
CHEATS = {name: (_HEAD + source, refusal) for name, (source, refusal) in CHEATS.items()}
