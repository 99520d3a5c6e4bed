"""Batches of one canvas each, in an order that follows from the seed alone.

What is random about an image follows from (seed, epoch, index), and which images a batch has from (seed, epoch, position).
So batches do not depend on the number of workers, and a loader goes on anywhere without a replay.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info

from opsmith_detection.config import DataConfig
from opsmith_detection.data.coco import CocoDataset, DataError
from opsmith_detection.data.masks import cut_out
from opsmith_detection.data.transforms import Geometry, canvas_of, scaled_size
from opsmith_detection.structures import Batch, Targets

__all__ = ["Loader"]


class Loader(Dataset[Batch]):
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
        self._dataset, self._config, self._training, self._with_masks = dataset, config, training, with_masks
        self._mine = slice(rank * config.batch, (rank + 1) * config.batch)  # of the images of a step
        self._source = {"seed": seed, "images": len(dataset), "of_a_step": config.batch * world}
        self._canvas_of = np.array([canvas_of((h, w), config.canvases) for h, w in dataset.sizes.tolist()])
        self._order = (0, self._ordered(0))
        self._next = 0

    def __len__(self) -> int:
        """Return how many batches an epoch has, the same on each rank."""
        return len(self._order[1])

    def __iter__(self) -> Iterator[Batch]:
        batches = DataLoader(
            self,
            batch_size=None,
            sampler=count(self._next) if self._training else range(len(self)),
            num_workers=self._config.workers,
            pin_memory=torch.cuda.is_available(),
            multiprocessing_context="fork" if self._config.workers else None,
        )
        for batch in batches:
            self._next += self._training
            yield batch

    def __getitem__(self, number: int) -> Batch:
        """Make a batch of this rank by its number, over all epochs."""
        epoch, position = divmod(number, len(self))
        if self._order[0] != epoch:
            self._order = (epoch, self._ordered(epoch))
        indices = self._order[1][position]
        canvas = self._config.canvases[self._canvas_of[indices[0]]]
        batch = self._empty(canvas)
        for place, index in enumerate(indices[self._mine].tolist()):
            if index >= 0:
                self._fill(batch, place, index, epoch)
        return batch

    def state(self) -> dict[str, int]:
        """Return where the loader is, after the last batch that it yielded, for `restore`."""
        epoch, position = divmod(self._next, len(self))
        return {"epoch": epoch, "position": position, **self._source}

    def restore(self, state: dict[str, int]) -> None:
        """Let the next iteration begin where another loader was.

        Raises:
            DataError: batches are not the same: the data, the seed, or the images of a step are others.
        """
        if not self._source.items() <= state.items():
            raise DataError(f"cannot go on from {state}: the order of batches is now that of {self._source}")
        self._next = state["epoch"] * len(self) + state["position"]

    def _ordered(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return the images of all steps of all ranks: [steps, of_a_step]; -1 is none."""
        random = np.random.default_rng((self._source["seed"], epoch))
        images, of_a_step = np.arange(len(self._dataset)), self._source["of_a_step"]
        if self._training:
            random.shuffle(images)
        steps = []
        for canvas in range(len(self._config.canvases)):
            chosen = images[self._canvas_of[images] == canvas]
            missing = -len(chosen) % of_a_step
            # In training, the last step of a canvas is filled from its first.
            more = np.resize(chosen, missing) if self._training else np.full(missing, -1)
            steps.append(np.concatenate([chosen, more]).reshape(-1, of_a_step))
        ordered = np.concatenate(steps)
        if self._training:
            random.shuffle(ordered)
        return ordered

    def _empty(self, canvas: tuple[int, int]) -> Batch:
        images, objects, resolution = self._config.batch, self._config.max_objects, self._config.mask_resolution
        masks = _zeros(images, objects, resolution, resolution) if self._training and self._with_masks else None
        targets = Targets(torch.zeros(images, objects, 4), torch.zeros(images, objects, dtype=torch.int64), masks)
        sizes = torch.tensor([canvas] * images, dtype=torch.float32)
        ids = torch.full((images,), -1)
        return Batch(_zeros(images, 3, *canvas), sizes, ids, targets if self._training else None)

    def _fill(self, batch: Batch, place: int, index: int, epoch: int) -> None:
        """Put an image and its objects into a batch."""
        config, canvas = self._config, (batch.images.shape[2], batch.images.shape[3])
        shorter_side, flip = config.shorter_sides[-1], False
        if self._training:
            random = np.random.default_rng((self._source["seed"], epoch, index))
            shorter_side = config.shorter_sides[int(random.integers(len(config.shorter_sides)))]
            flip = bool(random.random() < config.flip)
        height, width = self._dataset.sizes[index].tolist()
        size = scaled_size((height, width), shorter_side, config.longest_side, canvas)
        geometry = Geometry((height, width), size, flip)
        batch.images[place, :, : size[0], : size[1]] = geometry.image(self._dataset.image(index))
        batch.sizes[place] = torch.tensor(size)
        batch.ids[place] = self._dataset.ids[index]
        if batch.targets is None:
            return
        boxes, labels, segmentations = self._dataset.objects(index)
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        # Where there are too many, the largest, in the file's order.
        kept = np.sort(np.argsort(-areas, kind="stable")[: config.max_objects])
        batch.targets.boxes[place, : len(kept)] = torch.from_numpy(geometry.boxes(boxes[kept]))
        batch.targets.labels[place, : len(kept)] = torch.from_numpy(labels[kept])
        if batch.targets.masks is not None:
            for i, which in enumerate(kept.tolist()):
                mask = cut_out(segmentations[which], geometry.original, boxes[which], config.mask_resolution)
                batch.targets.masks[place, i] = torch.from_numpy(mask[:, ::-1].copy() if flip else mask)


def _zeros(*shape: int) -> Tensor:
    """Return uint8 zeros, in a worker those that the main process will see: what is made elsewhere is copied there."""
    tensor = torch.empty(shape, dtype=torch.uint8)
    if get_worker_info() is not None:
        tensor.share_memory_()
    return tensor.zero_()
