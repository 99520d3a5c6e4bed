"""Definitions that between them use every part of the generator; `expected/` holds what comes out of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jaxtyping import Bool, Float, Float32, Int, Int64
from torch import Tensor

from opsmith.spec.annotations import Choices, read_signature
from opsmith.spec.definition import Definition, Device, Kernel
from opsmith.spec.gradient import wire_backward
from opsmith.spec.skippable import mark_unneeded_gradients

ROOT = Path("/project")


def define(function: Callable[..., Any], kernels: dict[Device, Kernel], choices: Choices | None = None) -> Definition:
    return Definition(
        "shop",
        read_signature(function, choices or Choices()),
        kernels,
        function,
        "shop.ops",
        ROOT / "ops.py",
        12,
        function.__doc__ or "",
    )


def view(file: str, entry: str) -> Kernel:
    return Kernel("view", (ROOT / file,), entry)


def pooled(
    levels: list[Float[Tensor, "B C _ _"]],
    boxes: Float32[Tensor, "R 4"],
    batch: Int[Tensor, "R"],
    weight: Float[Tensor, "C K"] | None,
    pooled_h: int,
    scale: float = 0.5,
    *,
    mode: str = 'say "so"',
    pads: list[int] = [0, 1],  # noqa: B006 - a definition's default is never changed
    limit: float | None = None,
) -> tuple[Float[Tensor, "R C pooled_h (C+pooled_h)//2"], Int64[Tensor, "R"]]:
    """Pool boxes from a pyramid."""


def blend(mask: Bool[Tensor, "*n"] | None, x: Float[Tensor, "*n"], y: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """Blend x into y, and write to x."""


def kept(
    boxes: Float[Tensor, "*b N 4"], scores: Float[Tensor, "*b N"]
) -> tuple[Int64[Tensor, "K"], Float[Tensor, "K"]]:
    """Which boxes are kept."""


def gained(x: Float[Tensor, "B C H W"], gain: Float[Tensor, "C"]) -> Float[Tensor, "B C H W"]:
    """Scale every channel."""


def gained_backward(
    grad_out: Float[Tensor, "B C H W"] | None,
    x: Float[Tensor, "B C H W"],
    gain: Float[Tensor, "C"],
    needs_grad_x: bool,
    needs_grad_gain: bool,
) -> tuple[Float[Tensor, "B C H W"], Float[Tensor, "C"]]:
    """The gradients that are needed of a scaling of every channel."""


POOLED = define(
    pooled,
    {"cpu": view("kernels/pool.cpp", "pooled"), "cuda": view("kernels/pool.cu", "shop::pooled")},
    Choices(outputs=("out", "argmax"), saved=frozenset({"argmax"}), dtypes={"T": ("bfloat16", "float32")}),
)
BLEND = define(
    blend,
    {"cpu": view("blend.cpp", "blend")},
    Choices(mutates=frozenset({"x"}), dtypes={"T": ("float32",)}),
)
KEPT = define(
    kept,
    {"cpu": Kernel("native", (ROOT / "kept.cpp",), "kept"), "cuda": Kernel("native", (ROOT / "kept.cpp",), "kept")},
)


def _gained_backward() -> Definition:
    """A backward that can leave gradients out, with a kernel of each style."""
    choices = Choices(outputs=("grad_x", "grad_gain"), preserve_format={"grad_x": "x"}, dtypes={"T": ("float32",)})
    kernels: dict[Device, Kernel] = {
        "cpu": view("gained.cpp", "gained_backward"),
        "cuda": Kernel("native", (ROOT / "gained_cuda.cpp",), "gained_backward"),
    }
    backward = define(gained_backward, kernels, choices)
    wiring = wire_backward(read_signature(gained, Choices(dtypes={"T": ("float32",)})), backward.signature)
    return replace(backward, signature=mark_unneeded_gradients(backward.signature, wiring))


GAINED_BACKWARD = _gained_backward()


@dataclass(frozen=True)
class Window:
    """Every kind of field, two of one type side by side."""

    size: int
    step: int
    gain: float = 1.0
    is_causal: bool = False
    name: str = "hann"
    pad: int | None = None
    limit: float | None = None


@dataclass(frozen=True)
class _Scale:
    factor: float = 0.5
    double: bool = False


def windowed(x: Float[Tensor, "N"], window: Window, flip: bool, *, scale: _Scale) -> Float[Tensor, "N+size"]:
    """Cut a signal into windows."""


WINDOWED = define(
    windowed,
    {"cpu": view("windowed.cpp", "windowed"), "cuda": view("windowed.cu", "shop::windowed")},
    Choices(dtypes={"T": ("float32", "float64")}),
)
WINDOWED_NATIVE = define(windowed, {"cpu": Kernel("native", (ROOT / "windowed.cpp",), "windowed")})
