"""The order of batches, what is in them, and that a loader goes on where another stopped."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest
import torch
from detection_kit.files import annotation, disc, square, write
from opsmith_detection.config import Config, DataConfig, ModelConfig
from opsmith_detection.data.coco import CocoDataset, DataError
from opsmith_detection.data.loader import Batches, load
from opsmith_detection.engine.distributed import World

pytestmark = [
    # A worker of pytest-xdist has one core; and more than one thread, which a fork does not continue.
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

MODEL = ModelConfig()
# 7 wide images and 4 high ones.
SIZES = [(30, 40), (40, 30), (30, 50), (30, 40), (48, 30), (30, 45), (20, 40), (60, 40), (30, 40), (32, 40), (40, 20)]
CONFIG = DataConfig(
    canvases=((32, 64), (64, 32)),
    shorter_sides=(16, 24, 32),
    longest_side=48,
    max_objects=5,
    mask_resolution=14,
    batch=2,
    workers=0,
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    found = []
    for image, (height, width) in enumerate(SIZES, start=1):
        found += [square(image, 2, 3, 8), disc(image, width / 2, height / 2, 6)]
    return CocoDataset(write(tmp_path_factory.mktemp("data"), SIZES, found))


def batches_of(dataset, *, training=True, seed=0, with_masks=True, rank=0, world=1, **changes):
    model = replace(MODEL, mask_head=MODEL.mask_head if with_masks else None)
    config = Config(model=model, data=replace(CONFIG, **changes), seed=seed)
    return Batches(dataset, config, World(rank, world, torch.device("cpu")), training=training)


def flat(batch):
    targets = [part for part in batch.targets or () if part is not None]
    return [batch.images, batch.sizes, batch.ids, *targets]


def same(left, right):
    return all(torch.equal(a, b) for a, b in zip(flat(left), flat(right), strict=True))


def test_batches_are_what_the_contract_says(dataset):
    for batch in islice(load(batches_of(dataset)), 12):
        assert batch.images.shape[2:] in CONFIG.canvases
        assert batch.images.dtype == torch.uint8
        assert batch.targets is not None
        assert [part.dtype for part in batch.targets] == [torch.float32, torch.int64, torch.uint8]
        assert [part.shape for part in batch.targets] == [(2, 5, 4), (2, 5), (2, 5, 14, 14)]
        for place, (height, width) in enumerate(batch.sizes.int().tolist()):
            assert min(height, width) <= 32
            assert batch.images[place, :, height:].sum() == 0
            assert batch.images[place, :, :, width:].sum() == 0
            assert batch.images[place, 2, :height, :width].min() > 0
            labels = batch.targets.labels[place]
            assert labels.tolist() == [1, 3, 0, 0, 0]
            boxes = batch.targets.boxes[place]
            assert (boxes[2:] == 0).all()
            assert (boxes[:2, 2:] <= torch.tensor([width, height])).all()
            assert batch.targets.masks[place, 0].min() == 255  # the square fills its box
            assert batch.targets.masks[place, 1, 0, 0] == 0  # the disc does not
            assert batch.targets.masks[place, 2:].sum() == 0


def test_an_epoch_has_every_image_and_fills_its_last_batches(dataset):
    batches = batches_of(dataset)
    assert len(batches) == 4 + 2
    seen = [number for batch in islice(load(batches), 6) for number in batch.ids.tolist()]
    assert set(seen) == set(range(1, 12))
    assert len(seen) == 12


def test_epochs_and_seeds_differ(dataset):
    batches = batches_of(dataset)
    first, second = ([b.ids.tolist() for b in islice(load(batches), 6)] for _ in range(2))
    other = [b.ids.tolist() for b in islice(load(batches_of(dataset, seed=1)), 6)]
    assert first != second
    assert first != other


def test_flips_and_scales_are_drawn(dataset):
    shown = {}
    for batch in islice(load(batches_of(dataset, batch=1)), 60):
        shown.setdefault(batch.ids.item(), set()).add(
            (batch.sizes[0, 0].item(), batch.images[0, 1, 0, 0].item() > batch.images[0, 1, 0, 5].item())
        )
    assert all(len(ways) > 1 for ways in shown.values())
    drawn = set().union(*shown.values())
    assert {flipped for _, flipped in drawn} == {False, True}
    assert {16, 24, 32} <= {height for height, _ in drawn}


@pytest.mark.parametrize("workers", [1, 2])
def test_batches_do_not_depend_on_workers(dataset, workers):
    both = (islice(load(batches_of(dataset, workers=number)), 8) for number in (0, workers))
    for alone, forked in zip(*both, strict=True):
        assert same(alone, forked)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("stop", [0, 1, 6, 8])
def test_a_loader_goes_on_where_another_stopped(dataset, stop, workers):
    whole = list(islice(load(batches_of(dataset)), 11))
    stopped = batches_of(dataset, workers=workers)
    for batch, expected in zip(islice(load(stopped), stop), whole, strict=False):
        assert same(batch, expected)
    resumed = batches_of(dataset)
    resumed.restore(stopped.state())
    assert all(same(*both) for both in zip(islice(load(resumed), 11 - stop), whole[stop:], strict=True))


def test_a_state_of_other_data_is_refused(dataset):
    state = batches_of(dataset).state()
    canvases = ((64, 32), (32, 64))  # in another order
    for changes in ({"seed": 1}, {"batch": 1}, {"world": 2}, {"canvases": canvases}):
        with pytest.raises(DataError, match=r"cannot go on from batches of .*start another run with output=FOLDER"):
            batches_of(dataset, **changes).restore(state)


def test_ranks_share_a_step_without_overlap(dataset):
    together = batches_of(dataset, batch=4)
    ranks = [batches_of(dataset, rank=rank, world=2) for rank in range(2)]
    assert [len(rank) for rank in ranks] == [len(together)] * 2
    for all_, first, second in islice(zip(*map(load, (together, *ranks)), strict=True), 6):
        assert all_.ids.tolist() == first.ids.tolist() + second.ids.tolist()
        assert first.images.shape == second.images.shape


@pytest.mark.parametrize("world", [1, 2, 3])
def test_tests_have_every_image_once(dataset, world):
    seen, lengths = [], set()
    for rank in range(world):
        batches = batches_of(dataset, training=False, rank=rank, world=world)
        made = list(load(batches))
        lengths.add(len(made))
        assert len(made) == len(batches)
        for batch in made:
            assert batch.targets is None
            assert (batch.images[batch.ids < 0] == 0).all()
            assert (batch.sizes > 0).all()
        seen += [number for batch in made for number in batch.ids.tolist()]
    assert sorted(number for number in seen if number >= 0) == list(range(1, 12))
    assert len(lengths) == 1


def test_tests_have_the_last_size_and_no_flip(dataset):
    first, again = (list(load(batches_of(dataset, training=False, seed=seed))) for seed in (0, 1))
    assert all(same(*both) for both in zip(first, again, strict=True))
    assert first[0].sizes.tolist()[0] == [32, 42]


def test_of_too_many_objects_the_largest_are_kept(tmp_path):
    sides = [5, 9, 3, 8, 4]
    path = write(tmp_path, [(32, 40)], [square(1, 1, 1, side) for side in sides])
    batch = next(load(batches_of(CocoDataset(path), max_objects=3, batch=1, flip=0.0, shorter_sides=(32,))))
    assert batch.targets.boxes[0, :, 2].tolist() == [6, 10, 9]


def test_a_broken_image_is_named_by_workers_too(tmp_path):
    path = write(tmp_path, [(32, 40)], [])
    dataset = CocoDataset(path)
    (tmp_path / "1.png").write_bytes(b"")
    for workers in (0, 1):
        with pytest.raises(DataError, match=r"^\S*1\.png cannot be read as an image"):
            next(load(batches_of(dataset, batch=1, workers=workers)))


def test_what_cannot_be_loaded_is_refused(tmp_path):
    empty = CocoDataset(write(tmp_path, [], []))
    with pytest.raises(DataError, match="has no images"):
        batches_of(empty)
    boxes = CocoDataset(write(tmp_path, [(32, 40)], [annotation(1, 1, [1, 1, 4, 4])]))
    with pytest.raises(DataError, match="1 objects have no `segmentation`"):
        batches_of(boxes)
    assert next(load(batches_of(boxes, with_masks=False, batch=1))).targets.masks is None
