"""Signs tell what a candidate is made of, by its source."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path

import pytest

from opsmith.judging.candidate import Candidate
from opsmith.judging.signs import signs_of

KERNEL = '''
from torch.utils.cpp_extension import load_inline
native = load_inline("native", cpp_sources="", cuda_sources="""
#include <cuda_runtime.h>
__global__ void f(float* x) { x[0] = 1; }
void run(float* x) { f<<<1, 1>>>(x); }
""")
'''
LIBRARY = '''
native = load_inline("native", cpp_sources="""
#include <torch/extension.h>
// for (;;) __global__
torch::Tensor f(torch::Tensor a, torch::Tensor b) {
  return at::matmul(a, b);
}
""")
'''
TRITON = """
import triton
@triton.autotune([], key=[])
@triton.jit
def f(x):
    pass
"""


def signs(text: str, **more: str) -> dict[str, tuple[str, int | None]]:
    files = {"main.py": textwrap.dedent(text).encode(), **{f"{name}.cu": one.encode() for name, one in more.items()}}
    return {sign.name: (sign.message, sign.line) for sign in signs_of(Candidate(Path("c"), "main.py", files))}


@pytest.mark.parametrize("text", [KERNEL, TRITON], ids=["CUDA", "Triton"])
def test_a_kernel_gives_no_sign(text):
    assert signs(text) == {}


def test_a_kernel_in_a_file_beside_it_counts():
    assert signs("x = 1", kernel="__global__ void f() {}") == {}


def test_library_calls_only():
    assert signs(LIBRARY) == {
        "library calls only": ("main.py: native code without a loop or a device function; it calls at::matmul", 6)
    }


SEEN = {
    "no kernel": "def f(x):\n    return torch.relu(x)",
    "try/except around a call": KERNEL
    + "def f(x):\n    try:\n        return g(x)\n    except Exception:\n        return x",
    "patched functions": KERNEL + "import torch\ntorch.allclose = None",
    "tensor subclass": KERNEL + "class Lazy(torch.Tensor):\n    pass",
    "CUDA graph": KERNEL + "g = torch.cuda.CUDAGraph()",
    "other streams": KERNEL.replace("f<<<", "cudaStreamCreate(&s); f<<<"),
    "threads or processes": KERNEL + "import threading",
    "pointers as keys": KERNEL + "y = kept[id(x)]",
    "the stack is read": KERNEL + "import inspect\nfor one in inspect.stack():\n    pass",
    "objects are searched": KERNEL + "import gc\nfor one in gc.get_objects():\n    pass",
    "lower precision": KERNEL + "torch.backends.cuda.matmul.allow_tf32 = True",
    "cache control": KERNEL.replace("f<<<", "cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, n); f<<<"),
    "files and network": KERNEL + "import socket",
    "torch.compile": KERNEL + "f = torch.compile(g)",
}


@pytest.mark.parametrize(("name", "text"), SEEN.items(), ids=SEEN.keys())
def test_a_sign_is_seen(name, text):
    assert set(signs(text)) == {name}


IN_FULL = {
    "patched functions": "import torch.nn.functional as F\nF.softmax = None",
    "other streams": "from torch.cuda import Stream\ns = Stream()",
    "CUDA graph": "from torch import cuda\nwith cuda.graph(g):\n    pass",
    "objects are searched": "from gc import get_objects as all_of\nx = all_of()",
}


@pytest.mark.parametrize(("name", "text"), IN_FULL.items(), ids=IN_FULL.keys())
def test_a_sign_is_seen_by_what_a_name_was_imported_as(name, text):
    assert set(signs(KERNEL + text)) == {name}


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    try:\n        return g(x)\n    except Exception as error:\n        raise ValueError('x') from error",
        "try:\n    import triton\nexcept ImportError:\n    triton = None",
        "class Model(torch.nn.Module):\n    def __init__(self):\n        self.weight = 1",
        "torch.backends.cudnn.benchmark = True",
        "text = 'import threading; torch.cuda.CUDAGraph()'",
    ],
)
def test_what_is_usual_gives_no_sign(text):
    assert signs(KERNEL + "import torch\n" + text) == {}


def test_a_file_that_is_not_python_gives_none():
    assert set(signs("def f(:")) == {"no kernel"}


_DEEP = "x = a" + ".b" * 3_000
_TRIES = "".join("    " * depth + "try:\n" for depth in range(1, 19))
LONG = {
    "a comment without an end": ("", "/* " * 300_000),
    "strings without an end": ("", "\\" + '"\\' * 300_000),
    "a map without an end": ("", "map<" * 250_000),
    "a word without an end": ("allow_" * 150_000 + " = 1", ""),
    "attributes of attributes": ("\n".join(f"a{number}{'.b' * 900}" for number in range(500)), ""),
    "tries in functions": (
        f"def f(x):\n{_TRIES}{'    ' * 19}{'a;' * 100_000}\n"
        + "".join("    " * depth + "finally: pass\n" for depth in range(18, 0, -1)),
        "",
    ),
}


@pytest.mark.parametrize(("text", "native"), LONG.values(), ids=LONG.keys())
def test_no_source_takes_long_to_look_at(text, native):
    begun_s = time.process_time()
    signs(text, kernel=native)
    assert time.process_time() - begun_s < 10


def test_what_is_too_large_is_told():
    large = "void f() {}" * 100_000
    assert signs("x = 1", kernel=large) == {
        "not read": ("kernel.cu: no signs are looked for in it, since it is too large", None)
    }


@pytest.mark.parametrize("text", ["-" * 100_000 + "1", _DEEP], ids=["signs", "attributes"])
def test_what_is_nested_too_deep_is_no_error(text):
    assert set(signs(text)) <= {"no kernel", "not read"}
    assert set(signs(KERNEL + "import threading\nx = a" + ".b" * 800)) == {"threads or processes"}


def test_signs_are_shown_up_to_a_number_and_a_length():
    files = {f"{number}.py": b"import threading" for number in range(1_000)}
    files["main.py"] = b"threading." + b"a" * 10_000 + b" = 1\nimport threading"
    found = signs_of(Candidate(Path("c"), "main.py", files))
    assert len(found) < 100
    assert found[-1].name == "more signs"
    assert max(len(one.message) for one in found) < 1_000


def test_a_comment_within_a_string_hides_nothing():
    assert "other streams" in signs("x = 1", kernel='const char* text = "/*"; cudaStreamCreate(&s);')
    assert "other streams" not in signs("x = 1", kernel="/* cudaStreamCreate(&s); */ __global__ void f();")
