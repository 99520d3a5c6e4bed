"""Compiles the variants of one Triton kernel, and makes an object of them: a program that a step of a plan runs.

    compile_kernels.py REQUEST KERNEL.py --image cubin:90 -MF DEPFILE -o OBJECT -- g++ ...

No GPU is needed. It imports nothing of opsmith. Errors are written as compilers write them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import struct
import subprocess
import sys
import sysconfig
import tempfile
import traceback
import types
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What stands before each image, for who looks for them in a library (package/audit/images.py): a mark, whether it is PTX
# (1) or machine code (2), the architecture, whether it is for that one alone, and the size.
_HEADER = struct.Struct("<8sIIIxxxxQ")
_MARK = b"OPSMITHK"

# Below so many compilations another process costs more than it saves. Several kernels are compiled side by side, so one
# does not take all cores; each process needs 200 MB.
_WORTH_A_PROCESS, _MOST_PROCESSES = 2, 4


@dataclass(frozen=True)
class Image:
    """One compiled kernel, and what a launch has to know of it (include/opsmith/embedded.h)."""

    arch: int
    is_exact: bool
    is_ptx: bool
    threads: int
    shared_bytes: int
    scratch: int
    name: str
    data: bytes


class RefusalError(Exception):
    """What a kernel needs and a launcher does not offer."""


def main(argv: Sequence[str]) -> int:
    """Run the program and return its exit status."""
    at = argv.index("--")
    parser = argparse.ArgumentParser()
    parser.add_argument("request", type=Path)
    parser.add_argument("kernel", type=Path)
    parser.add_argument("--image", action="append", required=True)
    parser.add_argument("-MF", dest="depfile", type=Path, required=True)
    parser.add_argument("-o", dest="output", type=Path, required=True)
    given = parser.parse_args(argv[:at])
    request = json.loads(given.request.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(dir=given.output.absolute().parent, prefix="triton-") as cache:
        _prepare_triton(Path(cache))
        before = set(sys.modules)
        try:
            function = _import_kernel(given.kernel, request["module"], request["function"])
        except Exception as error:
            print(_import_error(error, given.kernel), file=sys.stderr)
            return 1
        tasks = [(variant, image) for variant in request["kernels"] for image in given.image]
        images: list[Image] = []
        for (variant, _), made in zip(tasks, _compile_all(function, tasks), strict=False):
            if isinstance(made, str):
                where = f"{function.file_name}:{function.def_file_line_number}"
                print(f"{made}\n{where}: note: compiled for {_describe(variant)}", file=sys.stderr)
                return 1
            images.append(made)
    _write_depfile(given.depfile, given.output, _files_of(function, before))
    return _make_object(images, request["operator"], len(given.image), given.output, argv[at + 1 :])


def _prepare_triton(cache: Path) -> None:
    """Import Triton as it is without the user's settings: they are not part of what a build depends on."""
    for name in list(os.environ):
        if name.startswith("TRITON_"):
            del os.environ[name]
    os.environ["TRITON_CACHE_DIR"] = str(cache)
    # Lines lead to absolute paths, which would differ between machines.
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
    warnings.simplefilter("ignore")
    import triton  # noqa: F401


def _import_kernel(file: Path, module: str, name: str) -> Any:
    """Import a kernel's file as a module of its package, without running the package's own files: they may need a GPU."""
    *packages, _ = module.split(".")
    folder = file.parent
    for count in range(len(packages), 0, -1):
        package = types.ModuleType(".".join(packages[:count]))
        package.__path__ = [str(folder)]
        sys.modules[package.__name__] = package
        folder = folder.parent
    sys.path.append(str(folder))
    spec = importlib.util.spec_from_file_location(module, file)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    spec.loader.exec_module(loaded)
    function = getattr(loaded, name)
    while hasattr(function, "fn") and not _is_jit(function):
        function = function.fn  # autotuners and heuristics are around it
    if not _is_jit(function):
        raise RefusalError(f"{name} is {type(function).__name__}, not a function of @triton.jit")
    return function


def _is_jit(function: Any) -> bool:
    from triton.runtime.jit import JITFunction

    return isinstance(function, JITFunction)


def _compile_all(function: Any, tasks: list[tuple[dict[str, Any], str]]) -> Iterator[Image | str]:
    """Yield the image of each task, or the message of its error. Several processes share the work."""
    processes = min(len(os.sched_getaffinity(0)), len(tasks) // _WORTH_A_PROCESS, _MOST_PROCESSES)
    if processes < 2:
        yield from (_compile(function, variant, image) for variant, image in tasks)
        return
    # Forked, they have Triton and the kernel already.
    _forked.append(function)
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap(_compile_forked, tasks)


# The kernel, for the processes that are forked.
_forked: list[Any] = []


def _compile_forked(task: tuple[dict[str, Any], str]) -> Image | str:
    return _compile(_forked[0], *task)


def _compile(function: Any, variant: dict[str, Any], image: str) -> Image | str:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    import triton

    kind, _, arch = image.partition(":")
    names = list(variant["types"])
    multiples = {(names.index(name),): [["tt.divisibility", 16]] for name in variant["multiples"]}
    source = ASTSource(function, variant["types"], variant["constants"], multiples)
    try:
        made = triton.compile(source, target=GPUTarget("cuda", int(arch), 32), options=variant["options"])
        _refuse(made.metadata)
    except Exception as error:
        return _compile_error(error, function)
    text = made.asm["ptx"]
    arguments = sum(kind != "constexpr" for kind in variant["types"].values())
    return Image(
        arch=int(arch),
        is_exact=f".target sm_{arch}a" in text,
        is_ptx=kind == "ptx",
        threads=made.metadata.num_warps * made.metadata.warp_size,
        shared_bytes=made.metadata.shared,
        scratch=text.partition(".entry")[2].partition("{")[0].count(".param ") - arguments,
        name=made.metadata.name,
        data=text.encode() + b"\0" if kind == "ptx" else made.asm["cubin"],
    )


def _refuse(metadata: Any) -> None:
    """Raise RefusalError for what a launch would need and launchers do not do."""
    needs = {
        "scratch memory on the GPU (tensor descriptors made in the kernel, profiling)": metadata.global_scratch_size
        or metadata.profile_scratch_size,
        "tensor descriptors": getattr(metadata, "tensordesc_meta", None),
        "a cooperative launch": metadata.launch_cooperative_grid,
        "clusters of blocks (num_ctas)": metadata.num_ctas != 1,
    }
    for what, is_needed in needs.items():
        if is_needed:
            raise RefusalError(f"it needs {what}, which a kernel compiled ahead cannot have yet")


def _describe(variant: dict[str, Any]) -> str:
    words = [f"{name}={kind}" for name, kind in variant["types"].items() if kind != "constexpr"]
    words += [f"{name}={value!r}" for name, value in {**variant["constants"], **variant["options"]}.items()]
    return ", ".join(words)


def _import_error(error: BaseException, kernel: Path) -> str:
    """Return the message of an error at the line of the kernel's file that led to it."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: error: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(kernel)]
    line = frames[-1].lineno if frames else 1
    return f"{kernel}:{line}: error: {_first_line(error)}"


def _compile_error(error: BaseException, function: Any) -> str:
    """Return the messages of Triton's error: where it is, and by which calls the kernel came there."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    placed = [(found, place) for found in chain if (place := _place(found, function)) is not None]
    what = _reason(chain)
    if not placed:
        line = function.def_file_line_number
        return f"{function.file_name}:{line}: error: {what}"
    lines = [f"{placed[-1][1]}: error: {what}"]
    lines += [f"{place}: note: called from here" for _, place in reversed(placed[:-1])]
    return "\n".join(lines)


def _reason(chain: list[BaseException]) -> str:
    """Return the words of the innermost error that has any."""
    for error in reversed(chain):
        text = getattr(error, "error_message", None) or (None if hasattr(error, "node") else str(error))
        if text:
            prefix = "" if hasattr(error, "node") or isinstance(error, RefusalError) else f"{type(error).__name__}: "
            return prefix + " ".join(text.split())
    return _first_line(chain[0])


def _place(error: BaseException, function: Any) -> str | None:
    """Return `file:line:column` of Triton's own errors, which count lines from the function's own."""
    node, text = getattr(error, "node", None), getattr(error, "src", None)
    if node is None or not hasattr(node, "lineno"):
        return None
    owner = next((each for each in _closure(function) if each.src == text), function)
    return f"{owner.file_name}:{owner.def_file_line_number + node.lineno - 1}:{node.col_offset + 1}"


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip() or 'no message'}".partition("\n")[0]


def _closure(function: Any) -> list[Any]:
    """Return a function and all those of Triton's that it calls, directly or not."""
    found: list[Any] = []
    todo = [function]
    while todo:
        each = todo.pop()
        if each in found:
            continue
        found.append(each)
        scope = each.get_capture_scope() if hasattr(each, "get_capture_scope") else each.fn.__globals__
        for name in each.fn.__code__.co_names:
            value = scope.get(name)
            if _is_jit(value):
                todo.append(value)
            elif isinstance(value, types.ModuleType):
                todo += [item for other in each.fn.__code__.co_names if _is_jit(item := getattr(value, other, None))]
    return found


def _files_of(function: Any, before: set[str]) -> list[str]:
    """Return the files that decide what is compiled: those that the kernel's import has run, and those of its functions."""
    installed = [sysconfig.get_path(name) for name in ("stdlib", "platlib", "purelib")]
    files = {each.file_name for each in _closure(function) if not each.file_name.startswith(_triton_folder())}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name not in before and file and not file.startswith(tuple(f"{folder}/" for folder in installed)):
            files.add(file)
    return sorted(files)


def _triton_folder() -> str:
    import triton

    assert triton.__file__ is not None
    return str(Path(triton.__file__).parent)


def _write_depfile(depfile: Path, output: Path, files: list[str]) -> None:
    names = " ".join(file.replace(" ", "\\ ") for file in files)
    depfile.write_text(f"{output}: {names}\n", encoding="utf-8")


def _make_object(images: list[Image], operator: str, per_kernel: int, output: Path, host: Sequence[str]) -> int:
    """Compile the table of the images, and the images themselves, each distinct one once; return the exit status."""
    table, blob = output.with_suffix(".table.cpp"), output.with_suffix(".images")
    places: dict[bytes, int] = {}
    with blob.open("wb") as file:
        for image in images:
            if image.data not in places:
                file.write(b"\0" * (-file.tell() % 16))
                file.write(_HEADER.pack(_MARK, 1 if image.is_ptx else 2, image.arch, image.is_exact, len(image.data)))
                places[image.data] = file.tell()
                file.write(image.data)
    table.write_text("\n".join(_table(images, places, operator, per_kernel, blob.name)), encoding="utf-8")
    done = subprocess.run([*host, "-c", str(table), "-o", str(output)], check=False)
    return done.returncode


def _table(images: list[Image], places: dict[bytes, int], operator: str, per_kernel: int, blob: str) -> Iterator[str]:
    symbol = f"opsmith_images_{operator}"
    yield "// Generated by opsmith; do not edit."
    yield "#include <opsmith/embedded.h>"
    # A section of its own, in which `opsmith audit` finds the images.
    yield f'asm(".pushsection .opsmith_images,\\"a\\",@progbits\\n.balign 16\\n.hidden {symbol}\\n.globl {symbol}\\n"'
    yield f'    "{symbol}:\\n.incbin \\"{blob}\\"\\n.popsection\\n");'
    yield f'extern "C" [[gnu::visibility("hidden")]] const unsigned char {symbol}[];'
    yield "namespace opsmith {"
    yield "namespace embedded {"
    yield "static const Image images[] = {"
    for image in images:
        flags = f"{str(image.is_exact).lower()}, {str(image.is_ptx).lower()}"
        numbers = f"{image.threads}, {image.shared_bytes}, {image.scratch}"
        yield f'    {{{image.arch}, {flags}, {numbers}, "{image.name}", {symbol} + {places[image.data]}}},'
    yield "};"
    count = len(images) // per_kernel
    yield f"extern const Kernel triton_{operator}[{count}];"
    yield f"const Kernel triton_{operator}[{count}] = {{"
    for index in range(count):
        yield f"    {{images + {index * per_kernel}, {per_kernel}}},"
    yield "};"
    yield "}  // namespace embedded"
    yield "}  // namespace opsmith"
    yield ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
