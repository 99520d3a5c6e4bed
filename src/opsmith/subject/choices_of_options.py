"""Lists calls with other options in large sizes and in other layouts: a kernel may have code of its own for both at once.

`if (!gain && n >= 64)` is a path that neither a short row without a gain nor a long one with it takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from opsmith.subject.choices_of_layouts import LONG_ROWS, four_dims, layouts_for_all, long_rows
from opsmith.subject.choices_of_sizes import MOST_ELEMENTS, MOST_OF_ONE_SIZE, last_names, of_size, tiles
from opsmith.subject.space import Choice, Space
from opsmith.subject.switches import combined_switches, single_switches, switched

__all__ = ["option_choices"]

# A rest after blocks of any width, whole blocks, and few of them with a rest.
_LONG, _WHOLE, _SHORT = 1025, 1024, 129
# The same of a group of sizes.
_LONG_GROUP, _GROUP_OF_TWO = (1023,), (33, 65)
_FEW_NAMES = 3
# How many situations every two options come in, of those in which each option comes.
_OF_TWO = 2


def option_choices(space: Space, base: Choice, wide: Choice, mutated: tuple[str, ...], most: int) -> Iterator[Choice]:
    """Yield at most so many calls, of the groups sizes, large and layouts: the most telling ones of all options first.

    `base` has a few elements and `wide` some dozens in each dimension.
    """
    alone, together = single_switches(space), combined_switches(space)
    together = [switches for switches in together if not any(one.is_number for one in switches)]
    situations = [one for one in _situations(space, base, wide, mutated) if _fits(space, one)] if alone else []
    first, others = situations[:_OF_TWO], situations[_OF_TWO:]
    listed = (
        *((situation, switches) for situation in first for switches in alone),
        *((situation, switches) for situation in first[:1] for switches in together),
        *((situation, switches) for situation in others for switches in alone),
        *((situation, switches) for situation in first[1:] for switches in together),
    )
    for situation, switches in islice(listed, most):
        yield replace(switched(situation, switches), with_options=True)


def _situations(space: Space, base: Choice, wide: Choice, mutated: tuple[str, ...]) -> Iterator[Choice]:
    """Yield the sizes and layouts in which options are tried, the most telling ones first."""
    last = [name for name in space.names if name in last_names(space)]
    others = [name for name in space.names if name not in last]
    # Of many names each is long once, and one of them has the other sizes.
    is_few = len(space.names) <= _FEW_NAMES
    in_layouts = list(_in_layouts(space, wide, mutated))
    yield from _of_sizes(space, base, last[:1], _LONG)
    yield from (_of_group(base, group, _LONG_GROUP) for group in space.groups)
    yield from in_layouts[:1]
    yield from _of_sizes(space, base, (*last[1:], *others), _LONG)
    yield from islice(tiles(space, base), 1)
    yield from _of_sizes(space, base, last if is_few else last[:1], _SHORT)
    yield from (_of_group(base, group, _GROUP_OF_TWO) for group in space.groups)
    yield from in_layouts[1:]
    yield from _of_sizes(space, base, last if is_few else last[:1], _WHOLE)
    for size in (_SHORT, _WHOLE) if is_few else ():
        yield from _of_sizes(space, base, others, size)


def _fits(space: Space, choice: Choice) -> bool:
    return space.elements(choice) <= (MOST_ELEMENTS if choice.group == "large" else MOST_OF_ONE_SIZE)


def _of_sizes(space: Space, base: Choice, names: tuple[str, ...] | list[str], size: int) -> Iterator[Choice]:
    for name in names:
        yield of_size(space, replace(base, label=f"{name} = {size}", group="sizes"), name, size)


def _of_group(base: Choice, group: str, shape: tuple[int, ...]) -> Choice:
    return replace(base, groups={**base.groups, group: shape}, label=f"{group} = {shape}", group="sizes")


def _in_layouts(space: Space, wide: Choice, mutated: tuple[str, ...]) -> Iterator[Choice]:
    long = long_rows(space, wide)
    is_long = long is not None and _fits(space, long)
    for layout in ("transposed", "with a larger leading dimension", "expanded"):
        choice = replace(long if long is not None and is_long else wide, layouts=layouts_for_all(layout, mutated))
        label = f"{LONG_ROWS}, every tensor {layout}" if is_long else f"every tensor {layout}"
        yield replace(choice, label=label, group="layouts")
    if four_dims(space):
        images = replace(wide, groups=dict.fromkeys(space.groups, (2, 3, 4, 5)))
        layouts = layouts_for_all("channels_last", mutated)
        yield replace(images, layouts=layouts, label="every tensor channels_last", group="layouts")
