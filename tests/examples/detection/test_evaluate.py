"""Average precision, against cases whose result is known by hand."""

from __future__ import annotations

import math
import multiprocessing
from datetime import timedelta
from unittest.mock import ANY

import numpy as np
import pytest
import torch
import torch.distributed as dist
from detection_kit.files import annotation, disc, square, write
from opsmith_detection.data.coco import CocoDataset, DataError
from opsmith_detection.data.masks import cut_out
from opsmith_detection.evaluate import Evaluation
from opsmith_detection.structures import Batch, Detections

SIZE = (200, 300)


def batch_of(ids, sizes=None):
    sizes = [SIZE] * len(ids) if sizes is None else sizes
    return Batch(torch.zeros(len(ids), 3, 1, 1, dtype=torch.uint8), torch.tensor(sizes).float(), torch.tensor(ids))


def detections_of(*images, masks=None):
    """Of images given as lists of (label, score, box), padded as a model does."""
    most = max(map(len, images))
    labels = torch.zeros(len(images), most, dtype=torch.int64)
    scores, boxes = torch.zeros(len(images), most), torch.zeros(len(images), most, 4)
    for place, found in enumerate(images):
        for i, (label, score, box) in enumerate(found):
            labels[place, i], scores[place, i], boxes[place, i] = label, score, torch.tensor(box)
    return Detections(boxes, scores, labels, masks)


def box_result(tmp_path, truth, found):
    """The result for one image with boxes [x1, y1, x2, y2]."""
    dataset = CocoDataset(write(tmp_path, [SIZE], truth))
    evaluation = Evaluation(dataset)
    evaluation.add(batch_of([1]), detections_of(found))
    return evaluation.result()


ONE = pytest.approx(1, abs=1e-9)  # pycocotools adds 2e-16 where it divides
BOX, ELSEWHERE = [10.0, 10.0, 60.0, 60.0], [100.0, 100.0, 150.0, 150.0]
TRUTH = [square(1, 10, 10, 50)]


def test_everything_found(tmp_path, capsys):
    result = box_result(tmp_path, TRUTH, [(1, 0.9, BOX)])
    for name in ("AP", "AP50", "AP75", "APm", "AR1", "AR100", "ARm"):
        assert result[f"box/{name}"] == ONE
    assert math.isnan(result["box/APs"])
    assert len(result) == 12
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("truth", "found", "expected"),
    [
        # One of two is right, and comes second: the precision is a half at each recall.
        pytest.param(TRUTH, [(1, 0.9, ELSEWHERE), (1, 0.8, BOX)], {"AP": 0.5, "AP50": 0.5}, id="false positive ahead"),
        pytest.param(TRUTH, [(1, 0.9, BOX), (1, 0.8, ELSEWHERE)], {"AP": 1}, id="false positive behind"),
        pytest.param(TRUTH, [(1, 0.9, BOX), (1, 0.8, BOX)], {"AP": 1}, id="found twice"),
        # 36 of 50 columns: an IoU of 0.72, which 0.5, 0.55, ... 0.7 ask for.
        pytest.param(
            TRUTH, [(1, 0.9, [10, 10, 46, 60])], {"AP": 0.5, "AP50": 1, "AP75": 0}, id="half of the thresholds"
        ),
        # Recall ends at a half: of the recalls 0, 0.01, ... 1, 51 are reached.
        pytest.param(
            [*TRUTH, square(1, 100, 100, 50)], [(1, 0.9, BOX)], {"AP": 51 / 101, "AR100": 0.5}, id="one of two found"
        ),
        pytest.param(TRUTH, [(3, 0.9, BOX)], {"AP": 0}, id="another category"),
        pytest.param(TRUTH, [], {"AP": 0, "AR100": 0, "APs": math.nan}, id="nothing found"),
        pytest.param(TRUTH, [(2, 0.9, ELSEWHERE), (1, 0.8, BOX)], {"AP": 1}, id="a label that no category has"),
        # Of two categories one is found.
        pytest.param(
            [*TRUTH, annotation(1, 3, [100, 100, 50, 50])], [(1, 0.9, BOX)], {"AP": 0.5}, id="one of two categories"
        ),
        pytest.param(
            [square(1, 0, 0, 20), square(1, 30, 30, 60), square(1, 95, 95, 100)],
            [(1, 0.9, [0, 0, 20, 20]), (1, 0.8, [95, 95, 195, 195])],
            {"APs": 1, "APm": 0, "APl": 1, "ARs": 1, "ARm": 0, "ARl": 1},
            id="sizes",
        ),
        # What lies in a crowd is neither right nor wrong.
        pytest.param(
            [*TRUTH, annotation(1, 1, [100, 100, 100, 100], iscrowd=1)],
            [(1, 0.9, ELSEWHERE), (1, 0.85, [120, 120, 150, 150]), (1, 0.8, BOX)],
            {"AP": 1},
            id="in a crowd",
        ),
        pytest.param(
            [*TRUTH, annotation(1, 3, [100, 100, 100, 100], iscrowd=1)],
            [(1, 0.9, ELSEWHERE), (1, 0.8, BOX)],
            {"AP": 0.5},
            id="in a crowd of another category",
        ),
        # pycocotools itself takes it for one that was not found.
        pytest.param([{**TRUTH[0], "id": 0}], [(1, 0.9, BOX)], {"AP": 1}, id="an object whose id is 0"),
    ],
)
def test_results_known_by_hand(tmp_path, truth, found, expected):
    result = box_result(tmp_path, truth, found)
    assert {name: result[f"box/{name}"] for name in expected} == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_boxes_are_scaled_to_the_original(tmp_path):
    evaluation = Evaluation(CocoDataset(write(tmp_path, [SIZE], TRUTH)))
    evaluation.add(batch_of([1], [(400, 150)]), detections_of([(1, 0.9, [5, 20, 30, 120])]))
    assert evaluation.result()["box/AP"] == ONE


@pytest.mark.parametrize("given", [{}, {"area": None}, {"segmentation": []}])
def test_an_area_may_be_missing(tmp_path, given):
    (truth,) = TRUTH
    bare = {key: value for key, value in truth.items() if key not in ("area", "iscrowd")}
    assert box_result(tmp_path, [{**bare, **given}], [(1, 0.9, BOX)])["box/APm"] == ONE


def test_an_object_needs_no_id(tmp_path):
    dataset = CocoDataset(write(tmp_path, [SIZE], [{**TRUTH[0], "id": None}]))
    dataset.annotations.write_text(dataset.annotations.read_text().replace('"id": null, ', ""))
    evaluation = Evaluation(CocoDataset(dataset.annotations))
    evaluation.add(batch_of([1]), detections_of([(1, 0.9, BOX)]))
    assert evaluation.result()["box/AP"] == ONE


@pytest.mark.compile
def test_masks_are_compared_as_pasted(tmp_path):
    """The left half of a square: its mask fits, its box does not, and the other way round."""
    half = annotation(1, 1, [40, 40, 50, 100], segmentation=[[40, 40, 90, 40, 90, 140, 40, 140]])
    dataset = CocoDataset(write(tmp_path, [SIZE], [half]))
    results = []
    for box, columns in (([40, 40, 140, 140], 14), ([40, 40, 90, 140], 7), ([40, 40, 90, 140], 28)):
        masks = torch.zeros(1, 1, 28, 28)
        masks[..., :columns] = 1
        evaluation = Evaluation(dataset, with_masks=True)
        # The network saw the image at twice its size.
        evaluation.add(batch_of([1], [(400, 600)]), detections_of([(1, 0.9, [2 * edge for edge in box])], masks=masks))
        result = evaluation.result()
        results.append((result["box/AP50"], result["mask/AP50"]))
        assert len(result) == 24
    # The first box is twice as wide as the object, the second mask covers a quarter of it.
    assert results == [(ANY, ONE), (ONE, 0), (ONE, ONE)]
    assert result["mask/AP"] >= 0.9


@pytest.mark.compile
def test_masks_that_were_cut_out_are_found_again(tmp_path):
    """What a model learns, on a mask head's grid, against the masks it comes from; pasting rounds boxes to pixels."""
    truth = [disc(1, 40 + 70 * i + 0.3 * i, 60 + 0.7 * i, 16 + 5 * i) for i in range(4)]
    dataset = CocoDataset(write(tmp_path, [SIZE], truth))
    objects = dataset.objects(0)
    grids = [cut_out(objects.segmentations[i], SIZE, objects.boxes[i], 28) for i in range(4)]
    found = [(3, 0.9, box.tolist()) for box in objects.boxes]
    evaluation = Evaluation(dataset, with_masks=True)
    evaluation.add(batch_of([1]), detections_of(found, masks=torch.from_numpy(np.stack(grids))[None] / 255))
    result = evaluation.result()
    assert result["mask/AP75"] == ONE
    assert result["mask/AP"] >= 0.85


@pytest.mark.compile
def test_masks_are_pasted_in_chunks(tmp_path, monkeypatch):
    truth = [square(1, 20 * i + 5, 20, 15) for i in range(7)]
    found = [(1, 0.9 - i / 100, [20 * i + 5, 20, 20 * i + 20, 35]) for i in range(7)]
    dataset = CocoDataset(write(tmp_path, [SIZE], truth))
    results = []
    for pixels in (2**26, 3 * SIZE[0] * SIZE[1], 1):
        monkeypatch.setattr("opsmith_detection.found._PASTED_AT_ONCE", pixels)
        evaluation = Evaluation(dataset, with_masks=True)
        evaluation.add(batch_of([1]), detections_of(found, masks=torch.ones(1, 7, 28, 28)))
        results.append(evaluation.result())
    assert results[0]["mask/AP50"] == ONE
    assert all(str(result) == str(results[0]) for result in results)


def test_the_image_that_fills_a_batch_does_not_count(tmp_path):
    evaluation = Evaluation(CocoDataset(write(tmp_path, [SIZE], TRUTH)))
    evaluation.add(batch_of([1, -1]), detections_of([(1, 0.8, BOX)], [(1, 0.9, ELSEWHERE)]))
    assert evaluation.result()["box/AP"] == ONE


def test_images_must_all_come_once(tmp_path):
    evaluation = Evaluation(CocoDataset(write(tmp_path, [SIZE] * 2, [*TRUTH, square(2, 1, 1, 40)])))
    with pytest.raises(DataError, match="0 of 2 images"):
        evaluation.result()
    evaluation.add(batch_of([1]), detections_of([(1, 0.8, BOX)]))
    with pytest.raises(DataError, match="1 of 2 images were evaluated: gather"):
        evaluation.result()
    with pytest.raises(DataError, match="image 1 was evaluated twice"):
        evaluation.add(batch_of([1]), detections_of([(1, 0.8, BOX)]))


def test_masks_that_are_missing_are_named(tmp_path):
    with pytest.raises(DataError, match="1 objects have no `segmentation`"):
        Evaluation(CocoDataset(write(tmp_path, [SIZE], [annotation(1, 1, [1, 1, 5, 5])])), with_masks=True)
    evaluation = Evaluation(CocoDataset(write(tmp_path, [SIZE], TRUTH)), with_masks=True)
    with pytest.raises(DataError, match="the detections have none"):
        evaluation.add(batch_of([1]), detections_of([(1, 0.8, BOX)]))


def random_case(images=6):
    """Objects and detections, some of which are right."""
    random = np.random.default_rng(0)
    truth, found = [], []
    for image in range(1, images + 1):
        boxes = [[*random.uniform(0, 150, 2), float(random.uniform(20, 50))] for _ in range(5)]
        truth += [square(image, *box) for box in boxes]
        moved = [[x + random.normal(0, 3), y + random.normal(0, 3), side] for x, y, side in boxes]
        # Equal scores, so that an order of images would show.
        found.append([(1, round(random.random(), 1), [x, y, x + side, y + side]) for x, y, side in moved])
    return truth, found


def one_rank(rank, world, path):
    torch.set_num_threads(1)
    store = dist.FileStore(str(path.with_name("store")), world)
    dist.init_process_group("gloo", rank=rank, world_size=world, store=store, timeout=timedelta(seconds=60))
    _, found = random_case()
    evaluation = Evaluation(CocoDataset(path))
    for image in range(len(found) - rank, 0, -world):
        evaluation.add(batch_of([image]), detections_of(found[image - 1]))
    path.with_name(f"result {rank}").write_text(str(evaluation.gathered().result()))
    dist.destroy_process_group()


@pytest.mark.skipif(not dist.is_available(), reason="this torch is built without torch.distributed")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_ranks_together_have_the_result_of_one_process(tmp_path):
    truth, found = random_case()
    path = write(tmp_path, [SIZE] * len(found), truth)
    evaluation = Evaluation(CocoDataset(path))
    evaluation.add(batch_of(list(range(1, len(found) + 1))), detections_of(*found))
    alone = evaluation.result()
    assert 0.2 < alone["box/AP"] < 0.9
    processes = [multiprocessing.get_context("fork").Process(target=one_rank, args=(r, 2, path)) for r in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(90)
    assert [process.exitcode for process in processes] == [0, 0]
    assert {(tmp_path / f"result {rank}").read_text() for rank in range(2)} == {str(alone)}
