"""Lays tensors out in memory: contiguous, transposed, with offsets and gaps, always with the same values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

__all__ = [
    "COLUMN_FOR_ALL",
    "COMBINED",
    "LAYOUTS",
    "ODD_WHERE_ONE",
    "REPEATING",
    "SLICE_FOR_ALL",
    "apply_layout",
    "lay_out",
]


def _contiguous(tensor: Tensor) -> Tensor:
    return tensor.contiguous()


def _transposed(tensor: Tensor) -> Tensor:
    """The first dimension changes fastest."""
    order = tuple(reversed(range(tensor.dim())))
    return tensor.permute(order).contiguous().permute(order)


def _every_second(tensor: Tensor) -> Tensor:
    """Every second element of rows twice as long; the numbers between them must not be read or written."""
    wide = _strange(tensor, (*tensor.shape[:-1], 2 * tensor.shape[-1]))
    view = wide[..., ::2]
    return view.copy_(tensor)


def _inner_rows(tensor: Tensor) -> Tensor:
    """The middle of a larger tensor: rows do not follow each other."""
    return _middle(_strange(tensor, tuple(size + 3 for size in tensor.shape)), tensor)


def _offset(tensor: Tensor) -> Tensor:
    """Contiguous, but begins one element into its memory: no vector of 16 bytes is aligned."""
    flat = _strange(tensor, (tensor.numel() + 1,))
    return flat[1:].view(tensor.shape).copy_(tensor)


def _expanded(tensor: Tensor) -> Tensor:
    """One row for all: the first dimension has stride 0, so the values differ from those of the other layouts."""
    return tensor[:1].expand(tensor.shape) if tensor.shape[0] > 0 else tensor


def _channels_last(tensor: Tensor) -> Tensor:
    return tensor.contiguous(memory_format=_FORMATS[tensor.dim()])


def _cut_from_transposed(tensor: Tensor) -> Tensor:
    """The middle of a larger transposed tensor: columns do not follow each other, and it begins at an odd place."""
    order = tuple(reversed(range(tensor.dim())))
    wide = _strange(tensor, tuple(size + 3 for size in reversed(tensor.shape)))
    return _middle(wide.permute(order), tensor)


def _leading(tensor: Tensor) -> Tensor:
    """Rows that begin where longer ones do: aligned and dense, and farther apart than they are long."""
    wide = _strange(tensor, (*tensor.shape[:-1], tensor.shape[-1] + 3))
    return wide[..., : tensor.shape[-1]].copy_(tensor)


def _sliced_twice(tensor: Tensor) -> Tensor:
    """Every second row, and of it every third element."""
    *before, rows, columns = tensor.shape
    return _strange(tensor, (*before, 2 * rows, 3 * columns))[..., ::2, ::3].copy_(tensor)


def _exchanged(tensor: Tensor, one: int, other: int) -> Tensor:
    """Two dimensions lie in memory in the other order."""
    return tensor.transpose(one, other).clone(memory_format=torch.contiguous_format).transpose(one, other)


def _cut_from_channels_last(tensor: Tensor) -> Tensor:
    """The middle of a larger channels_last tensor: pixels are farther apart than they have channels."""
    wide = _strange(tensor, (tensor.shape[0], *(size + 3 for size in tensor.shape[1:])))
    return _middle(wide.contiguous(memory_format=_FORMATS[tensor.dim()]), tensor)


def _expanded_columns(tensor: Tensor) -> Tensor:
    """One column for all: the last dimension has stride 0, so the values differ from those of the other layouts."""
    return tensor[..., :1].contiguous().expand(tensor.shape) if tensor.shape[-1] > 0 else tensor


def _expanded_middle(tensor: Tensor) -> Tensor:
    """One slice for all along the second dimension: a stride of 0 between others, as of heads that share their keys."""
    return tensor[:, :1].contiguous().expand(tensor.shape) if tensor.shape[1] > 0 else tensor


def _odd_where_one(tensor: Tensor) -> Tensor:
    """Contiguous, but for strides of dimensions of size 1, which PyTorch leaves as an expansion or a slice has made them.

    That of the last one stays: PyTorch's own views as another type refuse what it calls contiguous then.
    """
    steps = zip(tensor.shape, tensor.contiguous().stride(), strict=True)
    odd = (0, tensor.numel() + 5)
    strides = [odd[dim % 2] if size == 1 else step for dim, (size, step) in enumerate(steps)]
    return tensor.contiguous().as_strided(tensor.shape, (*strides[:-1], tensor.contiguous().stride(-1)))


def _middle(wide: Tensor, tensor: Tensor) -> Tensor:
    """Copy a tensor into the middle of a larger one and return that part."""
    for dim, size in enumerate(tensor.shape):
        wide = wide.narrow(dim, min(1, wide.shape[dim] - size), size)
    return wide.copy_(tensor)


def _strange(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return memory around a tensor, filled with a number that shows in every result that uses it."""
    value = 77 if not tensor.dtype.is_floating_point else 7777.0
    return torch.full(
        shape, bool(value) if tensor.dtype is torch.bool else value, dtype=tensor.dtype, device=tensor.device
    )


ROW_FOR_ALL, COLUMN_FOR_ALL = "expanded", "with its last dimension expanded"
SLICE_FOR_ALL = "with its second dimension expanded"
# In these many elements are one number.
REPEATING = frozenset({ROW_FOR_ALL, COLUMN_FOR_ALL, SLICE_FOR_ALL})
# Says something of tensors with a dimension of size 1 alone.
ODD_WHERE_ONE = "with odd strides where a size is 1"
_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}

# Name -> what makes it, and the ranks it is possible for.
LAYOUTS: dict[str, tuple[Callable[[Tensor], Tensor], range]] = {
    "contiguous": (_contiguous, range(0, 64)),
    "transposed": (_transposed, range(2, 64)),
    "every second": (_every_second, range(1, 64)),
    "inner rows": (_inner_rows, range(2, 64)),
    "offset": (_offset, range(0, 64)),
    ROW_FOR_ALL: (_expanded, range(1, 64)),
    "channels_last": (_channels_last, range(4, 6)),
    "cut out of a transposed one": (_cut_from_transposed, range(2, 64)),
    "with a larger leading dimension": (_leading, range(2, 64)),
    "sliced in two dimensions": (_sliced_twice, range(2, 64)),
    COLUMN_FOR_ALL: (_expanded_columns, range(2, 64)),
    "with its first two dimensions exchanged": (partial(_exchanged, one=0, other=1), range(3, 64)),
    "with its last two dimensions exchanged": (partial(_exchanged, one=-2, other=-1), range(3, 64)),
    "with its middle dimensions exchanged": (partial(_exchanged, one=1, other=2), range(4, 5)),
    "cut out of a channels_last one": (_cut_from_channels_last, range(4, 6)),
    SLICE_FOR_ALL: (_expanded_middle, range(3, 64)),
    ODD_WHERE_ONE: (_odd_where_one, range(2, 64)),
}
# Those that combine two things, each of which a kernel may handle alone.
COMBINED = tuple(LAYOUTS)[7:]


def apply_layout(name: str, rank: int) -> bool:
    """Tell whether a tensor of that rank can have a layout."""
    return rank in LAYOUTS[name][1]


def lay_out(tensor: Tensor, layout: str) -> Tensor:
    """Return a tensor of the same values in a layout; one whose rank does not allow it stays contiguous."""
    make, ranks = LAYOUTS[layout]
    return make(tensor) if tensor.dim() in ranks else tensor.contiguous()
