"""Lists what a kernel is compiled for ahead: element types, choices, configurations and specialisations.

A compiler that works when a kernel is called knows all of these. Ahead of time they are enumerated, and a launch takes
the first specialisation that holds for its arguments.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from opsmith.errors import SignatureError
from opsmith.spec.definition import Definition
from opsmith.spec.dtypes import DType
from opsmith.spec.kernel_arguments import KernelArgument
from opsmith.spec.launch import Config, Constant, Launch

__all__ = ["SPECIALISATIONS", "Specialisation", "Variants", "make_variants"]

# More kernels than this are refused: at a tenth of a second each, and 15 KB.
_MOST_KERNELS = 1024


@dataclass(frozen=True)
class Specialisation:
    """What a kernel may rely on: 64-bit numbers, aligned pointers and unit strides, and multiples of 16."""

    is_wide: bool
    is_aligned: bool
    is_multiple: bool


# In the order of include/opsmith/embedded.h, which chooses.
SPECIALISATIONS = (
    Specialisation(is_wide=False, is_aligned=True, is_multiple=True),
    Specialisation(is_wide=False, is_aligned=True, is_multiple=False),
    Specialisation(is_wide=False, is_aligned=False, is_multiple=False),
    Specialisation(is_wide=True, is_aligned=True, is_multiple=True),
    Specialisation(is_wide=True, is_aligned=False, is_multiple=False),
)


@dataclass(frozen=True)
class Variants:
    """All that a kernel is compiled for, in the order of the launcher's table.

    `places` says for each of the five specialisations where it is among the different ones, of which there are `count`.
    """

    definition: Definition
    arguments: tuple[KernelArgument, ...]
    dtypes: tuple[tuple[DType, ...], ...]
    choices: tuple[tuple[Constant | None, ...], ...]
    places: tuple[int, ...]

    @property
    def choosing(self) -> tuple[KernelArgument, ...]:
        """The arguments that a kernel is compiled for the values of."""
        return tuple(argument for argument in self.arguments if argument.values)

    @property
    def specialisations(self) -> tuple[Specialisation, ...]:
        """The different specialisations."""
        return tuple(SPECIALISATIONS[self.places.index(place)] for place in range(max(self.places) + 1))

    @property
    def per_dtypes(self) -> int:
        """How many kernels there are for one combination of element types."""
        return len(self.choices) * len(self.configs) * len(self.specialisations)

    @property
    def count(self) -> int:
        """How many kernels there are."""
        return len(self.dtypes) * self.per_dtypes

    @property
    def launch(self) -> Launch:
        """How the kernel is launched."""
        launch = self.definition.kernels["cuda"].launch
        assert launch is not None
        return launch

    @property
    def configs(self) -> tuple[Config, ...]:
        """The configurations that the kernel is compiled for."""
        return self.launch.compiled

    @property
    def table(self) -> str:
        """The name of the table with the kernels."""
        return f"{self.definition.kernels['cuda'].style}_{self.definition.name}"


def make_variants(
    definition: Definition, arguments: tuple[KernelArgument, ...], places: Sequence[int], *, advice: str
) -> Variants:
    """Return what a kernel is compiled for; raises SignatureError, with the advice, if that is too much."""
    choices = tuple(itertools.product(*(argument.values for argument in arguments if argument.values)))
    variants = Variants(definition, arguments, definition.signature.combinations(), choices, tuple(places))
    if variants.count > _MOST_KERNELS:
        names = ", ".join(argument.name for argument in variants.choosing) or "none"
        raise SignatureError(
            f"{definition.name}: the kernel {definition.kernels['cuda'].entry} would be compiled {variants.count} times, "
            f"for {len(variants.dtypes)} combinations of element types, {len(choices)} of choices ({names}), "
            f"{len(variants.configs)} configurations and {len(variants.specialisations)} specialisations; at most "
            f"{_MOST_KERNELS} are. Name fewer types (dtypes=), or take flags {advice}"
        )
    return variants
