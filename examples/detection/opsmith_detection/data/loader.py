"""Batches of one canvas each, in an order that follows from the seed alone.

What is random about an image follows from (seed, epoch, index), and which images a batch has from (seed, epoch, position).
So batches do not depend on the number of workers, and a loader goes on anywhere without a replay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info

from opsmith_detection.config import DataConfig
from opsmith_detection.data.coco import CocoDataset, DataError, Objects
from opsmith_detection.data.masks import cut_out
from opsmith_detection.data.transforms import Geometry, canvas_of, scaled_size
from opsmith_detection.structures import Batch, Targets

__all__ = ["Loader"]


class Loader:
    """Batches on the CPU, in pinned memory where there is a GPU.

    In training it is endless; images are shuffled, resized and flipped at random, and have `Targets`. At each step all
    ranks have images of the same canvas. Otherwise, images come once and over all ranks, and the rest of a batch has the
    id -1.

    Workers are forked and never use CUDA: they decode, resize and cut masks out.

    Args:
        config: `batch` is the number of images on each rank.
        rank: the number of this process.
        world: how many processes there are.
        with_masks: whether `Targets` have masks.

    Raises:
        DataError: there are no images, masks are wanted and an object has none, or the seed is negative.
    """

    def __init__(
        self,
        dataset: CocoDataset,
        config: DataConfig,
        *,
        training: bool,
        seed: int,
        rank: int = 0,
        world: int = 1,
        with_masks: bool,
    ) -> None:
        if len(dataset) == 0:
            raise DataError(f"{dataset.annotations} has no images")
        if seed < 0:
            raise DataError(f"the seed is {seed}, expected 0 or more")
        if training and with_masks:
            dataset.check_masks()
        self._batches = _Batches(dataset, config, training, seed, rank, world, with_masks)
        self._next = 0

    def __len__(self) -> int:
        """Return how many batches an epoch has, the same on each rank."""
        return self._batches.per_epoch

    def __iter__(self) -> Iterator[Batch]:
        training, workers = self._batches.training, self._batches.config.workers
        batches = DataLoader(
            self._batches,
            batch_size=None,
            sampler=count(self._next) if training else range(len(self)),
            num_workers=workers,
            pin_memory=torch.cuda.is_available(),
            multiprocessing_context="fork" if workers else None,
        )
        for batch in batches:
            self._next += training
            yield batch

    def state(self) -> dict[str, int]:
        """Return where the loader is, after the last batch that it yielded, for `restore`."""
        epoch, position = divmod(self._next, len(self))
        return {"epoch": epoch, "position": position, **self._order_of()}

    def restore(self, state: dict[str, int]) -> None:
        """Let the next iteration begin where another loader was.

        Raises:
            DataError: batches are not the same: the data, the seed, or the images of a step are others.
        """
        if {key: state[key] for key in self._order_of()} != self._order_of():
            raise DataError(f"cannot go on from {state}: the order of batches is now that of {self._order_of()}")
        self._next = state["epoch"] * len(self) + state["position"]

    def _order_of(self) -> dict[str, int]:
        batches = self._batches
        return {"seed": batches.seed, "images": len(batches.dataset), "of_a_step": batches.of_a_step}


@dataclass
class _Batches(Dataset[Batch]):
    """The batches of a rank by number, over all epochs."""

    dataset: CocoDataset
    config: DataConfig
    training: bool
    seed: int
    rank: int
    world: int
    with_masks: bool

    def __post_init__(self) -> None:
        self.of_a_step = self.config.batch * self.world
        sizes = self.dataset.sizes.tolist()
        self._canvas_of = np.array([canvas_of((h, w), self.config.canvases) for h, w in sizes])
        self._order = (0, self._ordered(0))
        self.per_epoch = len(self._order[1])

    def __getitem__(self, number: int) -> Batch:
        epoch, position = divmod(number, self.per_epoch)
        if self._order[0] != epoch:
            self._order = (epoch, self._ordered(epoch))
        step = self._order[1][position]
        mine = step[self.rank * self.config.batch : (self.rank + 1) * self.config.batch]
        return self._made(mine.tolist(), self.config.canvases[self._canvas_of[step[0]]], epoch)

    def _ordered(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return the images of all steps of all ranks: [steps, of_a_step]; -1 is none."""
        random = np.random.default_rng((self.seed, epoch))
        images = np.arange(len(self.dataset))
        if self.training:
            random.shuffle(images)
        steps = []
        for canvas in range(len(self.config.canvases)):
            chosen = images[self._canvas_of[images] == canvas]
            missing = -len(chosen) % self.of_a_step
            # In training, the last step of a canvas is filled from its first.
            more = np.resize(chosen, missing) if self.training else np.full(missing, -1)
            steps.append(np.concatenate([chosen, more]).reshape(-1, self.of_a_step))
        ordered = np.concatenate(steps)
        if self.training:
            random.shuffle(ordered)
        return ordered

    def _made(self, indices: list[int], canvas: tuple[int, int], epoch: int) -> Batch:
        images = _zeros(len(indices), 3, *canvas, dtype=torch.uint8)
        sizes = torch.tensor([canvas] * len(indices), dtype=torch.float32)
        ids = torch.full((len(indices),), -1)
        targets = self._no_targets(len(indices)) if self.training else None
        for place, index in enumerate(indices):
            if index < 0:
                continue
            geometry = self._geometry(index, canvas, epoch)
            height, width = geometry.size
            images[place, :, :height, :width] = geometry.image(self.dataset.image(index))
            sizes[place] = torch.tensor(geometry.size)
            ids[place] = self.dataset.ids[index]
            if targets is not None:
                self._fill(targets, place, self.dataset.objects(index), geometry)
        return Batch(images, sizes, ids, targets)

    def _geometry(self, index: int, canvas: tuple[int, int], epoch: int) -> Geometry:
        config = self.config
        shorter_side, flip = config.shorter_sides[-1], False
        if self.training:
            random = np.random.default_rng((self.seed, epoch, index))
            shorter_side = config.shorter_sides[int(random.integers(len(config.shorter_sides)))]
            flip = bool(random.random() < config.flip)
        height, width = self.dataset.sizes[index].tolist()
        size = scaled_size((height, width), shorter_side, config.longest_side, canvas)
        return Geometry((height, width), size, flip)

    def _no_targets(self, images: int) -> Targets:
        objects, resolution = self.config.max_objects, self.config.mask_resolution
        return Targets(
            torch.zeros(images, objects, 4),
            torch.zeros(images, objects, dtype=torch.int64),
            _zeros(images, objects, resolution, resolution, dtype=torch.uint8) if self.with_masks else None,
        )

    def _fill(self, targets: Targets, place: int, objects: Objects, geometry: Geometry) -> None:
        boxes = objects.boxes
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        # Where there are too many, the largest, in the file's order.
        kept = np.sort(np.argsort(-areas, kind="stable")[: self.config.max_objects])
        targets.boxes[place, : len(kept)] = torch.from_numpy(geometry.boxes(boxes[kept]))
        targets.labels[place, : len(kept)] = torch.from_numpy(objects.labels[kept])
        if targets.masks is not None:
            for i, which in enumerate(kept.tolist()):
                segmentation, box = objects.segmentations[which], boxes[which]
                mask = cut_out(segmentation, geometry.original, box, self.config.mask_resolution)
                targets.masks[place, i] = torch.from_numpy(mask[:, ::-1].copy() if geometry.flip else mask)


def _zeros(*shape: int, dtype: torch.dtype) -> Tensor:
    """Return zeros, in a worker those that the main process will see: what is made elsewhere is copied there."""
    tensor = torch.empty(shape, dtype=dtype)
    if get_worker_info() is not None:
        tensor.share_memory_()
    return tensor.zero_()
