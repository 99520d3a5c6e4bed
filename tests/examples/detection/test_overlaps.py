"""The package's own operator: which objects boxes overlap most, on a CPU by hand-made cases, on a GPU by its definition."""

from __future__ import annotations

import pytest
import torch
from opsmith_detection.models.overlaps import best_overlaps
from torch import Tensor


def some_boxes(images: int, count: int, seed: int) -> Tensor:
    """Return boxes of whole numbers, [images, count, 4], of which many are equal and some have no area."""
    random = torch.Generator().manual_seed(seed)
    corner = torch.randint(0, 30, (images, count, 2), generator=random).float()
    return torch.cat([corner, corner + torch.randint(0, 9, (images, count, 2), generator=random)], -1)


def test_a_box_has_its_best_object_and_an_object_all_of_its_best_boxes() -> None:
    objects = torch.tensor([[[0.0, 0, 4, 4], [2, 0, 6, 4], [50, 50, 60, 60], [0, 0, 0, 0]]])
    boxes = torch.tensor([[[0.0, 0, 4, 4], [1, 0, 5, 4], [2, 0, 6, 2], [2, 2, 6, 4], [20, 20, 21, 21]]])
    highest, index, is_best = best_overlaps(objects, boxes, True)
    torch.testing.assert_close(highest, torch.tensor([[1.0, 0.6, 0.5, 0.5, 0.0]]))
    assert index.tolist() == [[0, 0, 1, 1, 0]]  # of equal ones the first
    # The second object's best overlap is that of the second box; nothing overlaps the third one, and padding no box.
    assert is_best.tolist() == [[True, True, False, False, False]]
    assert not best_overlaps(objects, boxes, False)[2].any()


def test_boxes_without_area_are_nobodys_best() -> None:
    point = torch.tensor([[[3.0, 3, 3, 3]]])
    highest, index, is_best = best_overlaps(point, torch.cat([torch.tensor([[[0.0, 0, 4, 4]]]), point], 1), True)
    assert highest[0, 0] == 0
    assert highest[0, 1].isnan()
    assert index.tolist() == [[0, 0]]
    assert is_best.tolist() == [[False, False]]


@pytest.mark.gpu
@pytest.mark.parametrize("best_too", [False, True])
@pytest.mark.parametrize(("images", "objects", "boxes"), [(3, 7, 1000), (2, 300, 4099), (1, 1, 1), (2, 129, 31)])
def test_a_gpu_finds_what_the_definition_does(images: int, objects: int, boxes: int, best_too: bool) -> None:
    own, others = some_boxes(images, objects, 1), some_boxes(images, boxes, 2)
    own[:, objects // 2 + 1 :] = 0  # padding
    for shared in (False, True):
        given = others[:1].expand(images, -1, -1) if shared else others
        expected = best_overlaps.reference(own, given, best_too)
        found = best_overlaps(own.cuda(), given.cuda(), best_too)
        torch.testing.assert_close([each.cpu() for each in found], list(expected), rtol=0, atol=0, equal_nan=True)
