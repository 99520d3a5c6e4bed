"""Lists the layouts to try, for all tensors together and for each alone, also in long rows and in tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from opsmith.spec.signature import Kind, Parameter
from opsmith.subject.choices_of_sizes import last_names
from opsmith.subject.layouts import COMBINED, LAYOUTS, ODD_WHERE_ONE, SLICE_FOR_ALL, apply_layout
from opsmith.subject.space import Choice, Space

__all__ = ["LONG_ROWS", "four_dims", "layout_choices", "layouts_for_all", "long_rows"]

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
# Of a list, the first tensor alone has these: what holds for it need not hold for the others.
_IN_LISTS = ("transposed", "every second", "offset")


def layout_choices(space: Space, base: Choice, mutated: tuple[str, ...]) -> Iterator[Choice]:
    """Yield the calls of the group layouts; `base` has some dozens in each dimension."""
    four = replace(base, groups=dict.fromkeys(space.groups, (2, 3, 4, 5)))
    three = replace(base, groups=dict.fromkeys(space.groups, (5, 6, 7)))
    for layout in LAYOUTS:
        if layout in ("contiguous", ODD_WHERE_ONE):
            continue
        is_of_three = "exchanged" in layout or layout == SLICE_FOR_ALL
        choice = four if "channels_last" in layout or "middle" in layout else three if is_of_three else base
        yield from _of_layout(space, choice, layout, mutated)
    yield from _odd_where_one(space, base)
    long = long_rows(space, base)
    for layout in _IN_LONG_ROWS if long is not None else ():
        assert long is not None
        label = f"{LONG_ROWS}, every tensor {layout}"
        yield replace(long, layouts=layouts_for_all(layout, mutated), label=label, group="layouts")
    for layout in _IN_TILES:
        tiles = _tiles(space, base)
        if tiles is not None:
            yield replace(
                tiles, layouts=layouts_for_all(layout, mutated), label=f"{tiles.label}, every tensor {layout}"
            )


def _of_layout(space: Space, choice: Choice, layout: str, mutated: tuple[str, ...]) -> Iterator[Choice]:
    able = [parameter.name for parameter in space.signature.tensors if _may_have(parameter, layout)]
    if layout in COMBINED and not able:
        return
    yield replace(choice, layouts=layouts_for_all(layout, mutated), label=f"every tensor {layout}", group="layouts")
    if len(space.signature.tensors) > 1:
        for name in able:
            if name not in mutated or not _repeats(layout):
                yield replace(choice, layouts={name: layout}, label=f"{name} {layout}", group="layouts")
    for parameter in space.signature.tensors if layout in _IN_LISTS else ():
        if parameter.kind is Kind.TENSOR_LIST and parameter.name in able:
            name = f"{parameter.name}[0]"
            yield replace(choice, layouts={name: layout}, label=f"{name} {layout}", group="layouts")


def _odd_where_one(space: Space, base: Choice) -> Iterator[Choice]:
    """Yield calls with one size of 1, of which the stride is any number."""
    of_one = [
        *((replace(base, sizes={**base.sizes, name: 1}), f"{name} = 1") for name in space.names),
        *(
            (replace(base, groups=dict.fromkeys(space.groups, shape)), f"{space.groups[0]} = {shape}")
            for shape in ((1, 33), (9, 1))
            if space.groups
        ),
    ]
    for choice, words in of_one:
        label = f"every tensor {ODD_WHERE_ONE}, {words}"
        yield replace(choice, layouts={"": ODD_WHERE_ONE}, label=label, group="layouts")


def layouts_for_all(layout: str, mutated: tuple[str, ...]) -> dict[str, str]:
    """Return the layouts of a choice whose tensors all have one, as far as they may."""
    # An expanded tensor cannot be written to: several of its elements share memory.
    return {"": layout, **(dict.fromkeys(mutated, "contiguous") if _repeats(layout) else {})}


def four_dims(space: Space) -> bool:
    """Whether some tensor may be a batch of images, which channels_last is for."""
    return any(_may_have(parameter, "channels_last") for parameter in space.signature.tensors)


def _repeats(layout: str) -> bool:
    return "expanded" in layout


def _may_have(parameter: Parameter, layout: str) -> bool:
    shape = parameter.tensor_type.shape
    return shape.variadic_index is not None or apply_layout(layout, shape.rank)


def long_rows(space: Space, base: Choice) -> Choice | None:
    """Return a call in which every last dimension that has a name is of some hundred, the others small."""
    last = last_names(space) & set(space.names)
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
