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
            "The outputs' names, which `.backward` refers to; of a backward, `grad_<input>` for each gradient.",
            unset="`out` for one, `out0`, `out1`, ... for several; all differentiable inputs of a backward",
        ),
    )
    saved: str | Iterable[str] = option(
        (), Option("Outputs that exist for the backward alone: the caller never gets them.")
    )
    mutates: str | Iterable[str] = option(
        (), Option("Arguments that the kernel writes to. Such an operator does not have a gradient.")
    )
    nondifferentiable: str | Iterable[str] = option(
        (), Option("Arguments and outputs without a gradient, beyond those of integer type.")
    )
    passes_gradient: Mapping[str, str] | None = option(
        None,
        Option(
            '`{"input": "output"}`: the gradient of an input is that of an output, unchanged, as for a summand. Nothing '
            "is computed or copied for it, and a backward does not return it."
        ),
    )
    contiguous: str | Iterable[str] = option(
        (), Option("Inputs that are made contiguous for the kernel; others come with the strides they have.")
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
            "taken for such dimensions without being named; give False where that is wrong, because the operator looks at "
            "several elements of the group together."
        ),
    )
    autocast: Autocast | None = option(
        "promote",
        Option(
            'What happens to floating tensors of at most 32 bits under torch.autocast: "promote" casts those of one '
            'template parameter that differ to the widest among them, "low" casts them to autocast\'s type (for matrix '
            'products), "float32" casts them up, None leaves them. Pinned ones are cast to what they are pinned to.'
        ),
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OpOptions(DefinitionOptions):
    """What an operator takes."""

    namespace: str | None = option(
        None, Option("The operator's namespace in `torch.ops`.", unset="the name of the package")
    )
