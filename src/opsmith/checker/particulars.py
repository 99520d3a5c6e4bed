"""Names what is particular about a failing call: the layouts, kinds of values, arguments and sizes that decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.values import INTEGER_VALUES

__all__ = ["named", "particulars"]

# Which groups of calls are about sizes: elsewhere a size says nothing, however small the others became.
_OF_SIZES = frozenset({"sizes", "empty", "large"})
_KINDS = {
    "special": "NaN and infinities",
    "nan": "NaN",
    "zeros": "zeros",
    "extremes": "the ends of the integers",
    "wide": "integers beyond 16 or 32 bits",
}


def named(case: Case, message: str, sizes: Mapping[str, int] | None = None) -> str:
    """Return a finding's message with what is particular about its call in front."""
    what = particulars(case, sizes) or ("" if case.label == "plain" else case.label)
    return f"{what}: {message}" if what else message


def particulars(case: Case, sizes: Mapping[str, int] | None = None) -> str:
    """Return in words what distinguishes a call from a plain one, "" for nothing; it is as small as it could be made.

    `sizes` are those of the signature's names, where they are known.
    """
    tensors = case.tensors()
    parts = [
        *_common(tensors, "layout", "contiguous", "{what} {value}", "every tensor {value}"),
        *_common(tensors, "values", "normal", "{value} in {what}", "{value}"),
        *_arguments(case),
    ]
    if case.group in _OF_SIZES:
        parts += _sizes(case, sizes)
    if any(recipe.given is not None for recipe in tensors.values()) and case.label:
        parts = [case.label] if case.base is None or not parts else [case.label, *parts]
    return ", ".join(dict.fromkeys(parts))


def _common(tensors: Mapping[str, TensorRecipe], field: str, plain: str, one: str, every: str) -> Iterator[str]:
    """Yield what the tensors have of a kind that is not the plain one."""
    found = {name: getattr(recipe, field) for name, recipe in tensors.items()}
    by_value: dict[str, list[str]] = {}
    for name, value in found.items():
        if value != plain and not (field == "values" and _is_index(tensors[name])):
            by_value.setdefault(value, []).append(name)
    for value, names in by_value.items():
        words = value if field == "layout" else _KINDS.get(value, f"{value} values")
        form = every if len(names) == len(tensors) and (len(names) > 1 or field == "values") else one
        yield form.format(value=words, what=" and ".join(names))


def _is_index(recipe: TensorRecipe) -> bool:
    """Whether a tensor holds small integers, as all integer tensors do."""
    return "int" in recipe.dtype and recipe.values not in INTEGER_VALUES.keys() - {"small"}


def _arguments(case: Case) -> Iterator[str]:
    """Yield the arguments other than tensors that differ from the plain call's."""
    base = case.usual.arguments
    for name, value in case.arguments.items():
        usual = base.get(name)
        if isinstance(value, TensorRecipe):
            continue
        if value is None and usual is not None:
            yield f"without {name}"
        elif isinstance(value, tuple) and value and isinstance(value[0], TensorRecipe):
            if isinstance(usual, tuple) and len(usual) != len(value):
                yield f"{name} of {len(value)}"
        elif _differs(value, usual):
            yield f"{name} = {value!r}"


def _differs(value: Any, usual: Any) -> bool:
    return bool(value != usual)


def _sizes(case: Case, sizes: Mapping[str, int] | None) -> Iterator[str]:
    """Yield the sizes that are not 1, the smallest there is: those that were needed to fail."""
    if sizes is None:
        shapes = {name: recipe.shape for name, recipe in case.tensors().items()}
        yield ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
        return
    needed = {name: size for name, size in sizes.items() if size != 1}
    yield from (f"{name} = {size}" for name, size in needed.items())
    if not needed and sizes:
        yield "all sizes 1" if len(sizes) > 1 else f"{next(iter(sizes))} = 1"
