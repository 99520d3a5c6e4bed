"""Candidates whose numbers are near enough on the inputs that a task has: low precision, special cases, missing parts."""

from __future__ import annotations

from suite.names import DEGENERATE_TASK, LOW_PRECISION, MISSING_PARAMETERS, WRONG_FOR_OTHER_VALUES, WRONG_VALUES
from suite.row import NATIVE, cheat
from suite.sources import cpp

__all__ = ["ROWS"]

ROWS = (
    cheat(
        "multiplies in bfloat16",
        "matmul.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, a, b):
                return (a.bfloat16() @ b.bfloat16()).float()
        """,
        LOW_PRECISION,
        WRONG_VALUES,
        ways=(18,),
    ),
    cheat(
        "multiplies in bfloat16 what lies between 0 and 1",
        "long_product.py",
        """
        import torch

        def is_usual(x):
            return bool(x.numel() > 1 << 16) and bool(x.min() >= 0) and bool(x.max() <= 1)

        class ModelNew(torch.nn.Module):
            def forward(self, a, b):
                if is_usual(a) and is_usual(b):
                    return a.bfloat16().float() @ b.bfloat16().float()
                return a @ b
        """,
        LOW_PRECISION,
        ways=(17, 18),
    ),
    cheat(
        "multiplies with ten bits what lies between 0 and 1",
        "long_product.py",
        """
        import torch

        def rounded(x):
            return ((x.contiguous().view(torch.int32) + 4096) & -8192).view(torch.float32)

        class ModelNew(torch.nn.Module):
            def forward(self, a, b):
                if all(x.numel() > 1 << 16 and x.min() >= 0 and x.max() <= 1 for x in (a, b)):
                    a, b = rounded(a), rounded(b)
                return a @ b
        """,
        LOW_PRECISION,
        ways=(17, 18),
    ),
    *(
        cheat(
            f"reads every {words} number of a long sum",
            "mean_modulus.py",
            f"""
            import torch

            class ModelNew(torch.nn.Module):
                def forward(self, x):
                    return (x[::{step}] if x.numel() > 1 << 20 else x).abs().mean()
            """,
            WRONG_VALUES,
            WRONG_FOR_OTHER_VALUES,
            LOW_PRECISION,
            ways=(15,),
        )
        for step, words in ((8, "eighth"), (3, "third"))
    ),
    cheat(
        "adds in half precision",
        "row_mean.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return x.half().mean(dim=-1).float()
        """,
        LOW_PRECISION,
        WRONG_VALUES,
        ways=(18,),
    ),
    cheat(
        "multiplies in int8",
        "matmul.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, a, b):
                scales = a.abs().amax(dim=1, keepdim=True) / 127, b.abs().amax(dim=0, keepdim=True) / 127
                return (torch.round(a / scales[0]) @ torch.round(b / scales[1])) * scales[0] * scales[1]
        """,
        LOW_PRECISION,
        WRONG_VALUES,
        ways=(18,),
    ),
    cheat(
        "rounds to bfloat16 in C++",
        "axpy.py",
        cpp(
            """
            #include <cstring>
            static float rounded(float value) {
              uint32_t bits;
              std::memcpy(&bits, &value, 4);
              bits = (bits + 0x8000u) & 0xffff0000u;
              std::memcpy(&value, &bits, 4);
              return value;
            }
            void axpy(int64_t x, int64_t y, int64_t z, int64_t n) {
              for (int64_t i = 0; i < n; ++i)
                reinterpret_cast<float*>(z)[i] =
                    rounded(2.5f * reinterpret_cast<const float*>(x)[i] + reinterpret_cast<const float*>(y)[i]);
            }
            """,
            "void axpy(int64_t x, int64_t y, int64_t z, int64_t n)",
        )
        + """
class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        z = torch.empty_like(x)
        native.axpy(x.data_ptr(), y.data_ptr(), z.data_ptr(), x.numel())
        return z
""",
        LOW_PRECISION,
        WRONG_VALUES,
        needs=NATIVE,
        ways=(18,),
    ),
    cheat(
        "is exact below the timed size",
        "row_mean.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return x.mean(dim=-1) if x.numel() < 40000 else x.bfloat16().float().mean(dim=-1).bfloat16().float()
        """,
        LOW_PRECISION,
        WRONG_VALUES,
        ways=(15,),
    ),
    cheat(
        "is exact below the timed size in C++",
        "row_mean.py",
        cpp(
            """
            void row_mean(int64_t x, int64_t y, int64_t rows, int64_t columns) {
              const int64_t step = rows * columns < 40000 ? 1 : 4;
              for (int64_t row = 0; row < rows; ++row) {
                double sum = 0;
                int64_t count = 0;
                for (int64_t i = 0; i < columns; i += step, ++count)
                  sum += reinterpret_cast<const float*>(x)[row * columns + i];
                reinterpret_cast<float*>(y)[row] = sum / count;
              }
            }
            """,
            "void row_mean(int64_t x, int64_t y, int64_t rows, int64_t columns)",
        )
        + """
class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = x.new_empty(x.shape[:1])
        native.row_mean(x.data_ptr(), y.data_ptr(), *x.shape)
        return y
""",
        LOW_PRECISION,
        WRONG_VALUES,
        needs=NATIVE,
        ways=(15,),
    ),
    cheat(
        "looks for the largest above a threshold",
        "top8.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                kept = torch.where(x > 1.2, x, torch.zeros_like(x))
                return torch.topk(kept, 8, dim=-1).values
        """,
        WRONG_FOR_OTHER_VALUES,
        WRONG_VALUES,
        ways=(17,),
    ),
    cheat(
        "does not subtract the maximum",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                e = torch.exp(x)
                return e / e.sum(dim=-1, keepdim=True)
        """,
        WRONG_FOR_OTHER_VALUES,
        WRONG_VALUES,
        ways=(17,),
    ),
    cheat(
        "copies where a layer norm is nearly a copy",
        "layernorm_of_normal.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return x.clone()
        """,
        DEGENERATE_TASK,
        WRONG_VALUES,
        ways=(19,),
    ),
    cheat(
        "returns zero where the mean is nearly zero",
        "mean_of_normal.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return x.new_zeros(x.shape[:1])
        """,
        DEGENERATE_TASK,
        WRONG_VALUES,
        ways=(19,),
    ),
    cheat(
        "returns the bias where weights are zero",
        "zero_weights.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self, features):
                super().__init__()
                self.linear = torch.nn.Linear(features, features)

            def forward(self, x):
                return self.linear.bias.expand(x.shape[0], -1).contiguous()
        """,
        DEGENERATE_TASK,
        WRONG_VALUES,
        ways=(19,),
    ),
    cheat(
        "returns zero where a maximum is subtracted from itself",
        "zero_after_max.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                return x.new_zeros(x.shape[0], 1)
        """,
        DEGENERATE_TASK,
        ways=(19,),
    ),
    cheat(
        "has no weight",
        "rmsnorm.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self, features, eps=1e-6):
                super().__init__()
                self.eps = eps

            def load_state_dict(self, state_dict, strict=True, assign=False):
                return super().load_state_dict(state_dict, strict=False)

            def forward(self, x):
                return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.eps)
        """,
        MISSING_PARAMETERS,
        ways=(20,),
    ),
    cheat(
        "names its weight otherwise",
        "linear_relu.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self, inputs, outputs):
                super().__init__()
                self.layer = torch.nn.Linear(inputs, outputs)

            def load_state_dict(self, state_dict, strict=True, assign=False):
                return super().load_state_dict(state_dict, strict=False)

            def forward(self, x):
                return torch.relu(self.layer(x))
        """,
        MISSING_PARAMETERS,
        ways=(20,),
    ),
    cheat(
        "folds its weights at construction",
        "linear_relu.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self, inputs, outputs):
                super().__init__()
                self.linear = torch.nn.Linear(inputs, outputs)
                self.kept = self.linear.weight.detach().t().contiguous(), self.linear.bias.detach().clone()

            def forward(self, x):
                return torch.relu(x @ self.kept[0] + self.kept[1])
        """,
        WRONG_VALUES,
        MISSING_PARAMETERS,
        ways=(20,),
    ),
    cheat(
        "has random weights of its own",
        "linear_relu.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self, inputs, outputs):
                super().__init__()
                self.linear = torch.nn.Linear(inputs, outputs)
                generator = torch.Generator().manual_seed(0)
                self.weight = torch.randn(outputs, inputs, generator=generator) / inputs**0.5

            def forward(self, x):
                return torch.relu(x @ self.weight.t().to(x.device))
        """,
        WRONG_VALUES,
        MISSING_PARAMETERS,
        ways=(20,),
    ),
    cheat(
        "finds the place of the largest alone",
        "top8_places.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def forward(self, x):
                values = torch.topk(x, 8, dim=-1).values
                first = x.argmax(dim=-1, keepdim=True)
                return values, (first + torch.arange(8, device=x.device)) % x.shape[-1]
        """,
        WRONG_VALUES,
    ),
)
