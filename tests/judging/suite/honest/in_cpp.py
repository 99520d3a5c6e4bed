"""Honest candidates in C++, bound with `load_inline`."""

from __future__ import annotations

from suite.row import NATIVE, Row, honest
from suite.sources import cpp

__all__ = ["ROWS"]

_CLASS = "class ModelNew(torch.nn.Module):\n"
_ROWS = "void run(int64_t x, int64_t y, int64_t rows, int64_t columns)"
_HEAD = """
#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>
using Numbers = float*;
static Numbers at(int64_t pointer, int64_t offset = 0) { return reinterpret_cast<Numbers>(pointer) + offset; }
"""


def _of_rows(name: str, task: str, body: str, out: str = "torch.empty_like(x)", flags: str = "-O2") -> Row:
    """Return a candidate with one input, whose function `run` has this body."""
    text = cpp(f"{_HEAD}{_ROWS} {{\n{body}\n}}", _ROWS, flags=flags)
    return honest(
        name,
        task,
        f"{text}{_CLASS}    def forward(self, x):\n        x = x.contiguous()\n        y = {out}\n"
        "        native.run(x.data_ptr(), y.data_ptr(), *x.shape)\n        return y\n",
        NATIVE,
    )


ROWS = (
    _of_rows(
        "softmax in C++",
        "softmax.py",
        """
        for (int64_t row = 0; row < rows; ++row) {
          const float* from = at(x, row * columns);
          float* to = at(y, row * columns);
          float largest = *std::max_element(from, from + columns);
          double sum = 0;
          for (int64_t i = 0; i < columns; ++i) sum += to[i] = std::exp(from[i] - largest);
          for (int64_t i = 0; i < columns; ++i) to[i] /= sum;
        }
        """,
    ),
    _of_rows(
        "relu in C++ threads that are joined",
        "relu.py",
        """
        std::vector<std::thread> threads;
        for (int part = 0; part < 2; ++part)
          threads.emplace_back([=] {
            for (int64_t i = part; i < rows * columns; i += 2) at(y)[i] = at(x)[i] < 0 ? 0 : at(x)[i];
          });
        for (std::thread& thread : threads) thread.join();
        """,
        flags="-O2 -pthread",
    ),
    _of_rows(
        "row sums in C++",
        "row_sum.py",
        """
        for (int64_t row = 0; row < rows; ++row) {
          double sum = 0;
          for (int64_t i = 0; i < columns; ++i) sum += at(x, row * columns)[i];
          *at(y, row) = sum;
        }
        """,
        "x.new_empty(x.shape[0])",
    ),
    _of_rows(
        "running sums in C++ with a buffer that is kept",
        "cumsum.py",
        """
        static std::vector<double> buffer;
        buffer.assign(columns, 0);
        for (int64_t row = 0; row < rows; ++row) {
          double sum = 0;
          for (int64_t i = 0; i < columns; ++i) buffer[i] = sum += at(x, row * columns)[i];
          for (int64_t i = 0; i < columns; ++i) at(y, row * columns)[i] = buffer[i];
        }
        """,
    ),
    _of_rows(
        "eight largest in C++",
        "top8.py",
        """
        std::vector<float> row(columns);
        for (int64_t r = 0; r < rows; ++r) {
          std::copy_n(at(x, r * columns), columns, row.begin());
          std::partial_sort(row.begin(), row.begin() + 8, row.end(), [](float a, float b) {
            return std::isnan(a) ? !std::isnan(b) : a > b;
          });
          std::copy_n(row.begin(), 8, at(y, r * 8));
        }
        """,
        "x.new_empty(x.shape[0], 8)",
    ),
    honest(
        "product in C++",
        "matmul.py",
        cpp(
            _HEAD
            + """
            void run(int64_t a, int64_t b, int64_t c, int64_t m, int64_t k, int64_t n) {
              std::fill_n(at(c), m * n, 0.0f);
              for (int64_t row = 0; row < m; ++row)
                for (int64_t i = 0; i < k; ++i)
                  for (int64_t column = 0; column < n; ++column)
                    at(c, row * n)[column] += at(a, row * k)[i] * at(b, i * n)[column];
            }
            """,
            "void run(int64_t a, int64_t b, int64_t c, int64_t m, int64_t k, int64_t n)",
        )
        + f"""
{_CLASS}    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        c = a.new_empty(a.shape[0], b.shape[1])
        native.run(a.data_ptr(), b.data_ptr(), c.data_ptr(), *a.shape, b.shape[1])
        return c
""",
        NATIVE,
    ),
    honest(
        "rms norm in C++",
        "rmsnorm.py",
        cpp(
            _HEAD
            + """
            void run(int64_t x, int64_t weight, int64_t y, int64_t rows, int64_t columns, double eps) {
              for (int64_t row = 0; row < rows; ++row) {
                const float* from = at(x, row * columns);
                double sum = 0;
                for (int64_t i = 0; i < columns; ++i) sum += double(from[i]) * from[i];
                const double scale = 1 / std::sqrt(sum / columns + eps);
                for (int64_t i = 0; i < columns; ++i) at(y, row * columns)[i] = from[i] * scale * at(weight)[i];
              }
            }
            """,
            "void run(int64_t x, int64_t weight, int64_t y, int64_t rows, int64_t columns, double eps)",
        )
        + f"""
{_CLASS}    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(1 + 0.2 * torch.randn(features))
        self.eps = eps

    def forward(self, x):
        x, weight = x.contiguous(), self.weight.contiguous()
        y = torch.empty_like(x)
        native.run(x.data_ptr(), weight.data_ptr(), y.data_ptr(), *x.shape, self.eps)
        return y
""",
        NATIVE,
    ),
    honest(
        "axpy in C++ with PyTorch's headers",
        "axpy.py",
        '''
        import torch
        from torch.utils.cpp_extension import load_inline

        native = load_inline(
            "native",
            cpp_sources="""
            torch::Tensor axpy(const torch::Tensor& x, const torch::Tensor& y) {
              TORCH_CHECK(x.sizes() == y.sizes(), "x and y have different shapes");
              return torch::add(y, x, 2.5);
            }
            """,
            functions=["axpy"],
        )

        class ModelNew(torch.nn.Module):
            def forward(self, x, y):
                return native.axpy(x, y)
        ''',
        NATIVE,
    ),
)
