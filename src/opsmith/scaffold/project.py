"""Describes a project that is to be made."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

from opsmith.errors import ArgumentValueError
from opsmith.scaffold.licenses import LICENSES
from opsmith.scaffold.names import module_of, refuse_name

__all__ = ["RECIPES", "Project"]

RECIPES = ("github", "conda", "kernels")


@dataclass(frozen=True)
class Project:
    """What `opsmith new` is asked for.

    name     the distribution, as pip knows it; `module` is what Python imports
    cuda     a kernel for GPUs, which the wheel contains as well
    cmake    scikit-build-core and CMake build the wheel in place of setuptools
    wheel    what a release needs: a changelog, classifiers, and the recipe github unless others are named
    license  an SPDX name of LICENSES, or "none"
    recipes  of RECIPES: how it is published

    Raises ArgumentValueError for a name, a licence, a recipe or an author that cannot be.
    """

    name: str
    cuda: bool = False
    cmake: bool = False
    wheel: bool = False
    license: str = "MIT"
    recipes: tuple[str, ...] = ()
    author: str = ""
    year: int = field(default_factory=lambda: date.today().year)

    def __post_init__(self) -> None:
        refuse_name(self.name)
        for value, known, what in (
            *((recipe, RECIPES, "recipe") for recipe in self.recipes),
            (self.license, LICENSES, "licence"),
        ):
            if value not in known:
                raise ArgumentValueError(f"there is no {what} {value!r}; there are {', '.join(known)}")
        author = " ".join(self.author.split())
        if not author.isprintable():
            raise ArgumentValueError(f"the author {author!r} has characters that cannot be printed")
        recipes = self.recipes or (("github",) if self.wheel else ())
        # In the table's order, each once; a frozen dataclass sets its own fields so.
        object.__setattr__(self, "recipes", tuple(recipe for recipe in RECIPES if recipe in recipes))
        object.__setattr__(self, "author", author or f"The {self.name} developers")

    @property
    def module(self) -> str:
        """The package that Python imports, and the operators' namespace."""
        return module_of(self.name)
