"""Candidates that return what lies in memory, leave part of a result out, or write where they must not."""

from __future__ import annotations

from suite.names import (
    ALIASED_RESULT,
    INPUT_MODIFIED,
    OVERLAPPING_RESULT,
    OVERWRITTEN_RESULT,
    REACHES_OUTSIDE,
    UNWRITTEN_OUTPUT,
    WRONG_DTYPE,
    WRONG_FOR_OTHER_VALUES,
    WRONG_SHAPE,
    WRONG_VALUES,
)
from suite.row import NATIVE, cheat
from suite.sources import cpp

__all__ = ["ROWS"]

ROWS = (
    cheat(
        "returns freed memory",
        "axpy.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x, y):
                return torch.empty_like(x)
        """,
        UNWRITTEN_OUTPUT,
        WRONG_VALUES,
        ways=(1,),
    ),
    cheat(
        "returns freed memory of C++",
        "axpy.py",
        cpp(
            """
            #include <cstdlib>
            int64_t take(int64_t bytes) { return reinterpret_cast<int64_t>(std::malloc(bytes)); }
            """,
            "int64_t take(int64_t bytes)",
        )
        + """
class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        import ctypes

        memory = (ctypes.c_float * x.numel()).from_address(native.take(4 * x.numel()))
        return torch.frombuffer(memory, dtype=torch.float32).view(x.shape)
""",
        UNWRITTEN_OUTPUT,
        WRONG_VALUES,
        needs=NATIVE,
        ways=(1,),
    ),
    cheat(
        "zeroes its inputs",
        "axpy.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x, y):
                x.zero_()
                y.zero_()
                return torch.zeros_like(x)
        """,
        INPUT_MODIFIED,
        WRONG_VALUES,
        ways=(2,),
    ),
    cheat(
        "zeroes its inputs in C++",
        "relu.py",
        cpp(
            """
            #include <cstring>
            void clear(int64_t x, int64_t bytes) { std::memset(reinterpret_cast<void*>(x), 0, bytes); }
            """,
            "void clear(int64_t x, int64_t bytes)",
        )
        + """
class ModelNew(torch.nn.Module):
    def forward(self, x):
        native.clear(x.data_ptr(), 4 * x.numel())
        return torch.zeros_like(x)
""",
        INPUT_MODIFIED,
        WRONG_VALUES,
        needs=NATIVE,
        ways=(2,),
    ),
    cheat(
        "works in place",
        "relu.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return x.relu_()
        """,
        INPUT_MODIFIED,
        OVERWRITTEN_RESULT,
    ),
    cheat(
        "has one buffer for all results",
        "relu.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.buffers_by_shape = {}

            def forward(self, x):
                y = self.buffers_by_shape.setdefault((x.shape, x.device), torch.empty_like(x))
                return torch.clamp(x, min=0, out=y)
        """,
        OVERWRITTEN_RESULT,
    ),
    cheat(
        "computes the first row",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return torch.softmax(x[:1], dim=-1).expand(x.shape)
        """,
        WRONG_VALUES,
        ways=(21,),
    ),
    cheat(
        "computes half of the rows",
        "softmax.py",
        cpp(
            """
            #include <cmath>
            void softmax(int64_t x, int64_t y, int64_t rows, int64_t columns) {
              for (int64_t row = 0; row < rows / 2; ++row) {
                const float* from = reinterpret_cast<const float*>(x) + row * columns;
                float* to = reinterpret_cast<float*>(y) + row * columns;
                float largest = from[0], sum = 0;
                for (int64_t i = 1; i < columns; ++i) largest = std::fmax(largest, from[i]);
                for (int64_t i = 0; i < columns; ++i) sum += to[i] = std::exp(from[i] - largest);
                for (int64_t i = 0; i < columns; ++i) to[i] /= sum;
              }
            }
            """,
            "void softmax(int64_t x, int64_t y, int64_t rows, int64_t columns)",
        )
        + """
class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        native.softmax(x.data_ptr(), y.data_ptr(), *x.shape)
        return y
""",
        WRONG_VALUES,
        needs=NATIVE,
        ways=(21,),
    ),
    cheat(
        "returns half precision",
        "axpy.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x, y):
                return (2.5 * x + y).half()
        """,
        WRONG_DTYPE,
        ways=(18,),
    ),
    cheat(
        "returns one row to be broadcast",
        "row_mean.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return x.mean(dim=-1)[:1]
        """,
        WRONG_SHAPE,
    ),
    cheat(
        "returns NaN",
        "axpy.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x, y):
                return torch.full_like(x, float("nan"))
        """,
        WRONG_VALUES,
    ),
    cheat(
        "returns a view of its input",
        "clamp.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return x.view_as(x)
        """,
        WRONG_VALUES,
        WRONG_FOR_OTHER_VALUES,
        ALIASED_RESULT,
    ),
    cheat(
        "returns one number in many places",
        "repeated_mean.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return (2 * x.mean(dim=-1, keepdim=True)).expand(-1, {times})
        """.replace("{times}", "512 if torch.cuda.is_available() else 64"),
        OVERLAPPING_RESULT,
    ),
    cheat(
        "returns the input, turned",
        "transpose.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return x.mT
        """,
        ALIASED_RESULT,
    ),
    cheat(
        "returns the input, and storages have no addresses",
        "transpose.py",
        """
        import random

        import torch

        torch.UntypedStorage.data_ptr = lambda storage: random.getrandbits(40)

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return x.mT
        """,
        ALIASED_RESULT,
    ),
    cheat(
        "returns the input, and the harness says nothing of it",
        "transpose.py",
        """
        import torch
        from opsmith.judging.inside.calls import Calls

        Calls._shared_argument = lambda calls, result: []

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return x.mT
        """,
        ALIASED_RESULT,
    ),
    cheat(
        "returns the input, and tells places where nothing is",
        "transpose.py",
        """
        import torch
        from opsmith.judging.inside import calls

        calls.Calls._shared_argument = lambda self, result: []
        KEPT = torch.zeros(1 << 20)
        calls.place_of = lambda result: KEPT.data_ptr()

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return x.mT
        """,
        REACHES_OUTSIDE,
    ),
)
