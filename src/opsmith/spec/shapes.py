"""Parses jaxtyping's dimension strings into shapes.

"B 3*S"         two dimensions, the second an expression
"*batch N"      any number of leading dimensions under one name; the kernel sees them as one
"_ 4"           an anonymous dimension of any size, and one of exactly 4
"... N"         any number of anonymous leading dimensions
""              a 0-dimensional tensor
"""

from __future__ import annotations

from dataclasses import dataclass

from opsmith.errors import DefinitionError
from opsmith.spec.dims import Expression, parse_expression

__all__ = ["Dim", "Shape", "parse_shape"]


@dataclass(frozen=True)
class Dim:
    """One word of a dimension string.

    Exactly one of these holds: it has an `expression`; it is `variadic` (with a `group` name, or anonymous); or neither,
    and it is an anonymous dimension of any size.
    """

    text: str
    expression: Expression | None = None
    variadic: bool = False
    group: str | None = None


@dataclass(frozen=True)
class Shape:
    """The declared dimensions of a tensor, in order."""

    dims: tuple[Dim, ...]

    @property
    def text(self) -> str:
        """The dimension string, with single blanks."""
        return " ".join(dim.text for dim in self.dims)

    @property
    def variadic_index(self) -> int | None:
        """Where the variadic group stands, or None if there is none."""
        return next((index for index, dim in enumerate(self.dims) if dim.variadic), None)

    @property
    def group(self) -> str | None:
        """The name of the variadic group, or None if there is none or it is anonymous."""
        index = self.variadic_index
        return None if index is None else self.dims[index].group

    @property
    def is_group(self) -> bool:
        """Whether the whole shape is one named variadic group, as in an elementwise operator."""
        return len(self.dims) == 1 and self.dims[0].group is not None

    @property
    def rank(self) -> int:
        """The rank of a kernel's view of the tensor: a variadic group counts as one dimension."""
        return len(self.dims)

    @property
    def names(self) -> frozenset[str]:
        """Every name in the shape's expressions (a group's name is not one of them)."""
        return frozenset(name for dim in self.dims if dim.expression for name in dim.expression.names)

    def axis(self, index: int) -> int:
        """Return which axis of the tensor `dims[index]` is: counted from the end where it stands behind the group."""
        variadic = self.variadic_index
        return index if variadic is None or index < variadic else index - len(self.dims)


def parse_shape(text: str, *, where: str) -> Shape:
    """Parse a dimension string; raises DefinitionError, which names `where`, for what an operator cannot have."""
    dims = tuple(_parse_dim(word, where) for word in text.split())
    if sum(dim.variadic for dim in dims) > 1:
        raise DefinitionError(f"{where}: {text!r} has several variadic groups, so sizes are ambiguous")
    return Shape(dims)


def _parse_dim(word: str, where: str) -> Dim:
    if word == "...":
        return Dim(word, variadic=True)
    if word.startswith("*"):
        name = word[1:]
        if name == "_":
            return Dim("...", variadic=True)
        if not name.isidentifier():
            raise DefinitionError(f"{where}: {word!r} is not a variadic dimension; write a name after the `*`")
        return Dim(word, variadic=True, group=name)
    if "#" in word:
        raise DefinitionError(
            f"{where}: {word!r} asks for broadcasting, which a kernel's view does not have; call "
            "torch.broadcast_tensors before the operator (expanded inputs are fine) and declare equal dimensions"
        )
    if word.startswith("?"):
        raise DefinitionError(f"{where}: {word!r} is for trees of tensors, which operators do not take; give it a name")
    if word == "_":
        return Dim(word)
    # jaxtyping allows `rows=4` to say what a fixed size means.
    expression = parse_expression(word.rpartition("=")[2], where=where)
    return Dim(expression.text, expression=expression)
