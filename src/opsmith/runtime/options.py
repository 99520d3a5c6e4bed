"""Declares the options of `opsmith.op` and `Operator.backward`: name, type, default and documentation of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opsmith._keywords import Option, option
from opsmith.spec.definition import Batch

if TYPE_CHECKING:
    import torch

    from opsmith.runtime.kernel_file import KernelFile
    from opsmith.spec.casts import Autocast

__all__ = ["DefinitionOptions", "OpOptions"]


# Each method that a dataclass does not make is time saved in every process that imports an operator.
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DefinitionOptions:
    """What both an operator and its backward take."""

    cpu: str | KernelFile | None = option(
        None, Option("The CPU kernel's file, relative to this one, or `opsmith.view(...)` / `opsmith.native(...)`.")
    )
    cuda: str | KernelFile | None = option(None, Option("The CUDA kernel's file, likewise. A `.cu` also serves ROCm."))
    outputs: Sequence[str] | None = option(
        None,
        Option(
            "The outputs' names, which `.backward` refers to; in a backward, `grad_<input>` for each gradient.",
            unset="`out` for one, `out0`, `out1`, ... for several; all differentiable inputs of a backward",
        ),
    )
    saved: str | Iterable[str] = option(
        (),
        Option(
            "Outputs only for the backward; callers do not see them. An argument `needs_<output>: bool = False` is True "
            "where a gradient is recorded; elsewhere the output has no elements."
        ),
    )
    mutates: str | Iterable[str] = option(
        (), Option("Arguments that the kernel writes to. The operator then has no gradient.")
    )
    nondifferentiable: str | Iterable[str] = option(
        (), Option("Arguments and outputs without a gradient, beyond those of integer type.")
    )
    passes_gradient: Mapping[str, str] | None = option(
        None,
        Option(
            '`{"input": "output"}`: the gradient of an input is the output\'s, unchanged, as for a summand. It costs '
            "nothing, and a backward does not return it."
        ),
    )
    contiguous: str | Iterable[str] = option(
        (), Option("Inputs that are made contiguous for the kernel; others keep their strides.")
    )
    preserve_format: Mapping[str, str] | None = option(
        None,
        Option('`{"output": "input"}`: an output takes the memory format of an input (channels_last stays so).'),
    )
    dtypes: Sequence[torch.dtype] | Mapping[str, Sequence[torch.dtype]] | None = option(
        None, Option("The element types of `Float` tensors, or a mapping from template parameter (T, I) to them.")
    )
    batch: Batch = option(
        None,
        Option(
            "The name of a dimension along which samples are independent, or a tuple of such names: torch.vmap and "
            'DTensor then use the kernel for many samples at once. A variadic group of every output ("*n", "*batch") is '
            "one by default; pass False if the operator combines elements along the group."
        ),
    )
    autocast: Autocast | None = option(
        "promote",
        Option(
            'What happens to floating tensors of at most 32 bits under torch.autocast: "promote" casts those of one '
            'template parameter to the widest among them, "low" casts them to autocast\'s type (for matrix '
            'products), "float32" casts them up, None leaves them. Pinned ones are cast to their pinned type.'
        ),
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OpOptions(DefinitionOptions):
    """What an operator takes."""

    namespace: str | None = option(
        None, Option("The operator's namespace in `torch.ops`.", unset="the name of the package")
    )
