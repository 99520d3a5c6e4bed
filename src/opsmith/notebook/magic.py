"""Defines `%%opsmith` for IPython: runs a cell, gives the notebook its names, and shows its errors at its lines."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic_arguments import MagicArgumentParser

from opsmith.errors import CheckError, OpsmithError
from opsmith.notebook.cell import DEFINITION, Cell, read_cell
from opsmith.notebook.module import build_cell, cells_folder, execute_cell
from opsmith.notebook.reports import show_reports
from opsmith.notebook.save import save_cell

__all__ = ["load_ipython_extension"]

# The command that prints prototypes knows no cells, and the message has the prototype.
_STUB_ADVICE = re.compile(r"\n\n`opsmith stub cell_\w+` prints .*")


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Give a shell `%%opsmith`, and have it show reports of checks and benchmarks; `%load_ext opsmith` calls this."""
    parser = _parser()

    def opsmith(line: str, text: str) -> None:
        options = parser.parse_argstring(line)  # type: ignore[no-untyped-call]
        _run(shell, options, text)

    opsmith.__doc__ = f"""Define an operator and its kernels in one cell; build them, and bind its names here.

{parser.format_help()}
The cell is a module in Python and, after each line `%%file NAME`, a file that belongs to it:

    %%opsmith
    import opsmith
    from jaxtyping import Float
    from torch import Tensor

    @opsmith.op(cpu="twice.cpp")
    def twice(x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        return 2 * x

    %%file twice.cpp
    #include <opsmith/kernel.h>
    ...

Each version of a cell has a namespace of its own in torch.ops. The names in the notebook are the newest version's;
objects of earlier ones stay valid.
"""
    register: Any = shell.register_magic_function
    register(opsmith, "cell")
    show_reports(shell)


def _parser() -> MagicArgumentParser:
    parser = MagicArgumentParser("%opsmith", add_help=False)  # type: ignore[no-untyped-call]
    for name, help_text in (
        ("--check", "Check the operators of the cell, and show the report."),
        ("--bench", "Time them, and show the report with plots."),
    ):
        parser.add_argument(name, nargs="?", type=float, const=0.0, metavar="SECONDS", help=help_text)
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="Write the cell's files there, as a package.")
    return parser


def _run(shell: InteractiveShell, options: Namespace, text: str) -> None:
    """Run a cell; what it raises is shown without the frames between IPython and the cell's own."""
    number = _number_of_cell(shell)
    cell: Cell | None = None
    try:
        cell = read_cell(text)
        _name_lines(shell, cell, number)
        module = execute_cell(cell, elsewhere=shell.user_ns)
        build_cell(module)
        names = {name: value for name, value in vars(module).items() if not name.startswith("_")}
        shell.push(names)  # type: ignore[no-untyped-call]
        if options.save is not None:
            save_cell(cell, options.save)
        _report(shell, module, options)
    except Exception as error:
        _tell_of_cell(shell, error, cell, number)
        raise


def _report(shell: InteractiveShell, module: ModuleType, options: Namespace) -> None:
    """Check and time the operators of a cell as its options say; raises CheckError after a report of something wrong."""
    if options.check is not None:
        from opsmith.checker.api import check

        reports = check(module, seconds=options.check or None)
        _show(shell, reports)
        if not reports.ok:
            raise CheckError(f"{', '.join(reports.failed)}: the report above says how")
    if options.bench is not None:
        from opsmith.benchmark.api import bench

        _show(shell, bench(module, **({"seconds": options.bench} if options.bench else {})))


def _show(shell: InteractiveShell, result: object) -> None:
    formatter: Any = shell.display_formatter
    shell.display_pub.publish(*formatter.format(result))


def _names_of_code(shell: InteractiveShell) -> dict[str, int]:
    """Return the numbers of cells by the file names of their code, which tracebacks of IPython read; {} if it has none."""
    names = getattr(shell.compile, "_filename_map", None)
    return names if isinstance(names, dict) else {}


def _number_of_cell(shell: InteractiveShell) -> int:
    """Return the number of the cell that runs: that of the shell is the next one's already in some releases."""
    names = _names_of_code(shell)
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if (number := names.get(frame.f_code.co_filename)) is not None:
            return number
        frame = frame.f_back
    return shell.execution_count


def _name_lines(shell: InteractiveShell, cell: Cell, number: int) -> None:
    """Have tracebacks name the cell where its module's files stand in them, now and whenever it is called."""
    _names_of_code(shell).update({str(cells_folder() / cell.module / name): number for name in cell.files})


def _tell_of_cell(shell: InteractiveShell, error: Exception, cell: Cell | None, number: int) -> None:
    """Make an exception's message and its traceback in IPython speak of the cell rather than of its module's files."""
    folder = str(cells_folder() / cell.module) if cell is not None else ""
    if isinstance(error, OpsmithError) and error.args and cell is not None:
        told = _STUB_ADVICE.sub("", str(error.args[0]))
        told = told.replace(f"{folder}/{DEFINITION}:", f"Cell In[{number}], line ")
        error.args = (told.replace(f"{folder}/", f"Cell In[{number}], "), *error.args[1:])
        error.__cause__ = None  # which it tells in its own words

    def render() -> Any:
        frames = _frames_of_cell(error, folder)
        return shell.InteractiveTB.structured_traceback(type(error), error, frames, tb_offset=0)

    error._render_traceback_ = render  # type: ignore[attr-defined]


def _frames_of_cell(error: Exception, folder: str) -> TracebackType | None:
    """Return the traceback of an exception from the first frame in a cell's files on.

    An exception of opsmith's says all itself: of it there are the cell's own frames alone, if any.
    """
    frames: list[TracebackType] = []
    entry = error.__traceback__
    while entry is not None:
        is_own = bool(folder) and entry.tb_frame.f_code.co_filename.startswith(folder)
        if is_own or (frames and not isinstance(error, OpsmithError)):
            frames.append(entry)
        entry = entry.tb_next
    if not frames and not isinstance(error, OpsmithError):
        return error.__traceback__
    shown = None
    for entry in reversed(frames):
        shown = TracebackType(shown, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shown
