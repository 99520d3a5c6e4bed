"""sigmoid_focal_loss is torchvision's composition where that is accurate, and stays right where that is not."""

from __future__ import annotations

import math

import pytest
import torch
from graphs import capture
from torch.nn import functional

from opsmith.ops.sigmoid_focal_loss import SigmoidFocalLoss, sigmoid_focal_loss

pytestmark = pytest.mark.compile

devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
# A few roundings in the type that a kernel computes in, and one in that of the result.
ROUNDING = {torch.float64: 1e-13, torch.float32: 3e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
dtypes = pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
reductions = pytest.mark.parametrize("reduction", ["none", "sum", "mean"])


def composition(inputs, targets, alpha=0.25, gamma=2.0, reduction="none"):
    """The definition, operator by operator, as torchvision computes it."""
    p = torch.sigmoid(inputs)
    cross_entropy = functional.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    p_t = p * targets + (1 - p) * (1 - targets)
    loss = cross_entropy * (1 - p_t) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return {"none": loss, "sum": loss.sum(), "mean": loss.mean()}[reduction]


def one_hot(classes, inputs):
    """Targets as probabilities; the class K is the background."""
    return functional.one_hot(classes, inputs.shape[-1] + 1)[..., :-1].to(inputs.dtype)


def gradient(loss, inputs, seed):
    return torch.autograd.grad(loss, inputs, seed.to(loss))[0]


def tolerance(exact, dtype):
    last_place = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    return {"rtol": ROUNDING[dtype], "atol": ROUNDING[dtype] * exact.abs().max().item() + last_place}


def draw(shape, dtype, device):
    generator = torch.Generator().manual_seed(3)
    inputs = 4 * torch.randn(shape, generator=generator, dtype=torch.float64)
    classes = torch.randint(0, shape[-1] + 1, shape[:-1], generator=generator)
    return inputs.to(device, dtype), classes.to(device)


@devices
@dtypes
@reductions
@pytest.mark.parametrize(("alpha", "gamma"), [(0.25, 2.0), (-1.0, 2.0), (0.6, 0.0), (0.0, 1.5), (1.0, 3.0)])
@pytest.mark.parametrize("kind", ["hard", "soft", "classes"])
def test_values_and_gradients_are_the_compositions(kind, alpha, gamma, reduction, dtype, device):
    for shape in [(5, 3), (40, 91), (2, 200, 24)]:
        inputs, classes = draw(shape, dtype, device)
        dense = one_hot(classes, inputs) if kind != "soft" else torch.rand(shape, device=device).to(dtype)
        ours, theirs = inputs.clone().requires_grad_(), inputs.double().requires_grad_()
        found = sigmoid_focal_loss(ours, classes if kind == "classes" else dense, alpha, gamma, reduction)
        exact = composition(theirs, dense.double(), alpha, gamma, reduction)
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), exact, **tolerance(exact, dtype))
        seed = torch.rand_like(exact).to(dtype)
        wanted = gradient(exact, theirs, seed)
        torch.testing.assert_close(gradient(found, ours, seed).double(), wanted, **tolerance(wanted, dtype))


@devices
@pytest.mark.parametrize("kind", ["probabilities", "classes"])
def test_sure_predictions_keep_their_digits(kind, device):
    """1 - p_t is 1e-26 at a logit of 60; a difference from 1 would be 0."""
    inputs = torch.tensor([[60.0, -60.0, 20.0, -20.0, -300.0, 300.0]], device=device)
    positive = torch.tensor([0], device=device)
    targets = positive if kind == "classes" else one_hot(positive, inputs)
    exact = []
    for column, x in enumerate(inputs[0].tolist()):
        y = x if column == 0 else -x
        wrong = 1 / (1 + math.exp(y)) if y > -700 else 1.0
        exact.append((0.25 if column == 0 else 0.75) * math.sqrt(wrong) * (math.log1p(math.exp(-abs(y))) + max(-y, 0)))
    found = sigmoid_focal_loss(inputs, targets, gamma=0.5)
    torch.testing.assert_close(found.double().cpu()[0], torch.tensor(exact, dtype=torch.float64), rtol=2e-6, atol=1e-44)
    assert found[0, 0].item() > 0


@devices
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("alpha", "label"), [(1.0, 1), (0.0, 0), (-1.0, 1), (-1.0, 0)])
@pytest.mark.parametrize("kind", ["probabilities", "classes"])
def test_without_gamma_it_is_the_cross_entropy_within_a_unit_in_the_last_place(kind, alpha, label, dtype, device):
    generator = torch.Generator().manual_seed(5)
    usual = 40 * torch.rand(200_000, generator=generator, dtype=torch.float64) - 20
    small_and_large = 2.0 ** (36 * torch.rand(50_000, generator=generator, dtype=torch.float64) - 30)
    extreme = torch.tensor([0.0, 80.0, 86.3, 87.5, 103.0, 104.5, 6e4, 3e38], dtype=torch.float64)
    if dtype != torch.float32:
        extreme = extreme[:2]
    inputs = torch.cat([usual, small_and_large, -small_and_large, extreme, -extreme]).to(device, dtype)[:, None]
    classes = torch.full(inputs.shape[:1], 1 - label, device=device)  # 1 is the background
    found = sigmoid_focal_loss(inputs, classes if kind == "classes" else torch.full_like(inputs, label), alpha, 0.0)
    wrong = inputs.double() if label == 0 else -inputs.double()
    exact = wrong.clamp(min=0) + (-wrong.abs()).exp().log1p()
    rounded = exact.to(dtype)
    unit = (torch.nextafter(rounded, torch.full_like(rounded, math.inf)).double() - rounded.double()).nan_to_num(0)
    assert ((found.double() - exact).abs() <= unit).all()


@devices
def test_the_gradient_is_zero_where_the_composition_has_nan(device):
    inputs = torch.tensor([200.0, -200.0, 0.5], device=device, requires_grad=True)
    targets = torch.tensor([1.0, 0.0, 1.0], device=device)
    theirs = torch.autograd.grad(composition(inputs, targets, gamma=0.5, reduction="sum"), inputs)[0]
    assert theirs[:2].isnan().all()
    for reduction in ("sum", "none"):
        loss = sigmoid_focal_loss(inputs, targets, gamma=0.5, reduction=reduction).sum()
        found = torch.autograd.grad(loss, inputs)[0]
        assert found[:2].tolist() == [0.0, 0.0]
        assert found[2].item() == pytest.approx(theirs[2].item(), rel=1e-5)


@devices
@reductions
def test_rows_may_be_background_ignored_or_invalid(reduction, device):
    inputs, _ = draw((4, 7), torch.float32, device)
    inputs[1] = math.nan
    inputs.requires_grad_()
    classes = torch.tensor([2, -100, 7, 6], device=device)
    loss = sigmoid_focal_loss(inputs, classes, reduction=reduction)
    found = torch.autograd.grad(loss.sum(), inputs)[0]
    kept = torch.tensor([0, 2, 3], device=device)
    exact = composition(inputs[kept], one_hot(classes[kept], inputs[kept]))
    scale = 1 / inputs.numel() if reduction == "mean" else 1.0
    if reduction == "none":
        assert loss[1].tolist() == [0.0] * 7
        torch.testing.assert_close(loss[kept], exact)
    else:
        torch.testing.assert_close(loss, exact.sum() * scale)
    assert found[1].tolist() == [0.0] * 7
    torch.testing.assert_close(found, torch.autograd.grad(exact.sum() * scale, inputs)[0])
    invalid = sigmoid_focal_loss(
        inputs.detach().nan_to_num(), classes.masked_fill(classes == 2, 8), reduction=reduction
    )
    assert invalid.isnan().any(dim=-1).tolist() == ([True, False, False, False] if reduction == "none" else True)


@devices
@reductions
def test_gradients_of_soft_targets(reduction, device):
    inputs, _ = draw((9, 5), torch.float64, device)
    targets = torch.rand(9, 5, dtype=torch.float64, device=device, requires_grad=True)
    for inputs_too in (True, False):
        inputs = inputs.detach().requires_grad_(inputs_too)
        leaves = [inputs, targets] if inputs_too else [targets]
        found = torch.autograd.grad(sigmoid_focal_loss(inputs, targets, 0.3, 1.5, reduction).sum(), leaves)
        exact = torch.autograd.grad(composition(inputs, targets, 0.3, 1.5, reduction).sum(), leaves)
        for one, other in zip(found, exact, strict=True):
            torch.testing.assert_close(one, other)


@reductions
@pytest.mark.parametrize("gamma", [2.0, 0.7])
def test_gradcheck_of_both_orders(gamma, reduction):
    inputs, classes = draw((3, 4), torch.float64, "cpu")
    targets = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    inputs.requires_grad_()
    for arguments in ((inputs, targets), (inputs, classes)):
        call = (*arguments, 0.3, gamma, reduction)
        assert torch.autograd.gradcheck(sigmoid_focal_loss, call)
        assert torch.autograd.gradgradcheck(sigmoid_focal_loss, call)


@devices
def test_a_sum_is_exact_and_the_same_in_every_run(device):
    inputs, classes = draw((50_000, 80), torch.float32, device)
    dense = one_hot(classes, inputs)
    exact = composition(inputs.double(), dense.double(), reduction="sum").item()
    for targets in (dense, classes):
        found = [sigmoid_focal_loss(inputs, targets, reduction="sum").item() for _ in range(3)]
        assert found[0] == found[1] == found[2] == pytest.approx(exact, rel=3e-7)


def test_results_do_not_depend_on_the_number_of_threads():
    inputs, classes = draw((3001, 91), torch.float32, "cpu")
    dense = one_hot(classes, inputs)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            for targets in (dense, classes):
                leaf = inputs.clone().requires_grad_()
                loss = sigmoid_focal_loss(leaf, targets, reduction="sum")
                results.append((loss.detach(), torch.autograd.grad(loss, leaf)[0]))
    finally:
        torch.set_num_threads(before)
    for index in (2, 4):
        for kind in (0, 1):
            for one, other in zip(results[kind], results[index + kind], strict=True):
                assert torch.equal(one, other)


@devices
def test_any_layout(device):
    inputs, classes = draw((6, 33, 17), torch.float32, device)
    dense = one_hot(classes, inputs)
    layouts = [
        inputs.transpose(0, 1).contiguous().transpose(0, 1),
        inputs.permute(2, 0, 1).contiguous().permute(1, 2, 0),
        torch.stack([inputs, inputs], dim=-1)[..., 1],
        torch.cat([inputs.new_zeros(1), inputs.flatten()])[1:].view_as(inputs),
    ]
    for reduction in ("none", "sum"):
        for targets in (dense, classes):
            leaf = inputs.clone().requires_grad_()
            expected = sigmoid_focal_loss(leaf, targets, reduction=reduction)
            wanted = torch.autograd.grad(expected.sum(), leaf)[0]
            for layout in layouts:
                own = layout.detach().requires_grad_()
                found = sigmoid_focal_loss(own, targets, reduction=reduction)
                torch.testing.assert_close(found, expected)
                torch.testing.assert_close(torch.autograd.grad(found.sum(), own)[0], wanted)


@devices
@reductions
def test_nothing_to_compute(reduction, device):
    for shape in [(0, 4), (3, 0)]:
        for targets in (torch.empty(shape, device=device), torch.zeros(shape[:1], dtype=torch.int64, device=device)):
            inputs = torch.empty(shape, device=device, requires_grad=True)
            loss = sigmoid_focal_loss(inputs, targets, reduction=reduction)
            if reduction == "none":
                assert loss.shape == shape
            else:
                assert loss.item() == 0 if reduction == "sum" else loss.isnan()
            assert torch.autograd.grad(loss.sum(), inputs)[0].shape == shape


def test_types_are_promoted():
    inputs, classes = draw((8, 5), torch.bfloat16, "cpu")
    dense = one_hot(classes, inputs)
    assert sigmoid_focal_loss(inputs, dense.float()).dtype == torch.float32
    expected = sigmoid_focal_loss(inputs, dense)
    for targets in (dense.bool(), dense.to(torch.int64), classes.to(torch.uint8), classes.to(torch.int32)):
        found = sigmoid_focal_loss(inputs, targets)
        assert found.dtype == torch.bfloat16
        torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-6)


def test_what_is_refused():
    x = torch.zeros(2, 3)
    with pytest.raises(ValueError, match="Invalid Value for arg 'reduction': 'max"):
        sigmoid_focal_loss(x, x, reduction="max")
    for alpha in (1.5, math.nan):
        with pytest.raises(ValueError, match="Invalid alpha value"):
            sigmoid_focal_loss(x, x, alpha=alpha)
    with pytest.raises(ValueError, match=r"Target size .* must be the same as input size"):
        sigmoid_focal_loss(x, torch.zeros(2, 4))
    with pytest.raises(ValueError, match="Target size"):
        sigmoid_focal_loss(x, torch.zeros(3, dtype=torch.int64))


def test_under_transforms():
    inputs, classes = draw((4, 6, 5), torch.float64, "cpu")
    for targets in (one_hot(classes, inputs), classes):
        total = torch.func.vmap(lambda x, t: sigmoid_focal_loss(x, t, reduction="sum"))(inputs, targets)
        each = [sigmoid_focal_loss(x, t, reduction="sum") for x, t in zip(inputs, targets, strict=True)]
        torch.testing.assert_close(total, torch.stack(each))
        per_sample = torch.func.vmap(torch.func.grad(lambda x, t: sigmoid_focal_loss(x, t, reduction="mean")))
        leaf = inputs.clone().requires_grad_()
        whole = torch.autograd.grad(sigmoid_focal_loss(leaf, targets, reduction="sum") / inputs[0].numel(), leaf)[0]
        torch.testing.assert_close(per_sample(inputs, targets), whole)


def test_as_a_module():
    inputs, classes = draw((8, 5), torch.float32, "cpu")
    module = SigmoidFocalLoss(alpha=0.5, gamma=1.5)
    assert torch.equal(module(inputs, classes), sigmoid_focal_loss(inputs, classes, 0.5, 1.5, "mean"))
    assert repr(module) == "SigmoidFocalLoss(alpha=0.5, gamma=1.5, reduction='mean')"


@pytest.mark.slow("compiles with Inductor")
def test_compiled_with_dynamic_sizes():
    torch._dynamo.reset()
    compiled = torch.compile(sigmoid_focal_loss, fullgraph=True, dynamic=True)
    for rows in (3, 6):
        inputs, classes = draw((rows, 5), torch.float32, "cpu")
        for targets in (classes, one_hot(classes, inputs)):
            leaf, exact = inputs.clone().requires_grad_(), inputs.clone().requires_grad_()
            compiled(leaf, targets, reduction="mean").backward()
            sigmoid_focal_loss(exact, targets, reduction="mean").backward()
            torch.testing.assert_close(leaf.grad, exact.grad)


@pytest.mark.gpu
def test_a_training_step_can_be_captured():
    inputs, classes = draw((513, 91), torch.float32, "cuda")
    static = inputs.clone().requires_grad_()

    def step():
        loss = sigmoid_focal_loss(static, classes, reduction="sum")
        return loss, torch.autograd.grad(loss, static)[0]

    graph, (loss, found) = capture(step)
    with torch.no_grad():
        static.copy_(-inputs)
    graph.replay()
    fresh = (-inputs).requires_grad_()
    exact = sigmoid_focal_loss(fresh, classes, reduction="sum")
    assert torch.equal(loss, exact)
    assert torch.equal(found, torch.autograd.grad(exact, fresh)[0])


@pytest.mark.gpu
def test_no_more_memory_than_the_gradient():
    inputs, classes = draw((20_000, 80), torch.bfloat16, "cuda")
    inputs.requires_grad_()
    torch.autograd.grad(sigmoid_focal_loss(inputs, classes, reduction="sum"), inputs)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    torch.autograd.grad(sigmoid_focal_loss(inputs, classes, reduction="sum"), inputs)
    assert torch.cuda.max_memory_allocated() - before < inputs.nbytes + (1 << 16)


@pytest.mark.gpu
@pytest.mark.whole_gpu
@pytest.mark.slow("tensors of more than 2^31 elements")
def test_more_than_two_to_the_31_elements():
    rows = (1 << 31) // 80 + 100
    if torch.cuda.get_device_properties(0).total_memory < 8 * rows * 80:
        pytest.skip("needs 17 GB of GPU memory")
    inputs = torch.zeros(rows, 80, dtype=torch.bfloat16, device="cuda")
    inputs[-1] = 3.0
    classes = torch.full((rows,), -1, device="cuda")
    classes[-1] = 5
    last = sigmoid_focal_loss(inputs[-1:].clone(), classes[-1:], reduction="sum").item()
    inputs.requires_grad_()
    loss = sigmoid_focal_loss(inputs, classes, reduction="sum")
    assert loss.item() == last
    found = torch.autograd.grad(loss, inputs)[0]
    assert found[-2].abs().sum().item() == 0
    assert found[-1].abs().min().item() > 0
