"""Trains a small StyleGAN2 to draw handwritten digits of a given class."""

from __future__ import annotations

import copy
import statistics
import time

import sklearn.datasets
import sklearn.neighbors
import torch
from builds import REFERENCE
from gan_networks import Discriminator, Generator
from side_by_side import Example, Length, Result, run
from torch import Tensor, nn

from opsmith.ops.upfirdn2d import setup_filter, upsample2d

LATENTS = 32
CHANNELS = 16
SIZE = 16
BATCH = 32
RATE = 0.0025
PENALTY = 0.1  # the weight of R1
KEPT = 0.99  # of the generator's moving average, at each step
COLUMNS = 20  # pictures beside each other


def load_digits() -> tuple[Tensor, Tensor]:
    """Return scikit-learn's 1,797 digits at twice their size, [N, 1, 16, 16] from -1 to 1, and their labels [N]."""
    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    pictures = torch.tensor(images, dtype=torch.get_default_dtype()).view(-1, 1, 8, 8) / 16
    return upsample2d(pictures, setup_filter([1, 3, 3, 1]), impl="ref") * 2 - 1, torch.tensor(labels)


def gradient_penalty(logits: Tensor, pictures: Tensor) -> Tensor:
    """Return R1, the mean squared gradient of the logits by real pictures (Mescheder et al., ICML 2018, equation 9).

    Its own gradient is one of second order.
    """
    (gradient,) = torch.autograd.grad(logits.sum(), pictures, create_graph=True)
    return gradient.square().sum(dim=(1, 2, 3)).mean()


class Painting:
    """One training: two networks that learn against each other, and the moving average of the one that draws."""

    def __init__(self, impl: str) -> None:
        torch.manual_seed(0)
        self.generator = Generator(LATENTS, 10, CHANNELS, SIZE, impl)
        self.discriminator = Discriminator(10, CHANNELS, SIZE, impl)
        self.average = copy.deepcopy(self.generator).requires_grad_(False)
        networks = (self.generator, self.discriminator)
        self.optimizers = [torch.optim.Adam(net.parameters(), lr=RATE, betas=(0.0, 0.99)) for net in networks]
        self.random = torch.Generator().manual_seed(0)

    def step(self, real: Tensor, labels: Tensor) -> tuple[float, float]:
        """Take one step of both networks; return the discriminator's loss (without the penalty) and the generator's."""
        z = torch.randn(len(real), LATENTS, generator=self.random)
        of_generator, of_discriminator = self.optimizers
        with torch.no_grad():
            drawn = self.generator(z, labels)
        real = real.clone().requires_grad_()
        found = self.discriminator(real, labels)
        told = nn.functional.softplus(self.discriminator(drawn, labels)).mean() + nn.functional.softplus(-found).mean()
        of_discriminator.zero_grad()
        (told + PENALTY / 2 * gradient_penalty(found, real)).backward()
        of_discriminator.step()

        self.discriminator.requires_grad_(False)
        fooled = nn.functional.softplus(-self.discriminator(self.generator(z, labels), labels)).mean()
        self.discriminator.requires_grad_(True)
        of_generator.zero_grad()
        fooled.backward()
        of_generator.step()
        with torch.no_grad():
            for kept, parameter in zip(self.average.parameters(), self.generator.parameters(), strict=True):
                kept.lerp_(parameter, 1 - KEPT)
        return told.item(), fooled.item()

    def draw(self, labels: Tensor, seed: int) -> Tensor:
        """Return what the averaged generator draws for labels [N], always from the same latents: [N, 1, 16, 16]."""
        z = torch.randn(len(labels), LATENTS, generator=torch.Generator().manual_seed(seed))
        return self.average(z, labels)


def strip(pictures: Tensor) -> list[list[int]]:
    """Return pictures [N, 1, H, W] beside each other as one of H rows, 0 to 255."""
    wide = pictures[:, 0].permute(1, 0, 2).flatten(1)
    rows: list[list[int]] = ((wide.clamp(-1, 1) + 1) * 127.5).round().int().tolist()
    return rows


def train(variant: str, length: Length) -> Result:
    """Train on all digits; the score says how many drawn ones the nearest real digit has the name of."""
    images, labels = load_digits()
    painting = Painting("ref" if variant == REFERENCE else "cuda")
    nearest = sklearn.neighbors.KNeighborsClassifier(1).fit(images.flatten(1), labels)
    asked = torch.arange(COLUMNS) * 10 // COLUMNS
    tested = torch.arange(200) % 10

    def score() -> float:
        named = torch.from_numpy(nearest.predict(painting.draw(tested, 1).flatten(1)))
        return (named == tested).double().mean().item()

    pictures = {"before": strip(painting.draw(asked, 0))}
    copy.deepcopy(painting).step(images[:BATCH], labels[:BATCH])  # what is loaded at the first call is not timed
    told, fooled, scores, times_ms = [], [], [], []
    for epoch in length:
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        for part in order.split(BATCH)[:-1][: length.steps]:
            started = time.perf_counter()
            losses = painting.step(images[part], labels[part])
            times_ms.append((time.perf_counter() - started) * 1e3)
            told.append(losses[0])
            fooled.append(losses[1])
        scores.append(score())
        done = epoch + 1
        if done & (done - 1) == 0 or done == length.epochs:
            pictures[f"{done} epoch{'s' if done > 1 else ''}"] = strip(painting.draw(asked, 0))
    chosen = [int((labels == digit).nonzero()[index]) for index, digit in enumerate(asked.tolist())]
    pictures["real"] = strip(images[chosen])
    losses_by_name = {"loss of the discriminator": told, "loss of the generator": fooled}
    return Result(losses_by_name, scores, statistics.median(times_ms), sum(times_ms) / 1e3, pictures=pictures)


if __name__ == "__main__":
    modules = ["opsmith.ops.bias_act.operator", "opsmith.ops.upfirdn2d.sized"]
    builds = ["jit", REFERENCE]
    run(Example("Digits, drawn", modules, "named right", 32, train, builds=builds))
