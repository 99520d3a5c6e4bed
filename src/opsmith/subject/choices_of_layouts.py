"""Lists the layouts to try, for all tensors together and for each alone, also in long rows and in tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from opsmith.spec.signature import Parameter
from opsmith.subject.layouts import COMBINED, LAYOUTS, apply_layout
from opsmith.subject.space import Choice, Space

__all__ = ["LONG_ROWS", "layout_choices"]

# What begins the label of a call with rows of some hundred elements, where kernels have vectors and other paths.
LONG_ROWS = "rows of 520"
_COLUMNS = 520
_ROWS = 5
_IN_LONG_ROWS = (
    "contiguous",
    "with a larger leading dimension",
    "cut out of a transposed one",
    "transposed",
    "expanded",
    "sliced in two dimensions",
)
# In tiles of 256 and more, part of them.
_TILES = (257, 259)
_IN_TILES = ("cut out of a transposed one", "with a larger leading dimension")


def layout_choices(space: Space, base: Choice, mutated: tuple[str, ...]) -> Iterator[Choice]:
    """Yield the calls of the group layouts; `base` has some dozens in each dimension."""
    four = replace(base, groups=dict.fromkeys(space.groups, (2, 3, 4, 5)))
    three = replace(base, groups=dict.fromkeys(space.groups, (5, 6, 7)))
    for layout in LAYOUTS:
        if layout == "contiguous":
            continue
        choice = four if "channels_last" in layout or "middle" in layout else three if "exchanged" in layout else base
        yield from _of_layout(space, choice, layout, mutated)
    long = _long_rows(space, base)
    for layout in _IN_LONG_ROWS if long is not None else ():
        assert long is not None
        label = f"{LONG_ROWS}, every tensor {layout}"
        yield replace(long, layouts=_for_all(layout, mutated), label=label, group="layouts")
    for layout in _IN_TILES:
        tiles = _tiles(space, base)
        if tiles is not None:
            yield replace(tiles, layouts=_for_all(layout, mutated), label=f"{tiles.label}, every tensor {layout}")


def _of_layout(space: Space, choice: Choice, layout: str, mutated: tuple[str, ...]) -> Iterator[Choice]:
    able = [parameter.name for parameter in space.signature.tensors if _may_have(parameter, layout)]
    if layout in COMBINED and not able:
        return
    yield replace(choice, layouts=_for_all(layout, mutated), label=f"every tensor {layout}", group="layouts")
    if len(space.signature.tensors) > 1:
        for name in able:
            if name not in mutated or not _repeats(layout):
                yield replace(choice, layouts={name: layout}, label=f"{name} {layout}", group="layouts")


def _for_all(layout: str, mutated: tuple[str, ...]) -> dict[str, str]:
    # An expanded tensor cannot be written to: several of its elements share memory.
    return {"": layout, **(dict.fromkeys(mutated, "contiguous") if _repeats(layout) else {})}


def _repeats(layout: str) -> bool:
    return "expanded" in layout


def _may_have(parameter: Parameter, layout: str) -> bool:
    shape = parameter.tensor_type.shape
    return shape.variadic_index is not None or apply_layout(layout, shape.rank)


def _long_rows(space: Space, base: Choice) -> Choice | None:
    """Return a call in which every last dimension that has a name is of some hundred, the others small."""
    shapes = [parameter.tensor_type.shape for parameter in space.signature.tensors]
    last = {name for shape in shapes for dim in shape.dims[-1:] if dim.expression for name in dim.expression.names}
    last &= set(space.names)
    if not last and not space.groups:
        return None
    # Neither of 520 and 521, which two last dimensions have, is divided by what the other is.
    sizes = {name: _ROWS + index % 4 for index, name in enumerate(space.names)}
    sizes |= {name: _COLUMNS + index for index, name in enumerate(name for name in space.names if name in last)}
    return replace(base, sizes=sizes, groups=dict.fromkeys(space.groups, (_ROWS, _COLUMNS)))


def _tiles(space: Space, base: Choice) -> Choice | None:
    """Return a call in which the last two dimensions of the first tensor that has two have more than one tile."""
    for parameter in space.signature.tensors:
        dims = parameter.tensor_type.shape.dims[-2:]
        names = [name for dim in dims if dim.expression is not None for name in sorted(dim.expression.names)]
        if len(dims) == 2 and len(set(names)) == 2 and set(names) <= set(space.names):
            sizes = {**dict.fromkeys(space.names, 2), **dict(zip(names, _TILES, strict=True))}
            label = f"{names[0]} x {names[1]} = {_TILES[0]} x {_TILES[1]}"
            groups = dict.fromkeys(space.groups, (2,))
            return replace(base, sizes=sizes, groups=groups, label=label, group="layouts")
    return None
