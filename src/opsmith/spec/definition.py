"""Defines an operator as data: its signature, its kernels for each device, and the body that defines its values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from opsmith.spec.gradient import Wiring
from opsmith.spec.signature import Signature

if TYPE_CHECKING:
    from opsmith.spec.casts import Autocast
    from opsmith.spec.launch import Launch

__all__ = ["AHEAD", "DEVICES", "GPU_SUFFIXES", "Batch", "Definition", "Device", "Group", "Kernel", "Rules"]

Device = Literal["cpu", "cuda"]
DEVICES: tuple[Device, ...] = ("cpu", "cuda")

# Files that nvcc or hipcc compiles.
GPU_SUFFIXES = frozenset({".cu", ".hip"})

# The styles of kernels that are compiled ahead and launched by a generated function, through CUDA's driver or HIP.
AHEAD = frozenset({"triton", "nvrtc", "cute"})

# The dimensions of independent samples: one name or several; False: not even along a variadic group; None: what the
# shapes say.
Batch = str | tuple[str, ...] | Literal[False] | None


@dataclass(frozen=True)
class Kernel:
    """An operator's code for one device.

    A `view` kernel is a template over element types that includes only `<opsmith/kernel.h>`; a `native` one is a
    function over `torch::stable::Tensor`; a `triton` one is a `@triton.jit` function, an `nvrtc` one a `__global__`
    function and a `cute` one a `@cute.jit` function, which have a `launch`. `sources` are absolute; the first holds
    `entry`, the others are compiled with it.
    """

    style: Literal["view", "native", "triton", "nvrtc", "cute"]
    sources: tuple[Path, ...]
    entry: str
    flags: tuple[str, ...] = ()
    launch: Launch | None = None


@dataclass(frozen=True)
class Rules:
    """The user's own rules of how an operator composes; None stands for the derived rule."""

    vmap: Callable[..., Any] | None = None
    sharding: Callable[..., Any] | None = None
    flops: Callable[..., int] | None = None
    examples: Callable[[], Iterable[Any]] | None = None
    versus: Mapping[str, Callable[..., Any]] | None = None


@dataclass(frozen=True, eq=False)
class Definition:
    """One operator as declared. `file` and `line` say where, for error messages; `root` is the folder of its sources.

    A backward knows its `forward`, as that was when the backward was declared; `is_derived` tells that the backward's
    body is the gradient of the forward's body.
    """

    namespace: str
    signature: Signature
    kernels: Mapping[Device, Kernel]
    body: Callable[..., Any]
    module: str
    file: Path
    line: int
    doc: str = ""
    backward: Definition | None = None
    wiring: Wiring | None = field(default=None)
    batch: Batch = None
    autocast: Autocast | None = "promote"
    rules: Rules = Rules()
    forward: Definition | None = None
    is_derived: bool = False

    @property
    def name(self) -> str:
        """The operator's name without its namespace."""
        return self.signature.name

    @property
    def qualified_name(self) -> str:
        """The operator's name in PyTorch's dispatcher: `namespace::name`."""
        return f"{self.namespace}::{self.name}"

    @property
    def root(self) -> Path:
        """The folder that kernel paths are relative to."""
        return self.file.parent

    @property
    def location(self) -> str:
        """Where the operator was declared, as `file:line`."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, eq=False)
class Group:
    """The definitions of one module: they are built into one library beside its file."""

    module: str
    file: Path
    definitions: tuple[Definition, ...]
