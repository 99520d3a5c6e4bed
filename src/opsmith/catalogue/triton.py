"""Lists what Triton says of kernels that it does not compile, where its words do not say what to do."""

from __future__ import annotations

from opsmith.catalogue.entry import Entry

__all__ = ["ENTRIES"]

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "triton-power-of-two",
        "A block's size is not a power of 2",
        r"arange's range must be a power of 2",
        ("Triton's tensors have sizes that are powers of 2.",),
        ("Take the next power of 2 and mask what is too much: `tl.load(x + at, mask=at < n)`.",),
        "ValueError: arange's range must be a power of 2",
        words=("must be a power of 2",),
    ),
    Entry(
        "triton-size-of-a-block",
        "A block's size is not known when the kernel is compiled",
        r"arange's arguments must be of type tl\.constexpr",
        ("The size of a block is an argument of the call, and has to be a constant of the kernel.",),
        (
            "Give the kernel a parameter `BLOCK: tl.constexpr` and the launch its value, `opsmith.triton(..., BLOCK=1024)`, "
            "and mask with the size of the call. For a block as large as a row, list configurations with conditions.",
        ),
        "ValueError: arange's arguments must be of type tl.constexpr",
        words=("arange's arguments",),
    ),
    Entry(
        "triton-global",
        "A Triton kernel reads a global variable",
        r"Cannot access global variable (?P<variable>\w+) from within @jit'ed function",
        ("{variable} is a plain Python value, and a kernel may only read constants of Triton's.",),
        ("Write `{variable} = tl.constexpr(...)` in the module, or make it a parameter with `: tl.constexpr`.",),
        "NameError: Cannot access global variable FACTOR from within @jit'ed function.",
        words=("Cannot access global variable",),
    ),
    Entry(
        "triton-shapes",
        "Tensors of a Triton kernel have different shapes",
        r"Cannot make_shape_compatible: incompatible dimensions at index \d+: (?P<one>\d+) and (?P<other>\d+)",
        (
            "Two tensors are combined whose sizes are {one} and {other} in one dimension; only a size of 1 is broadcast.",
        ),
        (
            "Where rows and columns meet, give each a dimension of its own, `tl.expand_dims(rows, 1)`, and compare the "
            "sizes of their blocks.",
        ),
        "ValueError: Cannot make_shape_compatible: incompatible dimensions at index 0: 64 and 32",
        words=("make_shape_compatible",),
    ),
    Entry(
        "triton-unsupported-gpu",
        "A release of Triton does not compile for an AMD GPU",
        r"error: unsupported target: '(?P<arch>gfx\w+)'",
        ("This release of Triton has no code generation for {arch}.",),
        (
            "Name other architectures, `--arch 'gfx90a;gfx942'`, or build with another release: 3.8 still compiles for "
            "gfx1030.",
        ),
        "<unknown>:0: error: unsupported target: 'gfx1030'",
        words=("unsupported target",),
    ),
    Entry(
        "triton-without-backends",
        "Triton does not find its own backends",
        r"0 compatible backends for target",
        (
            "Triton finds its backends by the metadata of its package, which this Python does not see: the folder `triton` "
            "was copied or linked without the folder `triton-*.dist-info` beside it.",
        ),
        ("Install it as a whole in the environment that builds: `pip install triton`.",),
        "RuntimeError: 0 compatible backends for target (cuda) ([]). There should only be one.",
        words=("compatible backends for target",),
    ),
)
