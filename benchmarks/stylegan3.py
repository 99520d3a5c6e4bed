"""Times filtered_lrelu against StyleGAN3's own CUDA kernels, on every layer of its generators.

    git clone https://github.com/NVlabs/stylegan3
    python benchmarks/stylegan3.py stylegan3 --output benchmarks/results/stylegan3.json

The calls are those that the generators themselves make: configurations T and R are built from the checkout with random
weights, and what one image needs is recorded. Layers that differ in nothing but values are timed once. StyleGAN3's kernels
are compiled by its own code; their licence is NVIDIA's and forbids commercial use. `--list` prints the calls, without a GPU.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import packaging.version
import torch
import torch.utils.cpp_extension

from opsmith.ops import filtered_lrelu
from turns import compare_clocks, record

# As the README of StyleGAN3 trains them.
CONFIGURATIONS = {
    "T": {"channel_base": 32768, "channel_max": 512},
    "R": {"channel_base": 65536, "channel_max": 1024, "conv_kernel": 1, "use_radial_filters": True},
}


def main() -> None:
    """Time all calls of the configurations asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of StyleGAN3")
    parser.add_argument("--configuration", action="append", choices=CONFIGURATIONS, help="may be repeated")
    parser.add_argument("--resolution", type=int, default=1024, help="of the images that are generated")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--list", action="store_true", help="print the calls, and time nothing")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    networks = load_networks(options.checkout)
    calls = [
        (f"{name} {layers}", call)
        for name in options.configuration or CONFIGURATIONS
        for layers, call in recorded(networks, name, options.resolution)
    ]
    if options.list:
        print("\n".join(f"{layers}: {described(call)}" for layers, call in calls))
        return
    if not torch.cuda.is_available():
        sys.exit("StyleGAN3's kernels need a GPU, and PyTorch finds none: --list works without one")
    theirs = functools.partial(networks.filtered_lrelu.original, impl="cuda")
    rows = rows_of(calls, theirs, options.batch, options.rounds)
    record(rows, "cuda", options.output, summary)


def load_networks(checkout: Path) -> Any:
    """Import the networks of a checkout, whose calls of filtered_lrelu go through `filtered_lrelu.replaced`."""
    if not (checkout / "training" / "networks_stylegan3.py").is_file():
        sys.exit(f"{checkout} is not a checkout of StyleGAN3: it has no training/networks_stylegan3.py")
    # It asks a package that setuptools no longer has for torch's version.
    versions: Any = types.ModuleType("pkg_resources")
    versions.parse_version = packaging.version.parse
    sys.modules.setdefault("pkg_resources", versions)
    # Its loader imports by its name what PyTorch has built, which PyTorch does not put among the modules any more.
    torch.utils.cpp_extension.load = functools.partial(_load_as_module, torch.utils.cpp_extension.load)
    sys.path.insert(0, str(checkout))
    networks: Any = importlib.import_module("training.networks_stylegan3")
    networks.filtered_lrelu.original = networks.filtered_lrelu.filtered_lrelu
    return networks


def _load_as_module(load: Callable[..., Any], name: str, **options: Any) -> Any:
    sys.modules[name] = load(name=name, **options)
    return sys.modules[name]


def recorded(networks: Any, configuration: str, resolution: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the different calls of a generator for one image, each with the layers that make it."""
    found: dict[str, tuple[list[str], dict[str, Any]]] = {}
    names: list[str] = []

    def note(x: torch.Tensor, **arguments: Any) -> torch.Tensor:
        call = {"x": x, **arguments}
        found.setdefault(described(call), ([], call))[0].append(names.pop(0))
        return filtered_lrelu(x, **{name: value for name, value in arguments.items() if name != "impl"})

    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = networks.Generator(
        z_dim=512, c_dim=0, w_dim=512, img_resolution=resolution, img_channels=3, **CONFIGURATIONS[configuration]
    ).to(device)
    names += generator.synthesis.layer_names
    networks.filtered_lrelu.filtered_lrelu = note
    try:
        with torch.no_grad():
            generator(torch.randn(1, 512, device=device), None)
    finally:
        networks.filtered_lrelu.filtered_lrelu = networks.filtered_lrelu.original
    for layers, call in found.values():
        yield " ".join(layers), call


def described(call: dict[str, Any]) -> str:
    """Return all of a call that is not values."""
    taps = " and ".join(
        "x".join(map(str, call[name].shape)) if call[name] is not None else "no" for name in ("fu", "fd")
    )
    shape = "x".join(map(str, call["x"].shape[1:]))
    clamp = "no clamp" if call["clamp"] is None else f"clamp {call['clamp']:g}"
    kind = str(call["x"].dtype).removeprefix("torch.")
    return (
        f"{shape} {kind}, up {call['up']}, down {call['down']}, {taps} taps, padding {list(call['padding'])}, "
        f"gain {call['gain']:.3g}, slope {call['slope']:g}, {clamp}"
    )


def rows_of(
    calls: list[tuple[str, dict[str, Any]]], theirs: Callable[..., torch.Tensor], batch: int, rounds: int
) -> Iterator[dict[str, Any]]:
    """Yield the times of each call, forward and backward."""
    for layers, call in calls:
        arguments = {name: value for name, value in call.items() if name not in ("x", "b", "impl")}
        x = torch.randn(batch, *call["x"].shape[1:], device="cuda").to(call["x"].dtype).requires_grad_()
        b = call["b"].detach().clone().requires_grad_()
        contenders = {
            "opsmith": lambda: filtered_lrelu(x, b=b, **arguments),  # noqa: B023 -- called in this turn of the loop
            "StyleGAN3": lambda: theirs(x=x, b=b, **arguments),  # noqa: B023
        }
        agree(contenders, x, b)
        phases = {"forward": without_gradient, "backward": backward_of, "forward and backward": both_of}
        for phase, prepare in phases.items():
            prepared = {name: prepare(function, x, b) for name, function in contenders.items()}
            for function in prepared.values():
                function()
            row = {"layers": layers, "call": described(call), "batch": batch, "phase": phase}
            yield row | compare_clocks(prepared, range(rounds), "cuda")


def agree(contenders: dict[str, Callable[[], torch.Tensor]], x: torch.Tensor, b: torch.Tensor) -> None:
    """End the program where results or gradients differ by more than their type explains."""
    results = []
    gradient: torch.Tensor | None = None  # of both signs: a sum over an image of ones is too large for float16
    for function in contenders.values():
        y = function()
        gradient = torch.randn_like(y) if gradient is None else gradient
        results.append((y.detach(), *torch.autograd.grad(y, (x, b), gradient)))
    tolerance = 2e-2 if x.dtype == torch.float16 else 1e-3
    for ours, other in zip(*results, strict=True):
        difference = (ours.double() - other.double()).norm() / other.double().norm()
        if not difference < tolerance:
            sys.exit(f"the results differ by {difference:.2g} of their norm; {tolerance:.2g} is allowed")


def without_gradient(function: Callable[[], torch.Tensor], x: torch.Tensor, b: torch.Tensor) -> Callable[[], Any]:
    """Return the forward alone."""

    def call() -> torch.Tensor:
        with torch.no_grad():
            return function()

    return call


def backward_of(function: Callable[[], torch.Tensor], x: torch.Tensor, b: torch.Tensor) -> Callable[[], Any]:
    """Return the gradients of the input and the bias."""
    y = function()
    gradient = torch.randn_like(y)
    return lambda: torch.autograd.grad(y, (x, b), gradient, retain_graph=True)


def both_of(function: Callable[[], torch.Tensor], x: torch.Tensor, b: torch.Tensor) -> Callable[[], Any]:
    """Return both, as a step of training has them: StyleGAN3's forward keeps the signs then."""
    gradient = torch.randn_like(function())
    return lambda: torch.autograd.grad(function(), (x, b), gradient)


def summary(row: dict[str, Any]) -> str:
    """Return a row's line."""
    times = {name: seconds["median"] * 1e6 for name, seconds in row["seconds"].items()}
    faster = row["times_faster"]["StyleGAN3"]["median"]
    spelled = ", ".join(f"{name} {value:,.0f} us" for name, value in times.items())
    return f"{row['layers']}, {row['phase']}: {spelled}: {faster:.2f}x   ({row['call']})"


if __name__ == "__main__":
    main()
