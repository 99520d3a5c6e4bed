"""The defects planted into CUDA kernels (gpu.cu), each with the property that must name it, and how they are checked.

So are those planted into Triton kernels (in_triton_rows.py), where Triton is installed.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

from in_triton_rows import NEED_A_GPU
from in_triton_rows import ROWS as TRITON_ROWS
from load import module
from row import VALUES, Planted, rows

from opsmith.checker.properties.table import PROPERTIES, Property
from opsmith.spec.definition import Device
from opsmith.subject.subject import Subject, subject_of

__all__ = ["ALL_ROWS", "GPU_TABLE", "INTERPRETED_ROWS", "TWO_GPUS", "properties_of", "rows_on", "subject"]

# What races gives other results in each call, and so may be wrong anywhere.
_RACES = (*VALUES, "determinism", "gradient")
# What runs too early reads what its inputs' memory held before.
_EARLY = (*_RACES, "outputs written", "reads outside")
# Each operator has one element type, so there is one column.
GPU_TABLE: tuple[Planted, ...] = rows(
    "gpu",
    "gpu",
    ("no_barrier", "determinism", "no __syncthreads between the store to shared memory and the load", _RACES, ()),
    ("tile_reuse", "determinism", "no __syncthreads before the next tile is loaded", _RACES, ()),
    ("one_warp", "sizes", "a sum over the lanes of the first warp alone", (), ()),
    ("shared_bytes", "value", "shared memory for elements of half the size", ("sizes",), ()),
    ("block_race", "determinism", "blocks add to one number without atomics", _RACES, ()),
    ("rows_on_y", "sizes", "rows along y of the grid, which has 65,535 at most", (), ()),
    ("unchecked_launch", "sizes", "nobody asks whether the launch failed, as it does beyond 48 KB", _RACES, ()),
    ("lost_error", "outputs written", "the error of a failed launch is cleared", _RACES, ()),
    ("zero_blocks", "empty", "a launch of no blocks fails", (), ()),
    ("capped_grid", "outputs written", "a capped grid without a loop", _RACES, ()),
    ("thread_index", "outputs written", "the index leaves out the block", _RACES, ()),
    ("full_tiles", "outputs written", "only full tiles are transposed", _RACES, ()),
    ("many_blocks", "sizes", "the second step of a sum takes 1024 partial sums", (), ()),
    ("vectors_of_4", "strides", "loads of 16 bytes from a view that is not aligned", (), ()),
    ("stores_of_4", "writes outside", "the last store of 16 bytes goes past the end", (), ()),
    ("reads_next", "reads outside", "the last element's neighbour is read", _RACES, ()),
    ("in_place", "inputs unchanged", "the input is scaled in place", ("determinism", "vmap"), ()),
    ("far_rows", "large", "an offset is kept in 32 bits", (), ()),
    ("row_pitch", "strides", "ignores the stride of rows", (), ()),
    ("half_atomics", "determinism", "a sum by atomics in half precision", _RACES, ()),
    ("half_squares", "magnitude", "squares in half precision overflow", (), ()),
    ("row_minimum", "value", "atomicMin on the bits of floats", ("sizes", "empty"), ()),
    ("row_maximum", "special values", "fmaxf loses NaN", (), ()),
    ("fast_divide", "magnitude", "__fdividef is 0 for large divisors", (), ()),
    ("fast_log", "magnitude", "a logarithm of fast math takes denormals for 0", (), ()),
    ("fast_tanh", "value", "tanh.approx is right to three digits", ("sizes", "magnitude"), ()),
    ("in_float", "value", "computed in float32 in a float64 operator", (), ()),
    ("other_stream", "streams", "the default stream instead of the current one", (), ()),
    ("own_stream", "streams", "a stream of its own, which does not wait for the current one", _EARLY, ()),
    ("first_gpu", "devices", "the first GPU, wherever the tensors are", (), ()),
    ("kept_workspace", "streams", "memory is kept from call to call, for all streams", (), ()),
    ("device_array", "streams", "a static array of the device holds partial sums", (), ()),
    ("constant_memory", "streams", "an argument in constant memory, for all streams", ("graph",), ()),
    ("pinned_argument", "streams", "an argument is copied from pinned memory that the next call overwrites", (), ()),
    # What it reads is the count of the call before.
    (
        "early_count",
        "determinism",
        "the host reads a count before the copy to it is over",
        (*_RACES, "state", "graph"),
        (),
    ),
    ("waits", "graph", "the host waits for the stream", (), ()),
    ("allocates", "graph", "cudaMalloc in each call", (), ()),
    ("clears_on_default", "graph", "the output is cleared on the default stream", ("streams",), ()),
    (
        "accumulates",
        "outputs written",
        "a gradient is added to memory that nobody has cleared",
        ("gradient", "second gradient", "func.grad", "jvp", *_RACES),
        (),
    ),
    (
        "last_block_wins",
        "gradient",
        "each group of rows stores its part of the gradient",
        ("second gradient", "func.grad", "determinism"),
        (),
    ),
)

# Where blocks run one after another the last one's part stays; on a GPU it is any one's.
_RACE_ON_A_GPU = frozenset({"last_part_wins"})

# All that a machine with a GPU can check, and what needs none, through Triton's interpreter.
ALL_ROWS: tuple[Planted, ...] = (
    *GPU_TABLE,
    *(
        replace(row, named="determinism", also=_RACES) if row.name in _RACE_ON_A_GPU else row
        for row in (TRITON_ROWS if find_spec("triton") else ())
    ),
)
INTERPRETED_ROWS = tuple(row for row in TRITON_ROWS if row.name not in NEED_A_GPU)

# These need a second GPU.
TWO_GPUS = frozenset({"devices"})
# What takes seconds for every operator, or gigabytes, is looked at where a row names it.
_DEAR = frozenset({"opcheck", "compile", "export", "bad arguments", "memory growth", "large", "devices", "threads"})


def rows_on(device: Device) -> tuple[Planted, ...]:
    """Return the rows of a GPU, or those of Triton's interpreter."""
    return ALL_ROWS if device == "cuda" else INTERPRETED_ROWS


def properties_of(row: Planted) -> tuple[Property, ...]:
    """Return what a row is checked for: all properties but those that are dear and another's."""
    return tuple(item for item in PROPERTIES if item.name not in _DEAR - {row.named})


def subject(row: Planted, device: Device, *, planted: bool, seed: int = 0) -> Subject:
    """Return the operator on a device, with the defect or without it."""
    return subject_of(getattr(module(row.file, planted), row.name), devices=(device,), seed=seed)
