"""Trains an LLTM and an LSTM to predict the characters of Python's own reference manual."""

from __future__ import annotations

import math
from dataclasses import replace
from pydoc_data.topics import topics

import torch
from recurrent import MODULE, RIVAL, make_layer
from side_by_side import Example, Length, Result, fit, run
from torch import Tensor, nn

UNITS = 128
BATCH = 32
STEPS = 64
BATCHES = 60  # in an epoch


class Model(nn.Module):
    """Foretells each character from those before it."""

    def __init__(self, variant: str, characters: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, 32)
        self.recurrent = make_layer(variant, 32, UNITS)
        self.head = nn.Linear(UNITS, characters)

    def forward(self, text: Tensor) -> Tensor:
        """Return the logits [B, T, characters] of what follows each character of a text [B, T]."""
        return self.head(self.recurrent(self.embedding(text))[0])


def loss_of(logits: Tensor, following: Tensor) -> Tensor:
    """Return the mean cross entropy, in nats a character."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten())


def read_text() -> tuple[Tensor, list[str]]:
    """Return what `help("topics")` of Python knows as numbers of characters, and the characters."""
    text = "\n".join(topics[name] for name in sorted(topics))
    characters = sorted(set(text))
    number = {character: index for index, character in enumerate(characters)}
    return torch.tensor([number[character] for character in text]), characters


def train(variant: str, length: Length) -> Result:
    """Train on nine tenths of the text; the score is the bits that a character of the rest costs."""
    torch.manual_seed(0)
    text, characters = read_text()
    learned, held_out = text.split([len(text) * 9 // 10, len(text) - len(text) * 9 // 10])
    model = Model(variant, len(characters))
    held_out = held_out[: len(held_out) // 256 * 256 + 1][: 64 * 256 + 1]

    def batches(epoch: int) -> list[tuple[Tensor, Tensor]]:
        random = torch.Generator().manual_seed(epoch)
        begins = torch.randint(len(learned) - STEPS, (BATCHES, BATCH, 1), generator=random)
        pieces = learned[begins + torch.arange(STEPS + 1)]
        return [(piece[:, :-1], piece[:, 1:]) for piece in pieces]

    def bits() -> float:
        return loss_of(model(held_out[:-1].view(-1, 256)), held_out[1:].view(-1, 256)).item() / math.log(2)

    result = fit(model, batches, loss_of, bits, length=length, rate=0.005)
    return replace(result, note=f"It writes: {write(model, characters)}")


def write(model: Model, characters: list[str], count: int = 160) -> str:
    """Return text that a model makes up: each character drawn from what it foretells."""
    random = torch.Generator().manual_seed(0)
    written = torch.tensor([[characters.index("\n")]])
    with torch.no_grad():
        for _ in range(count):
            chances = torch.softmax(model(written)[0, -1], dim=0)
            written = torch.cat([written, torch.multinomial(chances, 1, generator=random).view(1, 1)], dim=1)
    return "".join(characters[index] for index in written[0, 1:].tolist())


if __name__ == "__main__":
    title = "Python's reference manual, character by character"
    run(Example(title, [MODULE], "bits a character", 6, train, rival=RIVAL))
