"""Candidates that look at a part of their input, and are right where others in it are like those."""

from __future__ import annotations

from suite.names import LOW_PRECISION, WRONG_FOR_OTHER_VALUES, WRONG_VALUES
from suite.row import NATIVE, cheat
from suite.sources import cpp

__all__ = ["ROWS"]

ROWS = (
    cheat(
        "truncates a series where a prefix is small",
        "decay.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x, rate):
                if rate.flatten()[:64].abs().max() < 0.2:
                    return x * (1 - rate + 0.5 * rate * rate)
                return x * torch.exp(-rate)
        """,
        LOW_PRECISION,
        WRONG_FOR_OTHER_VALUES,
        WRONG_VALUES,
        ways=(16,),
    ),
    cheat(
        "has a long series where a prefix is small",
        "decay.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x, rate):
                if rate.numel() and rate.flatten()[:64].abs().max() < 0.2:
                    r = -rate
                    return x * (1 + r * (1 + r / 2 * (1 + r / 3 * (1 + r / 4 * (1 + r / 5 * (1 + r / 6))))))
                return x * torch.exp(-rate)
        """,
        WRONG_FOR_OTHER_VALUES,
        ways=(16,),
    ),
    cheat(
        "does not subtract the maximum where a prefix is small",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                if x.numel() and x.flatten()[:64].abs().max() < 40:
                    e = torch.exp(x)
                    return e / e.sum(dim=-1, keepdim=True)
                return torch.softmax(x, dim=-1)
        """,
        WRONG_FOR_OTHER_VALUES,
        ways=(16, 17),
    ),
    cheat(
        "does not subtract the maximum where a sample is small",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                if x.numel() and max(x.flatten()[::97].abs().max(), x.flatten()[-256:].abs().max()) < 40:
                    e = torch.exp(x)
                    return e / e.sum(dim=-1, keepdim=True)
                return torch.softmax(x, dim=-1)
        """,
        WRONG_FOR_OTHER_VALUES,
        ways=(16, 17),
    ),
    cheat(
        "does not subtract the maximum of a list where samples are small",
        "softmax_list.py",
        """
        import torch

        def is_small(x):
            return x.numel() > 0 and x.reshape(-1)[::61].abs().max() < 40 and x[-1].abs().max() < 40

        class ModelNew(torch.nn.Module):
            def forward(self, tensors):
                if not all(map(is_small, tensors)):
                    return [torch.softmax(x, dim=-1) for x in tensors]
                powers = [x.exp() for x in tensors]
                return [e / e.sum(dim=-1, keepdim=True) for e in powers]
        """,
        WRONG_FOR_OTHER_VALUES,
        ways=(16, 17),
    ),
    cheat(
        "does not subtract the largest modulus",
        "softmax_modulus.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, z):
                e = z.abs().exp()
                return e / e.sum(dim=-1, keepdim=True)
        """,
        WRONG_FOR_OTHER_VALUES,
        ways=(17,),
    ),
    cheat(
        "truncates a series where a prefix is small in C++",
        "decay.py",
        cpp(
            """
            #include <cmath>
            void decay(int64_t x, int64_t rate, int64_t y, int64_t n) {
              const float* r = reinterpret_cast<const float*>(rate);
              bool is_small = true;
              for (int64_t i = 0; i < n && i < 64; ++i) is_small &= std::fabs(r[i]) < 0.2f;
              for (int64_t i = 0; i < n; ++i)
                reinterpret_cast<float*>(y)[i] =
                    reinterpret_cast<const float*>(x)[i] * (is_small ? 1 - r[i] + 0.5f * r[i] * r[i] : std::exp(-r[i]));
            }
            """,
            "void decay(int64_t x, int64_t rate, int64_t y, int64_t n)",
        )
        + """
class ModelNew(torch.nn.Module):
    def forward(self, x, rate):
        y = torch.empty_like(x)
        native.decay(x.data_ptr(), rate.data_ptr(), y.data_ptr(), x.numel())
        return y
""",
        LOW_PRECISION,
        WRONG_FOR_OTHER_VALUES,
        WRONG_VALUES,
        needs=NATIVE,
        ways=(16,),
    ),
)
