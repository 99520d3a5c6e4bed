"""Tasks of a definition and of a function with examples, and what is no task."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from opsmith.errors import ArgumentError, DefinitionError
from opsmith.judging.packings import packed
from opsmith.judging.task_files import load_task
from opsmith.ops.lltm.cell import lltm_gates
from opsmith.ops.nms.hard import hard_nms


def weighted_sum(x, mask, index, power=2):
    return (x**power * mask).sum(-1) + index


def examples():
    mask = (torch.rand(12, 30) < 0.5).float()
    return {
        "wide": (torch.rand(12, 30) + 4, mask, torch.arange(12)),
        "again": (torch.rand(6, 9), mask[:6, :9], torch.arange(6)),
    }


def test_a_function_with_examples():
    task = load_task(weighted_sum, examples=examples)
    assert task.parameters == ("x", "mask", "index")
    assert list(task.makers) == ["wide", "again"]
    assert task.guessed == ("B = 12 (x[0], mask[0], index[0])", "N = 30 (x[1], mask[1])")


def strict(x, y):
    if x.shape[0] != 24 or not bool((x > 2).all()):
        raise ValueError("other sizes and numbers are not taken")
    return x.sum(0) + y.new_ones(24)


def heads(x, w):
    return (x.unflatten(-1, (4, -1)) * w).flatten(-2)


SIZES = {
    "none": (strict, (torch.rand(24, 24) + 3, torch.rand(5)), (), ["24"]),
    "multiples": (heads, (torch.rand(10, 32), torch.rand(8)), ("B = 10 (x[0])",), ["B 32"]),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_a_reference_does_not_take_stay_numbers(name):
    function, example, lines, outputs = SIZES[name]
    task = load_task(function, examples=[example])
    assert task.guessed == lines
    assert [output.tensor.shape.text for output in task.signature.outputs] == outputs


def test_numbers_stay_like_those_of_an_example():
    task = load_task(weighted_sum, examples=examples)
    one, other = task.inputs(0), task.inputs(1)
    assert not torch.equal(one["x"], other["x"]) and torch.equal(one["x"], task.inputs(0)["x"])
    assert one["x"].min() > 3 and one["x"].max() < 7
    assert set(one["mask"].unique().tolist()) == {0.0, 1.0}
    assert torch.equal(one["index"], torch.arange(12))


def test_numbers_stay_between_those_of_an_example():
    target = torch.rand(4000)
    target[7], target[8] = torch.inf, -torch.inf
    make = load_task(lambda target: target * 2, examples=[(target,)]).inputs
    drawn, again = (make(seed)["target"] for seed in (1, 2))
    finite = drawn[drawn.isfinite()]
    assert not torch.equal(drawn, again)
    assert float(finite.min()) >= 0 and float(finite.max()) <= 1
    assert len(finite.unique()) > 3000  # hardly any at the ends


def test_the_structure_of_an_example_stays():
    x = torch.randn(12, 30)
    example = {
        "definite": x @ x.T + torch.eye(12),
        "symmetric": x[:, :12] + x[:, :12].T,
        "upper": torch.triu(x[:, :12]),
        "edges": torch.linspace(0, 1, 20),
        "rows": torch.nn.functional.normalize(x),
        "shares": x.softmax(-1),
    }

    def function(definite, symmetric, upper, edges, rows, shares):
        return torch.linalg.cholesky(definite)

    task = load_task(function, examples=[example])
    for seed in (1, 2, 3):
        drawn = task.inputs(seed)
        assert not any(torch.equal(drawn[name], one) for name, one in example.items())
        torch.linalg.cholesky(drawn["definite"])
        assert torch.equal(drawn["symmetric"], drawn["symmetric"].T)
        assert torch.equal(drawn["upper"], drawn["upper"].triu())
        assert bool((drawn["edges"].diff() >= 0).all())
        torch.testing.assert_close(drawn["rows"].norm(dim=-1), torch.ones(12))
        torch.testing.assert_close(drawn["shares"].sum(-1), torch.ones(12))


def test_the_numbers_of_short_rows_stay_together():
    rois = torch.rand(40, 5)
    rois[:, 0] = torch.arange(40) % 3
    rois[:, 3:] += rois[:, 1:3]
    task = load_task(lambda x: x.sum(-1), examples=[(rois,)])
    for seed in range(4):
        (found,) = task.inputs(seed).values()
        assert not torch.equal(found, rois)
        assert torch.equal(found[:, 0], found[:, 0].round()) and bool((found[:, 0] <= 2).all())
        assert bool((found[:, 3:] >= found[:, 1:3]).all())


def test_integers_are_drawn_where_the_function_takes_them():
    rows, offsets = torch.tensor([4, 0, 4, 7, 1, 2]), torch.tensor([0, 2, 5])
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    example = (torch.rand(9, 3), rows, offsets, mask)
    task = load_task(
        lambda table, rows, offsets, mask: (table[rows].cumsum(0)[offsets], mask.sum(-1)), examples=[example]
    )
    calls = [task.inputs(seed) for seed in range(8)]
    assert len({tuple(one["rows"].tolist()) for one in calls}) > 4
    assert {number for one in calls for number in one["rows"].tolist()} <= set(rows.tolist())
    assert all(torch.equal(one["offsets"], offsets) for one in calls)  # sorted ones may be offsets
    assert len({tuple(one["mask"].sum(-1).tolist()) for one in calls}) > 4
    assert all(sorted(one["mask"].sum(-1).tolist()) == [1, 2, 3, 4, 5, 6] for one in calls)
    assert torch.equal(task.inputs(3)["rows"], calls[3]["rows"])


def test_integers_that_a_function_does_not_take_stay():
    def gather(x, rows):
        if int(rows[0]) != 3:
            raise ValueError("the first row comes first")
        return x[rows]

    task = load_task(gather, examples=[(torch.rand(9, 3), torch.tensor([3, 1, 2, 2]))])
    assert all(task.inputs(seed)["rows"].tolist() == [3, 1, 2, 2] for seed in range(4))


def test_a_permutation_stays_one_and_complex_numbers_are_drawn():
    example = (torch.randn(8, dtype=torch.complex64), torch.randperm(8, generator=torch.Generator().manual_seed(1)))
    task = load_task(lambda x, order: x[order], examples=[example])
    calls = [task.inputs(seed) for seed in range(4)]
    assert all(sorted(one["order"].tolist()) == list(range(8)) for one in calls)
    assert len({tuple(one["order"].tolist()) for one in calls}) > 2
    assert not torch.equal(calls[0]["x"], calls[1]["x"])


def test_a_definition():
    task = load_task(lltm_gates)
    assert task.kind == "definition" and task.signature is lltm_gates.definition.signature
    assert task.trains and task.differentiable == ("gates", "cell")
    assert list(task.makers) == ["dozens of elements", "many elements"]
    values = task.inputs(0)
    found = packed(lltm_gates.reference, task.entry, "cpu")(list(values.values()))
    assert len(found) == len(task.reference(*values.values())) == 2


def test_examples_of_a_definition_have_other_numbers():
    task = load_task(hard_nms)
    one, other = task.inputs(0)["boxes"], task.inputs(1)["boxes"]
    assert one.shape == other.shape and not torch.equal(one, other)
    assert bool((one[:, 2:] >= one[:, :2]).all())
    ratio = one / other
    assert not torch.allclose(ratio, ratio[0, 0].expand_as(ratio), rtol=1e-3)  # no multiples


@pytest.mark.parametrize("name", ["opsmith.ops.lltm.cell::lltm_gates", "opsmith.ops.lltm.cell:lltm_gates"])
def test_a_definition_by_name(name):
    assert load_task(name).name == load_task(lltm_gates).name


REFUSED = {
    "no examples": (lambda: load_task(weighted_sum), "pass examples="),
    "empty examples": (lambda: load_task(weighted_sum, examples=[]), "has no examples"),
    "too many arguments": (lambda: load_task(weighted_sum, examples=[(1, 2, 3, 4, 5)]), "has 5 arguments"),
    "an unknown name": (lambda: load_task(weighted_sum, examples=[{"y": torch.ones(3)}]), "names y"),
    "an object": (lambda: load_task(weighted_sum, examples=[(object(),)]), "is a object"),
    "a number": (lambda: load_task(3), "is not a task"),
    "no file": (lambda: load_task(Path("nowhere/task.py")), "there is no task nowhere/task.py"),
}


@pytest.mark.parametrize(("load", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_task_is_told(load, message):
    with pytest.raises(ArgumentError, match=message):
        load()


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="PyTorch has no float4 before 2.8")
def test_what_pytorch_cannot_copy_is_told():
    packed = torch.zeros(4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    with pytest.raises(ArgumentError, match=r"the argument x has torch.float4_e2m1fn_x2, .* give its bytes"):
        load_task(lambda x: x, examples=[(packed,)])


def test_a_file_without_a_task_is_told(tmp_path):
    (tmp_path / "some.py").write_text("x = 1\n")
    with pytest.raises((ArgumentError, DefinitionError)):
        load_task(tmp_path / "some.py")
