"""Batches of one canvas each, in an order that follows from the seed alone.

What is random about an image follows from (seed, epoch, index), and which images a batch has from (seed, epoch, position).
So batches do not depend on the number of workers, and a loader goes on anywhere without a replay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset

from opsmith_detection.config import Config
from opsmith_detection.data.coco import CocoDataset, DataError
from opsmith_detection.data.masks import cut_out
from opsmith_detection.data.transforms import canvas_of, flip_boxes, put_image
from opsmith_detection.engine.distributed import World
from opsmith_detection.structures import Batch, Targets

__all__ = ["Batches", "load"]


class Batches(Dataset["Batch | DataError"]):
    """Batches by their numbers.

    In training they are endless; images are shuffled, resized and flipped at random, and have `Targets`. At each step all
    ranks have images of the same canvas. Otherwise, images come once and over all ranks, and the rest of a batch has the
    id -1.

    Raises:
        DataError: there are no images, or the model has masks and an object has none.
    """

    def __init__(self, dataset: CocoDataset, config: Config, world: World, *, training: bool) -> None:
        if len(dataset) == 0:
            raise DataError(f"{dataset.annotations} has no images")
        self.dataset, self.config, self.training = dataset, config.data, training
        self.with_masks = config.model.has_masks
        if self.with_masks:
            dataset.check_masks(with_crowds=not training)
        self.next = 0
        """The number of the batch that `load` gives next."""
        batch = self.config.batch
        self._seed, self._of_a_step = config.seed, batch * world.size
        self._mine = slice(world.rank * batch, (world.rank + 1) * batch)  # of the images of a step
        self._canvas_of = np.array([canvas_of((h, w), self.config.canvases) for h, w in dataset.sizes.tolist()])
        self._order = (0, self._ordered(0))

    def __len__(self) -> int:
        """Return how many batches an epoch has, the same on each rank."""
        return len(self._order[1])

    def __getitem__(self, number: int) -> Batch | DataError:
        """Make a batch of this rank by its number, over all epochs.

        What is wrong with an image is returned: raised in a worker, it would arrive as the text of a traceback.
        """
        epoch, position = divmod(number, len(self))
        if self._order[0] != epoch:
            self._order = (epoch, self._ordered(epoch))
        indices = self._order[1][position]
        batch = self._empty(self.config.canvases[self._canvas_of[indices[0]]])
        try:
            for place, index in enumerate(indices[self._mine].tolist()):
                if index >= 0:
                    self._fill(batch, place, index, epoch)
        except DataError as error:
            return error
        return batch

    def state(self) -> dict[str, Any]:
        """Return which batch comes next, and what the order of batches follows from, for `restore`."""
        epoch, position = divmod(self.next, len(self))
        return {"epoch": epoch, "position": position, **self._source()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Let the batch come next that would have come next elsewhere.

        Raises:
            DataError: batches are not the same: the data, the seed, the canvases or the images of a step are others.
        """
        changed = {name: value for name, value in self._source().items() if state[name] != value}
        if changed:
            before = {name: state[name] for name in changed}
            raise DataError(
                f"cannot go on from batches of {before} with {changed}, which puts them in another order: resume with what "
                "the run started with, or start another run with output=FOLDER"
            )
        self.next = state["epoch"] * len(self) + state["position"]

    def _source(self) -> dict[str, Any]:
        canvases = self.config.canvases
        return {"seed": self._seed, "images": len(self.dataset), "of_a_step": self._of_a_step, "canvases": canvases}

    def _ordered(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return the images of all steps of all ranks: [steps, of_a_step]; -1 is none."""
        random = np.random.default_rng((self._seed, epoch))
        images = np.arange(len(self.dataset))
        if self.training:
            random.shuffle(images)
        steps = []
        for canvas in range(len(self.config.canvases)):
            chosen = images[self._canvas_of[images] == canvas]
            missing = -len(chosen) % self._of_a_step
            # In training, the last step of a canvas is filled from its first.
            more = np.resize(chosen, missing) if self.training else np.full(missing, -1)
            steps.append(np.concatenate([chosen, more]).reshape(-1, self._of_a_step))
        ordered = np.concatenate(steps)
        if self.training:
            random.shuffle(ordered)
        return ordered

    def _empty(self, canvas: tuple[int, int]) -> Batch:
        images, objects, resolution = self.config.batch, self.config.max_objects, self.config.mask_resolution
        targets = None
        if self.training:
            shape = (images, objects, resolution, resolution)
            masks = torch.zeros(shape, dtype=torch.uint8) if self.with_masks else None
            targets = Targets(torch.zeros(images, objects, 4), torch.zeros(images, objects, dtype=torch.int64), masks)
        sizes = torch.tensor([canvas] * images, dtype=torch.float32)
        pixels = torch.zeros(images, 3, *canvas, dtype=torch.uint8)
        return Batch(pixels, sizes, torch.full((images,), -1), targets)

    def _fill(self, batch: Batch, place: int, index: int, epoch: int) -> None:
        """Put an image and its objects into a batch."""
        config = self.config
        shorter_side, flip = config.shorter_sides[-1], False
        if self.training:
            random = np.random.default_rng((self._seed, epoch, index))
            shorter_side = config.shorter_sides[int(random.integers(len(config.shorter_sides)))]
            flip = bool(random.random() < config.flip)
        pixels = self.dataset.image(index)
        height, width = pixels.shape[0], pixels.shape[1]
        shown = pixels[:, ::-1].copy() if flip else pixels
        scales = put_image(batch, place, shown, shorter_side, config.longest_side)
        batch.ids[place] = self.dataset.ids[index]
        if batch.targets is None:
            return
        boxes, labels, segmentations = self.dataset.objects(index)
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        # Where there are too many, the largest, in the file's order.
        largest = np.sort(np.argsort(-areas, kind="stable")[: config.max_objects])
        shown_boxes = scales * (flip_boxes(boxes[largest], width) if flip else boxes[largest])
        batch.targets.boxes[place, : len(largest)] = torch.from_numpy(shown_boxes)
        batch.targets.labels[place, : len(largest)] = torch.from_numpy(labels[largest])
        if batch.targets.masks is not None:
            for i, which in enumerate(largest.tolist()):
                mask = cut_out(segmentations[which], (height, width), boxes[which], config.mask_resolution)
                batch.targets.masks[place, i] = torch.from_numpy(mask[:, ::-1].copy() if flip else mask)


def load(batches: Batches) -> Iterator[Batch]:
    """Give the batches from `batches.next` on, on the CPU, in pinned memory where there is a GPU.

    Workers make them: they are forked and never use CUDA.

    Raises:
        DataError: an image cannot be read, or is not as the JSON file says.
    """
    workers = batches.config.workers
    made = DataLoader(
        batches,
        batch_size=None,
        sampler=count(batches.next) if batches.training else range(len(batches)),
        num_workers=workers,
        pin_memory=torch.cuda.is_available(),
        multiprocessing_context="fork" if workers else None,
    )
    for batch in made:
        if isinstance(batch, DataError):
            raise batch
        batches.next += batches.training
        yield batch
