"""nms, batched_nms and nms_padded keep what the definition keeps, to the last bit, and take what torchvision's take."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from opsmith.errors import ShapeError
from opsmith.ops.nms import batched_nms, hard_nms, hard_nms_padded, nms, nms_padded

pytestmark = pytest.mark.compile

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
devices = pytest.mark.parametrize("device", DEVICES)
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def scattered(n: int, span: float = 100.0, size: float = 50.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Boxes of random size at random places, and scores with ties."""
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(n, 2, generator=generator) * span
    boxes = torch.cat([corner, corner + torch.rand(n, 2, generator=generator) * size], 1)
    return boxes, torch.randint(0, max(n // 2, 1), (n,), generator=generator) / max(n // 2, 1)


def crowded(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A detector's output: many boxes around each of a few objects, better ones with higher scores."""
    generator = torch.Generator().manual_seed(seed)
    objects, scores = scattered(20, 1000, 300, seed)
    which = torch.randint(0, 20, (n,), generator=generator)
    noise = torch.randn(n, 4, generator=generator)
    return objects[which] + 8 * noise, scores[which] - 0.01 * noise.abs().amax(1)


def awkward(n: int) -> tuple[Tensor, Tensor]:
    """Scattered boxes and, among them, every kind of box that has no proper area, and NaN and infinite scores."""
    boxes, scores = scattered(n)
    boxes[0::9] = boxes[0::9].roll(2, 1)  # inside out
    boxes[1::9, 2:] = boxes[1::9, :2]  # a point
    boxes[2::9, 0] = boxes[2::9, 2]  # a line
    boxes[3::9, 1] = math.nan
    boxes[4::9, 2] = math.inf
    boxes[5::9] *= 1e19  # an area near the largest float, or above it
    boxes[6::9] *= 1e-20  # and near the smallest
    scores[::5], scores[1::7], scores[2::11] = math.nan, math.inf, -math.inf
    return boxes, scores


def check(boxes: Tensor, scores: Tensor, threshold: float, device: str = "cpu", idxs: Tensor | None = None) -> None:
    expected = hard_nms.reference(boxes, scores, threshold, idxs)
    found = hard_nms(boxes.to(device), scores.to(device), threshold, None if idxs is None else idxs.to(device))
    assert found.dtype == torch.int64 and found.is_contiguous()
    assert torch.equal(found.cpu(), expected)


@devices
@pytest.mark.parametrize("make", [scattered, crowded, awkward])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("threshold", [0.0, 0.04, 0.3, 0.5, 0.7, 0.95])
def test_the_kept_boxes_are_the_definitions(make, dtype, threshold, device):
    boxes, scores = make(700)
    check(boxes.to(dtype), scores.to(dtype), threshold, device)


@devices
@pytest.mark.parametrize("threshold", [-math.inf, -0.5, 1.0, 1.5, math.inf, math.nan])
def test_thresholds_outside_of_zero_to_one(threshold, device):
    check(*awkward(600), threshold, device)


@devices
@pytest.mark.parametrize("count", [0, 1, 2, 31, 32, 33, 399, 400, 1023, 1024, 1025, 2500])
def test_every_size(count, device):
    check(*scattered(count, 300, 60), 0.5, device)


@devices
@pytest.mark.parametrize(("span", "size"), [(10, 1000), (1e6, 1e-2), (1e-12, 1e-13), (1e17, 1e15)])
def test_boxes_far_apart_huge_and_tiny(span, size, device):
    for threshold in (0.2, 0.6):
        check(*scattered(600, span, size), threshold, device)


@devices
def test_sizes_of_many_magnitudes(device):
    boxes, scores = scattered(900)
    scale = 2.0 ** torch.randint(-20, 20, (900, 1), generator=torch.Generator().manual_seed(3))
    check(boxes * scale, scores, 0.4, device)
    check(boxes * scale * torch.tensor([1.0, 50.0, 1.0, 50.0]), scores, 0.4, device)


@devices
@pytest.mark.parametrize("step", [3, 7, 10, 11])
def test_boxes_next_to_the_threshold(step, device):
    """Lattices of boxes whose intersection over union is a fraction that the threshold is, rounded: a fused multiply-add,
    a division or a threshold in double decides many of these pairs otherwise."""
    cells = torch.tensor(list(itertools.product(range(12), range(12))), dtype=torch.float32) / step
    boxes = torch.cat([cells, cells + torch.tensor([8.0, 5.0]) / step], 1)
    scores = torch.rand(len(boxes), generator=torch.Generator().manual_seed(step))
    for shared in range(1, 8):
        for threshold in {shared / (16 - shared), shared / (10 - shared) if shared < 5 else 0.5}:
            check(boxes, scores, threshold, device)


@devices
def test_an_overlap_equal_to_the_threshold_does_not_suppress(device):
    boxes = torch.tensor([[0.0, 0, 2, 1], [0, 0, 1, 1]], device=device)
    scores = torch.tensor([0.5, 0.5], device=device)
    assert nms(boxes, scores, 0.5).tolist() == [0, 1]
    assert nms(boxes, scores, math.nextafter(0.5, 0)).tolist() == [0, 1]  # the same in float32
    assert nms(boxes.double(), scores.double(), math.nextafter(0.5, 0)).tolist() == [0]


@devices
def test_ties_go_by_index_and_zeros_are_equal(device):
    boxes = torch.tensor([[0.0, 0, 1, 1]], device=device).repeat(4, 1) + 10 * torch.arange(4, device=device)[:, None]
    assert nms(boxes, torch.tensor([0.0, -0.0, 1.0, 0.0], device=device), 0.5).tolist() == [2, 0, 1, 3]
    scores = torch.tensor([1.0, math.inf, math.nan, -math.nan], device=device)
    assert nms(boxes, scores, 0.5).tolist() == [2, 3, 1, 0]
    assert hard_nms.reference(boxes, scores, 0.5).tolist() == [2, 3, 1, 0]


@devices
@pytest.mark.parametrize("classes", [1, 3, 80, 5000])
def test_classes_do_not_meet(classes, device):
    boxes, scores = scattered(1500, 60)
    idxs = torch.randint(-classes, classes, (1500,), generator=torch.Generator().manual_seed(1)) * (1 << 40)
    found = batched_nms(boxes.to(device), scores.to(device), idxs.to(device), 0.4).cpu()
    kept = torch.cat([members[nms(boxes[members], scores[members], 0.4)] for members in groups(idxs)])
    kept = kept.sort().values
    assert torch.equal(found, kept[scores[kept].sort(descending=True, stable=True).indices])


def groups(idxs: Tensor) -> list[Tensor]:
    return [(idxs == value).nonzero()[:, 0] for value in idxs.unique()]


@devices
def test_a_class_index_of_another_integer_type(device):
    boxes, scores = (tensor.to(device) for tensor in scattered(50))
    idxs = torch.arange(50, device=device) % 3
    assert torch.equal(batched_nms(boxes, scores, idxs.int(), 0.3), batched_nms(boxes, scores, idxs, 0.3))


@devices
@pytest.mark.parametrize("count", [0, 3, 600])
@pytest.mark.parametrize("max_output", [0, 1, 7, 600, 1000])
@pytest.mark.parametrize("with_classes", [False, True])
def test_padded(count, max_output, with_classes, device):
    boxes, scores = (tensor.to(device) for tensor in scattered(count))
    idxs = torch.arange(count, device=device) % 5 if with_classes else None
    keep = hard_nms(boxes, scores, 0.3, idxs)[:max_output]
    indices, found = nms_padded(boxes, scores, 0.3, max_output, idxs)
    assert indices.shape == (max_output,) and found.shape == ()
    assert found.item() == len(keep)
    assert torch.equal(indices[: len(keep)], keep)
    assert (indices[len(keep) :] == -1).all()


@devices
def test_padded_refuses_a_negative_size(device):
    boxes, scores = (tensor.to(device) for tensor in scattered(3))
    with pytest.raises((RuntimeError, ValueError), match="max_output"):
        nms_padded(boxes, scores, 0.3, -1)


@devices
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64], ids=str)
def test_integer_boxes_are_taken_as_float64(dtype, device):
    boxes = (scattered(300)[0] if dtype == torch.uint8 else scattered(300)[0] * 200).to(dtype)
    scores = scattered(300)[1]
    expected = hard_nms.reference(boxes.double(), scores.double(), 0.4)
    assert torch.equal(nms(boxes.to(device), scores.to(device), 0.4).cpu(), expected)


@devices
def test_the_wider_of_two_types_is_taken(device):
    boxes, scores = scattered(300)
    half = scores.half()
    found = nms(boxes.to(device), half.to(device), 0.4).cpu()
    assert torch.equal(found, hard_nms.reference(boxes, half.float(), 0.4))


@devices
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_strides_do_not_matter(dtype, device):
    boxes, scores = (tensor.to(device, dtype) for tensor in scattered(400))
    expected = nms(boxes, scores, 0.4)
    wide = torch.full((400, 9), math.nan, dtype=dtype, device=device)
    wide[:, 1:9:2] = boxes
    assert torch.equal(nms(wide[:, 1:9:2], scores, 0.4), expected)
    assert torch.equal(nms(boxes.t().contiguous().t(), scores.repeat_interleave(3)[::3], 0.4), expected)
    assert nms(boxes[:1].expand(50, 4), scores[:1].expand(50), 0.4).tolist() == [0]


@devices
def test_shapes_are_refused_in_torchvisions_words(device):
    boxes, scores = torch.rand(3, 4, device=device), torch.rand(3, device=device)
    for arguments, words in [
        ((boxes[0], scores), "boxes should be a 2d tensor, got 1D"),
        ((torch.rand(3, 5, device=device), scores), "boxes should have 4 elements in dimension 1, got 5"),
        ((boxes, torch.rand(3, 2, device=device)), "scores should be a 1d tensor, got 2D"),
        (
            (boxes, torch.rand(4, device=device)),
            "boxes and scores should have same number of elements in dimension 0, got 3 and 4",
        ),
    ]:
        with pytest.raises(RuntimeError, match=words):
            nms(*arguments, 0.5)
    with pytest.raises(RuntimeError, match="boxes and idxs should have same number"):
        batched_nms(boxes, scores, torch.zeros(2, dtype=torch.int64, device=device), 0.5)
    with pytest.raises(ShapeError, match="scores has size 4"):
        hard_nms(boxes, torch.rand(4, device=device), 0.5)


@devices
def test_one_box_just_above_the_threshold_goes(device):
    """As torchvision's own test makes it: the last box is the first one, stretched to just above the threshold."""
    for threshold in (0.2, 0.5, 0.8):
        boxes, _ = scattered(1000)
        boxes[-1] = boxes[0]
        boxes[-1, 2] += (boxes[0, 2] - boxes[0, 0]) * (1 - (threshold + 1e-5)) / (threshold + 1e-5)
        check(boxes, torch.rand(1000, generator=torch.Generator().manual_seed(2)), threshold, device)


@devices
def test_float16_keeps_what_float32_keeps_of_a_real_example(device):
    boxes = torch.tensor(
        [[285.25, 185.5, 1194.0, 851.5], [285.25, 188.75, 1192.0, 851.0], [279.5, 197.75, 1189.0, 849.0]], device=device
    )
    scores = torch.tensor([0.637, 0.757, 0.3967], device=device)
    expected = nms(boxes, scores, 0.2)
    assert expected.tolist() == [1]
    assert torch.equal(nms(boxes.half(), scores.half(), 0.2), expected)


@devices
def test_large_coordinates_in_float16_do_not_overflow(device):
    boxes, scores = (tensor.to(device) for tensor in scattered(200, 2000, 800))
    boxes = boxes.half()
    assert torch.equal(nms(boxes, scores.half(), 0.5).cpu(), hard_nms.reference(boxes.cpu(), scores.half().cpu(), 0.5))


@devices
def test_one_graph_with_a_size_that_the_data_gives(device):
    @torch.compile(fullgraph=True, dynamic=True, backend="aot_eager")
    def detect(boxes: Tensor, scores: Tensor, idxs: Tensor) -> Tensor:
        likely = (scores > 0.3).nonzero()[:, 0]
        boxes, scores, idxs = boxes[likely], scores[likely], idxs[likely]
        return torch.cat([boxes[nms(boxes, scores, 0.5)], boxes[batched_nms(boxes, scores, idxs, 0.5)]])

    for count in (90, 200):
        boxes, scores = scattered(count)
        idxs = torch.arange(count) % 4
        likely = scores > 0.3
        expected = torch.cat(
            [boxes[likely][hard_nms.reference(boxes[likely], scores[likely], 0.5, c)] for c in (None, idxs[likely])]
        )
        assert torch.equal(detect(boxes.to(device), scores.to(device), idxs.to(device)).cpu(), expected)


def test_export():
    class Model(torch.nn.Module):
        def forward(self, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
            return boxes[nms(boxes, scores, 0.5)], nms_padded(boxes, scores, 0.5, 10)[0]

    sizes = {"boxes": {0: torch.export.Dim("n")}, "scores": {0: torch.export.Dim("n")}}
    exported = torch.export.export(Model(), scattered(20), dynamic_shapes=sizes).module()
    for found, expected in zip(exported(*scattered(50)), Model()(*scattered(50)), strict=True):
        assert torch.equal(found, expected)


@devices
def test_vmap_of_padded(device):
    boxes, scores = zip(*(scattered(60, seed=seed) for seed in range(4)), strict=True)
    boxes, scores = torch.stack(boxes).to(device), torch.stack(scores).to(device)
    indices, counts = torch.vmap(lambda b, s: hard_nms_padded(b, s, 0.4, 25))(boxes, scores)
    for image in range(4):
        expected = nms_padded(boxes[image], scores[image], 0.4, 25)
        assert torch.equal(indices[image], expected[0]) and counts[image] == expected[1]


@devices
def test_threads_and_runs_change_nothing(device):
    boxes, scores = (tensor.to(device) for tensor in crowded(3000))
    idxs = torch.arange(3000, device=device) % 30
    first = batched_nms(boxes, scores, idxs, 0.5)
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            assert torch.equal(batched_nms(boxes, scores, idxs, 0.5), first)
    finally:
        torch.set_num_threads(threads)
