"""The slim header with the torch that is installed: enough for what extensions do, and set right where it is not."""

from __future__ import annotations

import pytest
import torch

from opsmith.build.fast import run
from opsmith.cpp_extension import load_inline

pytestmark = [pytest.mark.compile, pytest.mark.slow("compiles torch/extension.h")]

# What extensions use, all in one: dispatch, autograd in C++, registration, out variants, indexing, printing, parallel loops,
# conversions of every kind of argument.
BROAD = """
using namespace torch::indexing;
struct Cube : torch::autograd::Function<Cube> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x) {
    context->save_for_backward({x});
    return x * x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grad) {
    auto x = context->get_saved_variables()[0];
    return {grad[0] * 3 * x * x};
  }
};
torch::Tensor cube(torch::Tensor x) { return Cube::apply(x); }
torch::Tensor doubled(const torch::Tensor& x) {
  torch::NoGradGuard guard;
  auto out = torch::empty_like(x);
  at::mul_out(out, x, torch::full({1}, 2, x.options()));
  out.index_put_({Slice(0, 1)}, -1);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "doubled", [&] {
    auto* data = out.data_ptr<scalar_t>();
    at::parallel_for(0, out.numel(), 1, [&](int64_t begin, int64_t end) {
      for (auto i = begin; i < end; ++i) data[i] += 1;
    });
  });
  return out.relu_();
}
std::string show(at::Device device, at::ScalarType dtype, c10::optional<at::Tensor> x, std::vector<int64_t> sizes) {
  std::stringstream text;
  text << device << ' ' << dtype << ' ' << x.has_value() << ' ' << sizes.size();
  return text.str();
}
TORCH_LIBRARY(slim_broad, m) { m.def("doubled", &doubled); }
"""
RARE = "torch::Tensor spectrum(torch::Tensor x) { return torch::abs(torch::fft::rfft(x)); }"


@pytest.fixture
def rounds(monkeypatch):
    seen: list[int] = []
    run_steps = run.run_steps
    monkeypatch.setattr(run, "run_steps", lambda *words, **more: (seen.append(1), run_steps(*words, **more))[1])
    return seen


@pytest.mark.nightly("compiles what extensions use; test_existing.py compiles extensions for each change")
def test_what_extensions_do_needs_no_more_than_the_slim_header(rounds, tmp_path, monkeypatch):
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(tmp_path))
    module = load_inline("slim_broad", BROAD, functions=["cube", "doubled", "show"])
    assert len(rounds) == 1
    x = torch.tensor([1.0, 2.0, -3.0], requires_grad=True)
    (grad,) = torch.autograd.grad(module.cube(x).sum(), x)
    torch.testing.assert_close(grad, 3 * x * x)
    assert module.doubled(x.detach()).tolist() == [0, 5, 0]
    assert torch.ops.slim_broad.doubled(x.detach()).tolist() == [0, 5, 0]
    assert module.show(torch.device("cpu"), torch.float16, None, [1, 2]) == "cpu Half 0 2"
    with pytest.raises(TypeError):
        module.doubled("no tensor")


@pytest.mark.nightly("compiles torch/extension.h; test_existing.py does for each change")
def test_what_it_lacks_comes_from_the_whole_header(rounds, tmp_path, monkeypatch):
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(tmp_path))
    module = load_inline("slim_rare", RARE, functions=["spectrum"])
    assert len(rounds) == 2
    x = torch.arange(8.0)
    torch.testing.assert_close(module.spectrum(x), torch.fft.rfft(x).abs())
