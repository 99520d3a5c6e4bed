"""Lists the properties: a row names one, and says how often it runs and where its code is.

A property is a function from a `Context` to an `Outcome`, in one of the modules of this package. Its name is what a
failure is called, so each class of defect has a name of its own, and a property looks at nothing that another one is
for: a kernel that ignores strides must not fail `value` too.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Literal

from opsmith.checker.outcome import Outcome
from opsmith.checker.properties.context import Context
from opsmith.errors import ArgumentError

__all__ = ["PROPERTIES", "Property", "chosen"]


@dataclass(frozen=True)
class Property:
    """A row of the report. `per` says whether it runs for each element type, or once on each device.

    On a GPU one that is `alone` has a process to itself: because it starts others, which could not use the GPU after it
    has, or because a defect spoils the GPU for the rest of the process. On the CPU one that is `fresh` has, where earlier
    calls would hide what it looks for, and one that needs `all_cores` runs when the other processes of the check are done,
    in the main element type at least.
    `imports` are modules that it has PyTorch import, which takes seconds. One that `differentiates` says nothing without
    autograd.

    Properties with a `weight` try as many inputs as there is time for, and share it by weight, in each column. The others
    take about `cost_s` for a small operator, imports included: a check with a limit leaves out what costs too much.
    """

    name: str
    title: str
    where: str  # module of this package, and the function in it: "values:value"
    per: Literal["dtype", "device"] = "dtype"
    devices: tuple[str, ...] = ("cpu", "cuda")
    alone: bool = False
    fresh: bool = False
    all_cores: bool = False
    differentiates: bool = False
    imports: tuple[str, ...] = ()
    weight: float = 0.0
    cost_s: float = 0.0

    def run(self, context: Context) -> Outcome:
        """Check the property; whatever it raises is a defect of the check and not of the operator."""
        module, _, function = self.where.partition(":")
        found = getattr(importlib.import_module(f"opsmith.checker.properties.{module}"), function)
        outcome = found(context)
        assert isinstance(outcome, Outcome)
        return outcome


_COMPILER = ("torch._dynamo", "torch._inductor")

# Weights are about what the properties take where time is short. The calls of `outputs written` serve the three after it.
PROPERTIES: tuple[Property, ...] = (
    Property("value", "values equal the reference's", "values:value", weight=0.5),
    Property("magnitude", "large, small and mixed magnitudes", "values:magnitude", weight=1.0),
    Property("special values", "NaN, inf and the ends of integers", "values:special", weight=0.5),
    Property("sizes", "sizes around vectors, warps and blocks", "values:sizes", weight=3.0),
    Property("empty", "sizes of zero", "values:empty", weight=0.5),
    Property("strides", "strides, offsets and memory formats", "values:strides", weight=1.0),
    Property("arguments", "optional tensors and other arguments", "values:arguments", weight=1.0),
    Property("gradient", "gradients equal the reference's", "gradients:gradient", differentiates=True, weight=4.0),
    Property(
        "second gradient",
        "gradients of gradients",
        "second_gradients:second_gradient",
        per="device",
        differentiates=True,
        cost_s=0.2,
    ),
    Property("outputs written", "every element of every output is written", "memory:outputs_written", weight=3.0),
    Property("writes outside", "no write outside the outputs", "memory:writes_outside", weight=0.25),
    Property("reads outside", "no read outside the inputs", "memory:reads_outside", weight=0.25),
    Property("inputs unchanged", "inputs are not modified", "memory:inputs_unchanged", weight=0.25),
    Property("aliasing", "results alias only what the schema declares", "sharing:aliasing", per="device", cost_s=0.1),
    Property("determinism", "repeated calls give identical results", "repeats:determinism", fresh=True, cost_s=0.5),
    Property(
        "threads",
        "results do not depend on the number of threads",
        "threads:threads",
        devices=("cpu",),
        fresh=True,
        all_cores=True,
        cost_s=0.8,
    ),
    Property(
        "state",
        "nothing is kept, left changed or taken from modes",
        "state:state",
        per="device",
        fresh=True,
        cost_s=0.3,
    ),
    Property(
        "memory growth",
        "a thousand calls leak no memory",
        "growth:memory_growth",
        per="device",
        fresh=True,
        cost_s=3.0,
    ),
    Property("fake", "the fake kernel agrees on shape, dtype, strides, device", "tracing:fake", weight=1.0),
    Property(
        "opcheck",
        "torch.library.opcheck",
        "registration:opcheck",
        per="device",
        differentiates=True,
        imports=_COMPILER,
        cost_s=3.0,
    ),
    Property(
        "compile",
        "torch.compile: one graph for all sizes",
        "compiling:compiled",
        per="device",
        differentiates=True,
        imports=_COMPILER,
        cost_s=3.0,
    ),
    Property(
        "export", "torch.export with dynamic shapes", "compiling:exported", per="device", imports=_COMPILER, cost_s=2.0
    ),
    Property("vmap", "torch.vmap", "batching:vmap", per="device", differentiates=True, cost_s=0.1),
    Property(
        "func.grad",
        "torch.func.grad, vjp and jacrev",
        "transforms:func_grad",
        per="device",
        differentiates=True,
        cost_s=0.1,
    ),
    Property(
        "jvp",
        "forward-mode gradients are right or rejected",
        "forward_mode:jvp",
        per="device",
        differentiates=True,
        cost_s=0.5,
    ),
    Property(
        "bad arguments",
        "bad arguments raise instead of crashing",
        "refusals:bad_arguments",
        per="device",
        alone=True,
        cost_s=0.4,
    ),
    Property("large", "indices past 2^31", "large:large", per="device", differentiates=True, cost_s=0.3),
    Property("streams", "work runs on the current stream", "gpu:streams", per="device", devices=("cuda",), cost_s=0.5),
    Property("devices", "a second GPU", "gpu:devices", per="device", devices=("cuda",), alone=True, cost_s=2.0),
    Property(
        "graph", "CUDA graph capture and replay", "gpu:graph", per="device", devices=("cuda",), alone=True, cost_s=1.0
    ),
)


def chosen(names: tuple[str, ...]) -> tuple[Property, ...]:
    """Return the properties of these names, or all; raises ArgumentError for an unknown one."""
    known = {item.name: item for item in PROPERTIES}
    if unknown := [name for name in names if name not in known]:
        raise ArgumentError(f"unknown property {unknown[0]!r}; the properties are {', '.join(known)}")
    return tuple(known[name] for name in names) if names else PROPERTIES
