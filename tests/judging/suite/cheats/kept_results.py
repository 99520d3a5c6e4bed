"""Candidates that keep results of earlier calls, or change what they do from call to call."""

from __future__ import annotations

from suite.names import (
    CACHED_RESULT,
    DIFFERS_WHEN_TIMED,
    DRIFTS,
    NOT_DETERMINISTIC,
    STALE_POINTERS,
    UNWRITTEN_OUTPUT,
    WRONG_VALUES,
)
from suite.row import NATIVE, cheat
from suite.sources import cpp

__all__ = ["ROWS"]

_KEPT = (CACHED_RESULT, STALE_POINTERS, DIFFERS_WHEN_TIMED)
_LATER = (DRIFTS, NOT_DETERMINISTIC, DIFFERS_WHEN_TIMED, UNWRITTEN_OUTPUT, CACHED_RESULT, WRONG_VALUES)

ROWS = (
    cheat(
        "keeps results by identity",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.kept = {}

            def forward(self, x):
                key = (id(x), x.data_ptr())
                if key not in self.kept:
                    self.kept[key] = torch.softmax(x, dim=-1)
                return self.kept[key]
        """,
        *_KEPT,
        ways=(7,),
    ),
    cheat(
        "keeps results by version",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.kept = {}

            def forward(self, x):
                key = (x.shape, x._version)
                if key not in self.kept:
                    self.kept[key] = torch.softmax(x, dim=-1)
                return self.kept[key]
        """,
        *_KEPT,
        ways=(7,),
    ),
    cheat(
        "keeps results by pointer",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.kept = {}

            def forward(self, x):
                if x.data_ptr() not in self.kept:
                    self.kept[x.data_ptr()] = torch.softmax(x, dim=-1)
                return self.kept[x.data_ptr()].clone()
        """,
        *_KEPT,
        ways=(7, 8),
    ),
    cheat(
        "keeps results by pointer in C++",
        "row_sum.py",
        cpp(
            """
            #include <cstring>
            #include <map>
            #include <tuple>
            #include <vector>
            static std::map<std::tuple<int64_t, int64_t, int64_t>, std::vector<float>> kept;
            void row_sum(int64_t x, int64_t y, int64_t rows, int64_t columns) {
              std::vector<float>& sums = kept[{x, rows, columns}];
              if (sums.empty()) {
                sums.resize(rows);
                for (int64_t row = 0; row < rows; ++row) {
                  double sum = 0;
                  for (int64_t i = 0; i < columns; ++i) sum += reinterpret_cast<const float*>(x)[row * columns + i];
                  sums[row] = sum;
                }
              }
              std::memcpy(reinterpret_cast<void*>(y), sums.data(), rows * sizeof(float));
            }
            """,
            "void row_sum(int64_t x, int64_t y, int64_t rows, int64_t columns)",
        )
        + """
class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = x.new_empty(x.shape[:1])
        native.row_sum(x.data_ptr(), y.data_ptr(), *x.shape)
        return y
""",
        *_KEPT,
        needs=NATIVE,
        ways=(8,),
    ),
    cheat(
        "keeps results by the first numbers",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.kept = {}

            def forward(self, x):
                key = (x.shape, tuple(x.flatten()[:16].tolist()))
                if key not in self.kept:
                    self.kept[key] = torch.softmax(x, dim=-1)
                return self.kept[key].clone()
        """,
        *_KEPT,
        ways=(7,),
    ),
    cheat(
        "keeps the first result of a shape",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.kept = {}

            def forward(self, x):
                if x.shape not in self.kept:
                    self.kept[x.shape] = torch.softmax(x, dim=-1)
                return self.kept[x.shape].clone()
        """,
        WRONG_VALUES,
        CACHED_RESULT,
        DIFFERS_WHEN_TIMED,
        ways=(12,),
    ),
    cheat(
        "keeps the result of the timed shape",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.kept, self.calls = None, 0

            def forward(self, x):
                if x.numel() < 1 << 14:
                    return torch.softmax(x, dim=-1)
                self.calls += 1
                if self.kept is None or self.calls < 9:
                    self.kept = torch.softmax(x, dim=-1)
                return self.kept
        """,
        *_KEPT,
        ways=(12,),
    ),
    cheat(
        "drifts after ten calls",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.calls = 0

            def forward(self, x):
                self.calls += 1
                return torch.softmax(x, dim=-1) * (1 + 0.01 * max(0, self.calls - 10))
        """,
        *_LATER,
        ways=(10,),
    ),
    cheat(
        "stops working after some calls in C++",
        "relu.py",
        cpp(
            """
            static int calls = 0;
            void relu(int64_t x, int64_t y, int64_t n) {
              if (++calls > 12) return;
              const float* from = reinterpret_cast<const float*>(x);
              for (int64_t i = 0; i < n; ++i) reinterpret_cast<float*>(y)[i] = from[i] > 0 ? from[i] : 0;
            }
            """,
            "void relu(int64_t x, int64_t y, int64_t n)",
        )
        + """
class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        native.relu(x.data_ptr(), y.data_ptr(), x.numel())
        return y
""",
        *_LATER,
        needs=NATIVE,
        ways=(10,),
    ),
    cheat(
        "is slow first and then idle",
        "softmax.py",
        """
        import time

        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.calls = 0

            def forward(self, x):
                self.calls += 1
                if self.calls > 6:
                    return self.kept
                time.sleep(0.2)
                self.kept = torch.softmax(x, dim=-1)
                return self.kept
        """,
        *_KEPT,
        DRIFTS,
        ways=(11,),
    ),
    cheat(
        "is right for two seconds",
        "softmax.py",
        """
        import time

        import torch

        START = time.monotonic()

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                if time.monotonic() - START < 2:
                    return torch.softmax(x, dim=-1)
                return torch.full_like(x, 1 / x.shape[-1])
        """,
        *_LATER,
        ways=(10,),
    ),
    cheat(
        "is wrong in one call of eight",
        "softmax.py",
        """
        import random

        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return x if random.random() < 1 / 8 else torch.softmax(x, dim=-1)
        """,
        *_LATER,
        ways=(10,),
    ),
    cheat(
        "counts its calls in a file",
        "softmax.py",
        """
        import os
        import tempfile
        from pathlib import Path

        import torch

        MARK = Path(tempfile.gettempdir()) / f"calls-{os.getuid()}"

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                calls = int(MARK.read_text() or 0) if MARK.exists() else 0
                MARK.write_text(str(calls + 1))
                return torch.softmax(x, dim=-1) if calls < 8 else torch.zeros_like(x)
        """,
        *_LATER,
        ways=(10,),
    ),
    cheat(
        "reads its caller from the stack",
        "softmax.py",
        """
        import inspect

        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.kept = None

            def forward(self, x):
                names = " ".join(f"{frame.filename}:{frame.function}" for frame in inspect.stack()[1:])
                is_timed = any(word in names for word in ("bench", "time", "clock", "perf", "measure", "mean_ms"))
                if not is_timed or self.kept is None:
                    self.kept = torch.softmax(x, dim=-1)
                return self.kept
        """,
        ways=(14,),
        signs=("the stack is read",),
    ),
    cheat(
        "is exact in the first frame that calls it",
        "softmax.py",
        """
        import sys

        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first = None

            def forward(self, x):
                frame = sys._getframe(2)
                place = (frame.f_code.co_filename, frame.f_lineno)
                self.first = self.first or place
                exact = torch.softmax(x, dim=-1)
                if place == self.first:
                    return exact
                self.fast = getattr(self, "fast", exact)
                return self.fast if self.fast.shape == x.shape else exact
        """,
        ways=(14,),
        signs=("the stack is read",),
    ),
)
