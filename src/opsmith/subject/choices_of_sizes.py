"""Lists the sizes to try: around the widths of vectors, warps and blocks, two large ones at once, and long rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice

from opsmith.subject.placed_values import ABOVE_ZERO, LAST
from opsmith.subject.space import Choice, Space

__all__ = [
    "ALL_EQUAL",
    "EDGES",
    "LARGE",
    "MOST_ELEMENTS",
    "MOST_OF_ONE_SIZE",
    "about_size",
    "is_full_tile",
    "is_tail",
    "last_names",
    "longest_choices",
    "of_size",
    "plain_choice",
    "size_choices",
    "tiles",
    "wide_choice",
]

# After whole vectors of 16 every rest: each number of elements in a tail may have code of its own.
_TAILS = (20, 22, 24, 26, 28, 30, 34, 37, 39, 41, 43, 45)
# Around the widths of vectors, warps and blocks, widths that kernels have code of their own for, and primes between.
EDGES = tuple(
    sorted(
        {
            *_TAILS,
            1,
            3,
            4,
            8,
            15,
            16,
            17,
            31,
            32,
            33,
            48,
            63,
            64,
            65,
            80,
            96,
            97,
            127,
            128,
            129,
            192,
            255,
            256,
            257,
            384,
            511,
            513,
            768,
            1000,
            1024,
            1025,
            2048,
            4096,
            4099,
        }
    )
)
# What other names are meanwhile; small and different, so that sizes that are mixed up do not fit.
_SMALL = (2, 3, 5, 4, 7, 6, 8, 9)
_GROUP = (3, 5)
_GROUPS = ((), (1,), (7,), (2, 3, 4), (2, 3, 4, 5), (2, 1, 3, 2, 2), (1, 1), (33, 65), (1023,), (4099,))
_TAILS_OF_GROUPS = tuple((2, size // 2) if size % 2 == 0 else (size,) for size in _TAILS)
_EMPTY_GROUPS = ((0,), (3, 0), (0, 5, 2))
# More than 16 bits hold.
LARGE = 70_001
# Where a result has all pairs of so many rows.
_SQUARE = 2_039
# More than one tile of 128 or 256 in both dimensions: with a rest in each, with other counts of tiles, and without a rest.
_TILES = ((257, 259), (300, 520), (256, 384))
_MOST_PAIRS = 4
# Rows whose last place does not fit into 16 bits, with a sign and without.
_LONG = (33_001, 66_001)
# More elements than a loop in blocks of a thousand with a thousand threads, or than 20 bits count.
_LONGEST, _MOST_IN_LONGEST, _MOST_LONGEST = (1 << 20) + 77, 1 << 21, 1
# What the labels of those rows begin with, and of rows in which all elements count.
DECIDES, ALL_COUNT = "the last element decides, ", "positive values, "
# And of calls whose sizes are all one number.
ALL_EQUAL = "all sizes "
# A case on the CPU has no more elements than this, so that a suite takes a second and not a minute.
MOST_ELEMENTS = 1 << 18
# And one of the many sizes no more than this.
MOST_OF_ONE_SIZE = MOST_ELEMENTS // 8
# What groups and other names are where those of the plain call are too many elements, the largest first.
_SMALLER = ((2, 2), (1, 2), (2, 1), (1, 1))


def plain_choice(space: Space) -> Choice:
    """Return the plainest call: small sizes, all different."""
    sizes = {name: _SMALL[index % len(_SMALL)] for index, name in enumerate(space.names)}
    return Choice(sizes, dict.fromkeys(space.groups, _GROUP), {}, {}, label="plain")


def wide_choice(space: Space) -> Choice:
    """Return a call with some dozens in each dimension, as far as a case may have that many elements."""
    base = plain_choice(space)
    for factor in (8, 4, 2):
        sizes = {name: size * factor + 1 for name, size in base.sizes.items()}
        wide = replace(base, sizes=sizes, groups=dict.fromkeys(space.groups, (9, 33)))
        if space.elements(wide) <= MOST_ELEMENTS // 16:
            return wide
    return replace(base, groups=dict.fromkeys(space.groups, (9, 33)))


def is_tail(label: str) -> bool:
    """Whether a call of this label has one of the sizes that leave each rest after whole vectors."""
    return label.rpartition(" = ")[2] in _LABELS_OF_TAILS


def about_size(label: str) -> str:
    """Return what a label of a call says of its size: "N = 66001" of "the last element decides, N = 66001"."""
    return label.removeprefix(DECIDES).removeprefix(ALL_COUNT)


def is_full_tile(label: str) -> bool:
    """Whether a call of this label has tiles without a rest."""
    return label.endswith((f" = {_TILES[-1][0]} x {_TILES[-1][1]}", f" = {_TILES[-1]}"))


_LABELS_OF_TAILS = frozenset(map(str, (*_TAILS, *_TAILS_OF_GROUPS)))


def size_choices(space: Space, base: Choice) -> Iterator[Choice]:
    """Yield the calls of the groups sizes, empty and large: one size at a time, then two large ones, then long rows."""
    for name in space.names:
        for size in EDGES:
            yield of_size(space, replace(base, label=f"{name} = {size}", group="sizes"), name, size)
        yield replace(base, sizes={**base.sizes, name: 0}, label=f"{name} = 0", group="empty")
    yield from tiles(space, base)
    for name in space.names:
        for size in (LARGE, _SQUARE):
            sizes = dict.fromkeys(space.names, 1) | {name: size}
            large = replace(base, sizes=sizes, label=f"{name} = {size}", group="large")
            if space.elements(large) > MOST_ELEMENTS:
                large = replace(large, groups=dict.fromkeys(space.groups, (1,)))
            if space.has_small_results(large):
                yield large
                break
    for group in space.groups:
        yield from _of_group(space, base, group)
    for size in (1, 4, 33) if space.names else ():
        equal = dict.fromkeys(space.names, size)
        yield replace(
            base, sizes=equal, groups=dict.fromkeys(space.groups, (size,)), label=f"{ALL_EQUAL}{size}", group="sizes"
        )
    yield from _long_rows(space, base)
    for name in space.sizes_of_results:
        label = f"{name} = {_LONG[0]}"
        yield from _fitting(space, replace(base, scalars={name: _LONG[0]}, label=label, group="large"), {})


def longest_choices(space: Space) -> Iterator[Choice]:
    """Yield a call in which one size is above a million, the first of those whose others can be 1."""
    base = plain_choice(space)
    ones, groups = dict.fromkeys(space.names, 1), dict.fromkeys(space.groups, (1,))
    choices = [
        *(replace(base, sizes={**ones, name: _LONGEST}, groups=groups, label=f"{name} = {_LONGEST}") for name in ones),
        *(
            replace(base, sizes=ones, groups={**groups, group: (_LONGEST,)}, label=f"{group} = {_LONGEST}")
            for group in groups
        ),
    ]
    fitting = (one for one in choices if space.elements(one) <= _MOST_IN_LONGEST and space.has_small_results(one))
    yield from (replace(choice, group="large") for choice in islice(fitting, _MOST_LONGEST))


def of_size(space: Space, choice: Choice, name: str, size: int) -> Choice:
    """Return a choice with one size, the others smaller where it would not be tried otherwise: next to a group, say."""
    found = replace(choice, sizes={**choice.sizes, name: size})
    smaller = (
        replace(
            found,
            sizes={**dict.fromkeys(space.names, other), name: size},
            groups=dict.fromkeys(space.groups, (group,)),
        )
        for group, other in _SMALLER
    )
    return next((one for one in (found, *smaller) if space.elements(one) <= MOST_OF_ONE_SIZE), found)


def _of_group(space: Space, base: Choice, group: str) -> Iterator[Choice]:
    for shape in (*_GROUPS, *_TAILS_OF_GROUPS):
        yield replace(base, groups={**base.groups, group: shape}, label=f"{group} = {shape}", group="sizes")
    for shape in _EMPTY_GROUPS:
        yield replace(base, groups={**base.groups, group: shape}, label=f"{group} = {shape}", group="empty")
    for shape in _TILES:
        yield replace(base, groups={**base.groups, group: shape}, label=f"{group} = {shape}", group="large")
    yield replace(base, groups={**base.groups, group: (LARGE,)}, label=f"{group} = {LARGE}", group="large")


def tiles(space: Space, base: Choice) -> Iterator[Choice]:
    """Yield calls in which two sizes of a tensor have more than one tile each, the others as small as they must be."""
    pairs = _pairs(space)
    for one, other in _TILES:
        for first, second in pairs:
            label = f"{first} x {second} = {one} x {other}"
            sizes = {first: one, second: other}
            yield from _fitting(space, replace(base, label=label, group="large"), sizes)


def _pairs(space: Space) -> list[tuple[str, str]]:
    """Return the names that stand together in an input or an output, the last two dimensions of each first."""
    tensors = [parameter.tensor_type for parameter in space.signature.tensors]
    tensors += [output.tensor for output in space.signature.outputs]
    found: dict[tuple[str, str], int] = {}
    for tensor in tensors:
        dims = [sorted(dim.expression.names) for dim in tensor.shape.dims if dim.expression is not None]
        names = [name for dim in dims for name in dim if name in space.names]
        for distance, pair in enumerate(reversed(list(combinations(dict.fromkeys(names), 2)))):
            known = next((p for p in found if set(p) == set(pair)), pair)
            found[known] = min(distance, found.get(known, distance))
    return sorted(found, key=lambda pair: found[pair])[:_MOST_PAIRS]


def _long_rows(space: Space, base: Choice) -> Iterator[Choice]:
    """Yield calls with long rows: all count, or the last decides, as the largest, the smallest or the only true one."""
    last = last_names(space)
    for name in (name for name in space.names if name in last):
        choice = replace(base, values={"": ABOVE_ZERO}, label=f"{ALL_COUNT}{name} = {LARGE}", group="large")
        yield from _fitting(space, choice, {name: LARGE})
    for size in _LONG:
        for name in space.names:
            if name in last:
                label = f"{DECIDES}{name} = {size}"
                choice = replace(base, values={"": LAST}, label=label, group="large")
                yield from _fitting(space, choice, {name: size})
        for group in space.groups:
            shape = (2, size)
            label = f"{DECIDES}{group} = {shape}"
            groups = {**base.groups, group: shape}
            yield replace(base, groups=groups, values={"": LAST}, label=label, group="large")


def last_names(space: Space) -> set[str]:
    """Return the names that stand in the last dimension of an input."""
    shapes = [parameter.tensor_type.shape for parameter in space.signature.tensors]
    return {name for shape in shapes for dim in shape.dims[-1:] if dim.expression for name in dim.expression.names}


def _fitting(space: Space, choice: Choice, sizes: dict[str, int]) -> Sequence[Choice]:
    """Return a choice with some sizes, the others 2, or 1 where that would be too many elements."""
    for rest in (2, 1):
        groups = dict.fromkeys(space.groups, (rest,))
        found = replace(choice, sizes={**dict.fromkeys(space.names, rest), **sizes}, groups=groups)
        if space.elements(found) <= MOST_ELEMENTS:
            return [found]
    return []
