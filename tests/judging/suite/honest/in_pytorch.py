"""Honest candidates in PyTorch, fast and slow: other formulas, other orders of sums, workspaces, threads."""

from __future__ import annotations

from suite.row import NATIVE, honest

__all__ = ["ROWS"]


def _model(name: str, task: str, arguments: str, body: str, before: str = "", needs: str = "cpu") -> object:
    """Return the row of a module without parameters, whose forward has this body."""
    lines = "\n".join(f"        {line}" if line else "" for line in body.strip().splitlines())
    text = f"import torch\n{before}\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, {arguments}):\n{lines}\n"
    return honest(name, task, text, needs)


_LINEAR = """
import torch

class ModelNew(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = torch.nn.Linear(inputs, outputs)

    def forward(self, x):
        {}
"""

_NORM = """
import torch

class ModelNew(torch.nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(1 + 0.2 * torch.randn(features))
        self.eps = eps

    def forward(self, x):
        {}
"""

ROWS = (
    _model("softmax of the library", "softmax.py", "x", "return torch.nn.functional.softmax(x, dim=-1)"),
    _model(
        "softmax in three steps",
        "softmax.py",
        "x",
        "e = torch.exp(x - x.amax(dim=-1, keepdim=True))\nreturn e / e.sum(dim=-1, keepdim=True)",
    ),
    _model(
        "softmax of one row after the other",
        "softmax.py",
        "x",
        "return torch.stack([torch.softmax(row, dim=0) for row in x]) if len(x) else torch.empty_like(x)",
    ),
    _model("softmax by its logarithm", "softmax.py", "x", "return torch.log_softmax(x, dim=-1).exp()"),
    _model("softmax in double precision", "softmax.py", "x", "return torch.softmax(x.double(), dim=-1).to(x.dtype)"),
    _model(
        "softmax of a list in three steps",
        "softmax_list.py",
        "tensors",
        "powers = [torch.exp(x - x.amax(dim=-1, keepdim=True)) for x in tensors]\n"
        "return [e / e.sum(dim=-1, keepdim=True) for e in powers]",
    ),
    _model(
        "softmax of moduli by parts",
        "softmax_modulus.py",
        "z",
        "return torch.softmax(torch.hypot(z.real, z.imag), dim=-1)",
    ),
    _model(
        "long product in eight parts",
        "long_product.py",
        "a, b",
        "return sum(x @ y for x, y in zip(a.chunk(8, 1), b.chunk(8, 0)))",
    ),
    _model(
        "long product in one accumulator",
        "long_product.py",
        "a, b",
        "y = a.new_zeros(len(a), b.shape[1])\nfor k in range(len(b)):\n    y += a[:, k : k + 1] * b[k]\nreturn y",
    ),
    _model("mean modulus by a norm", "mean_modulus.py", "x", "return torch.linalg.vector_norm(x, 1) / x.numel()"),
    _model(
        "mean modulus in blocks",
        "mean_modulus.py",
        "x",
        "blocks = x.abs().split(1 << 12)\nreturn torch.stack([one.sum() for one in blocks]).sum() / x.numel()",
    ),
    honest(
        "softmax with a workspace",
        "softmax.py",
        """
        import torch

        class ModelNew(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.workspaces = {}

            def forward(self, x):
                key = (x.shape, x.dtype, x.device)
                if key not in self.workspaces:
                    self.workspaces[key] = torch.empty_like(x, memory_format=torch.contiguous_format)
                e = self.workspaces[key]
                torch.sub(x, x.amax(dim=-1, keepdim=True), out=e)
                e.exp_()
                return e / e.sum(dim=-1, keepdim=True)
        """,
    ),
    _model(
        "softmax with a choice for each shape",
        "softmax.py",
        "x",
        """
        split = CHOICES.setdefault(tuple(x.shape), 1 if x.shape[0] < 32 else 4)
        parts = x.chunk(split, dim=0) if len(x) else [x]
        return torch.cat([torch.softmax(part, dim=-1) for part in parts])
        """.replace("        ", ""),
        before="\nCHOICES = {}\n",
    ),
    _model(
        "softmax in threads that are waited for",
        "softmax.py",
        "x",
        """
        y = torch.empty_like(x)
        half = len(x) // 2
        work = [POOL.submit(torch.softmax, part, -1) for part in (x[:half], x[half:])]
        y[:half], y[half:] = work[0].result(), work[1].result()
        return y
        """.replace("        ", ""),
        before="from concurrent.futures import ThreadPoolExecutor\n\nPOOL = ThreadPoolExecutor(2)\n",
    ),
    _model(
        "softmax compiled",
        "softmax.py",
        "x",
        "return softmax(x)",
        before="\n\n@torch.compile\ndef softmax(x):\n    return torch.softmax(x, dim=-1)\n",
        needs=NATIVE,
    ),
    _model("axpy of the library", "axpy.py", "x, y", "return torch.add(y, x, alpha=2.5)"),
    _model("axpy in place of a copy", "axpy.py", "x, y", "return x.clone().mul_(2.5).add_(y)"),
    _model("axpy by interpolation", "axpy.py", "x, y", "return torch.addcmul(y, x, torch.full_like(x, 2.5))"),
    _model("relu by a maximum", "relu.py", "x", "return x.clamp_min(0)"),
    _model("relu by a choice", "relu.py", "x", "return torch.where(x > 0, x, torch.where(x.isnan(), x, 0.0))"),
    _model("relu by halves", "relu.py", "x", "return torch.relu_(x.clone())"),
    honest(
        "rms norm as the task has it",
        "rmsnorm.py",
        _NORM.format("return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.eps) * self.weight"),
    ),
    honest(
        "rms norm of the library",
        "rmsnorm.py",
        _NORM.format("return torch.nn.functional.rms_norm(x, x.shape[-1:], self.weight, self.eps)"),
    ),
    honest(
        "rms norm by a norm",
        "rmsnorm.py",
        _NORM.format(
            "norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)\n"
            "        return x / torch.sqrt(norm * norm / x.shape[-1] + self.eps) * self.weight"
        ),
    ),
    honest("linear layer of the library", "linear_relu.py", _LINEAR.format("return torch.relu(self.linear(x))")),
    honest(
        "linear layer by addmm",
        "linear_relu.py",
        _LINEAR.format("return torch.addmm(self.linear.bias, x, self.linear.weight.t()).clamp_(min=0)"),
    ),
    honest(
        "linear layer by einsum",
        "linear_relu.py",
        _LINEAR.format('return (torch.einsum("bi,oi->bo", x, self.linear.weight) + self.linear.bias).relu()'),
    ),
    _model("product of the library", "matmul.py", "a, b", "return torch.mm(a, b)"),
    _model(
        "product in blocks",
        "matmul.py",
        "a, b",
        "c = a.new_zeros(a.shape[0], b.shape[1])\nfor i in range(0, a.shape[1], 32):\n"
        "    c += a[:, i : i + 32] @ b[i : i + 32]\nreturn c",
    ),
    _model("product by broadcasting", "matmul.py", "a, b", "return (a[:, None, :] * b.t()[None]).sum(dim=-1)"),
    _model("row sums by a product with ones", "row_sum.py", "x", "return x @ x.new_ones(x.shape[-1])"),
    _model("row sums in double precision", "row_sum.py", "x", "return x.double().sum(dim=-1).to(x.dtype)"),
    _model(
        "row sums in two steps",
        "row_sum.py",
        "x",
        "return torch.stack([part.sum(dim=-1) for part in x.split(64, dim=-1)]).sum(dim=0) "
        "if x.shape[-1] else x.sum(dim=-1)",
    ),
    _model("row means of the library", "row_mean.py", "x", "return torch.mean(x, dim=1)"),
    _model("running sums of the library", "cumsum.py", "x", "return x.cumsum(-1)"),
    _model(
        "running sums by a triangle that is kept",
        "cumsum.py",
        "x",
        """
        key = (x.shape[-1], x.dtype, x.device)
        if key not in TRIANGLES:
            TRIANGLES[key] = torch.ones(key[0], key[0], dtype=x.dtype, device=x.device).triu()
        return x @ TRIANGLES[key]
        """.replace("        ", ""),
        before="\nTRIANGLES = {}\n",
    ),
    _model(
        "eight largest by a sort", "top8.py", "x", "return x.sort(dim=-1, descending=True).values[:, :8].contiguous()"
    ),
    _model(
        "eight largest one by one",
        "top8.py",
        "x",
        "rest, found = x.clone(), []\nfor _ in range(8):\n    value, index = rest.max(dim=-1)\n    found.append(value)\n"
        "    rest.scatter_(1, index[:, None], -torch.inf)\nreturn torch.stack(found, dim=-1)",
    ),
    _model(
        "gelu by its formula",
        "bias_gelu.py",
        "x, bias",
        "z = x + bias\nreturn 0.5 * z * torch.erfc(-z * 0.7071067811865476)",
    ),
    _model("gelu of the library", "bias_gelu.py", "x, bias", "return torch.nn.functional.gelu(torch.add(x, bias))"),
    # In single precision the quotient is 0 from rates of 88.8 on, where the product is not yet.
    _model("decay by a quotient", "decay.py", "x, rate", "return (x / torch.exp(rate.double())).float()"),
    _model(
        "clamp by minimum and maximum",
        "clamp.py",
        "x",
        "return torch.minimum(torch.maximum(x, x.new_tensor(-4.0)), x.new_tensor(4.0))",
    ),
    honest(
        "sum into the output that comes with it",
        "vector_sum",
        """
        import torch

        def custom_kernel(data):
            a, b, output = data
            torch.add(a, b, out=output)
            return output
        """,
    ),
    honest(
        "sum into an output of its own",
        "vector_sum",
        """
        def custom_kernel(data):
            a, b, _ = data
            return a + b
        """,
    ),
    _model(
        "eight largest and their places by a stable sort",
        "top8_places.py",
        "x",
        "values, places = torch.sort(x, dim=-1, descending=True, stable=True)\n"
        "return values[..., :8].contiguous(), places[..., :8].contiguous()",
    ),
    _model("transposed by a copy", "transpose.py", "x", "return torch.empty_like(x.mT).copy_(x.mT)"),
    _model("transposed by stacking", "transpose.py", "x", "return torch.stack(x.unbind(2), dim=1)"),
    _model(
        "a mean that is written everywhere",
        "repeated_mean.py",
        "x",
        "times = 512 if x.is_cuda else 64\nreturn x.mean(dim=-1, keepdim=True).mul(2).expand(-1, times).contiguous()",
    ),
    honest(
        "rms norm that returns its output",
        "rmsnorm_h128.json",
        """
        import torch

        def run(hidden_states, weight, eps):
            return torch.nn.functional.rms_norm(hidden_states.float(), (128,), weight.float(), eps).bfloat16()
        """,
    ),
    honest(
        "rms norm with an option of its own",
        "rmsnorm_h128.json",
        """
        import torch

        def run(hidden_states, weight, eps, in_double=False):
            x = hidden_states.double() if in_double else hidden_states.float()
            scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
            return (x * scale * weight).bfloat16()
        """,
    ),
    honest(
        "rms norm into an output that is given",
        "rmsnorm_h128.json",
        """
        import torch

        def run(hidden_states, weight, eps, output):
            x = hidden_states.float()
            scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)
            output.copy_(x * scale * weight.float())
        """,
    ),
)
