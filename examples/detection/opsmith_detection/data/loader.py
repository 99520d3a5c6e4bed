"""Batches of one canvas each, in an order that follows from the seed alone.

What is random about an image follows from (seed, epoch, index), and which images a batch has from (seed, epoch, position).
So batches do not depend on the number of workers, and a loader goes on anywhere without a replay.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset

from opsmith_detection.config import DataConfig
from opsmith_detection.data.coco import CocoDataset, DataError
from opsmith_detection.data.masks import cut_out
from opsmith_detection.data.transforms import canvas_of, resized, scaled_size
from opsmith_detection.structures import Batch, Targets

__all__ = ["Loader"]


class Loader:
    """Batches on the CPU, in pinned memory where there is a GPU.

    In training it is endless, images are shuffled, resized and flipped at random, and batches have `Targets`; ranks see
    different images of the same canvas. Otherwise it yields each image once, over all ranks; images that fill a batch up
    have the id -1.

    Args:
        rank, world: this process and how many there are. `config.batch` images come to each.
        with_masks: whether `Targets` have masks.

    Raises:
        DataError: there are no images.
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
        self._batches = _Batches(dataset, config, training, seed, rank, world, with_masks)
        self._workers = config.workers
        self._training = training
        self._next = 0

    def __len__(self) -> int:
        """How many batches an epoch has on each rank."""
        return self._batches.per_epoch

    def __iter__(self) -> Iterator[Batch]:
        numbers = count(self._next) if self._training else range(len(self))
        loaded = DataLoader(
            self._batches,
            batch_size=None,
            sampler=numbers,
            num_workers=self._workers,
            pin_memory=torch.cuda.is_available(),
            multiprocessing_context="fork" if self._workers else None,
        )
        for batch in loaded:
            if self._training:
                self._next += 1
            yield batch

    def state(self) -> dict[str, int]:
        """Return where the loader is: after the last batch that it yielded."""
        epoch, position = divmod(self._next, len(self))
        return {"epoch": epoch, "position": position}

    def restore(self, state: dict[str, int]) -> None:
        """Let the next iteration begin where another loader was, with the same data, seed and number of ranks."""
        self._next = state["epoch"] * len(self) + state["position"]


class _Batches(Dataset[Batch]):
    """The batches of a rank by number, over all epochs."""

    def __init__(
        self,
        dataset: CocoDataset,
        config: DataConfig,
        training: bool,
        seed: int,
        rank: int,
        world: int,
        with_masks: bool,
    ) -> None:
        self._dataset, self._config, self._training, self._seed = dataset, config, training, seed
        self._with_masks = with_masks
        self._rank, self._world = rank, world
        self._canvas_of = np.array([canvas_of((h, w), config.canvases) for h, w in dataset.sizes.tolist()])
        self._order: tuple[int, npt.NDArray[np.int64]] = (0, self._ordered(0))
        self.per_epoch = len(self._order[1])

    def __getitem__(self, number: int) -> Batch:
        epoch, position = divmod(number, self.per_epoch)
        if self._order[0] != epoch:
            self._order = (epoch, self._ordered(epoch))
        everyone = self._order[1][position]
        mine = everyone[self._rank * self._config.batch : (self._rank + 1) * self._config.batch]
        return self._made(mine.tolist(), self._config.canvases[self._canvas_of[everyone[0]]], epoch)

    def _ordered(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return the images of each step of all ranks: [steps, batch * world]; -1 is none."""
        size = self._config.batch * self._world
        random = np.random.default_rng((self._seed, epoch))
        images = random.permutation(len(self._canvas_of)) if self._training else np.arange(len(self._canvas_of))
        steps = []
        for canvas in range(len(self._config.canvases)):
            of_canvas = images[self._canvas_of[images] == canvas]
            missing = -len(of_canvas) % size
            # A training's last batch of a canvas is filled from its first.
            more = np.resize(of_canvas, missing) if self._training else np.full(missing, -1)
            steps.append(np.concatenate([of_canvas, more]).reshape(-1, size))
        all_steps = np.concatenate(steps)
        return random.permutation(all_steps) if self._training else all_steps

    def _made(self, indices: list[int], canvas: tuple[int, int], epoch: int) -> Batch:
        config, count = self._config, len(indices)
        images = torch.zeros(count, *canvas, 3, dtype=torch.uint8).permute(0, 3, 1, 2)
        sizes = torch.tensor([canvas] * count, dtype=torch.float32)
        ids = torch.full((count,), -1)
        boxes = torch.zeros(count, config.max_objects, 4)
        labels = torch.zeros(count, config.max_objects, dtype=torch.int64)
        resolution = config.mask_resolution
        masks = None
        if self._with_masks:
            masks = torch.zeros(count, config.max_objects, resolution, resolution, dtype=torch.uint8)
        for place, index in enumerate(indices):
            if index < 0:
                continue
            random = np.random.default_rng((self._seed, epoch, index))
            shorter_side = int(random.choice(config.shorter_sides)) if self._training else config.shorter_sides[-1]
            flip = bool(random.random() < config.flip) if self._training else False
            height, width = self._dataset.sizes[index].tolist()
            new = scaled_size((height, width), shorter_side, config.longest_side, canvas)
            images[place, :, : new[0], : new[1]] = resized(self._dataset.image(index), new, flip)
            sizes[place] = torch.tensor(new)
            ids[place] = self._dataset.ids[index]
            objects = self._dataset.objects(index)
            kept = slice(config.max_objects)
            found = torch.from_numpy(objects.boxes[kept]) * torch.tensor([new[1] / width, new[0] / height] * 2)
            if flip:
                found = torch.stack([new[1] - found[:, 2], found[:, 1], new[1] - found[:, 0], found[:, 3]], 1)
            boxes[place, : len(found)] = found
            labels[place, : len(found)] = torch.from_numpy(objects.labels[kept])
            if masks is not None:
                for i, segmentation in enumerate(objects.segmentations[kept]):
                    mask: Any = cut_out(segmentation, (height, width), objects.boxes[i], resolution)
                    masks[place, i] = torch.from_numpy(mask[:, ::-1].copy() if flip else mask)
        return Batch(images, sizes, ids, Targets(boxes, labels, masks) if self._training else None)
