"""The program's command line, and its steps."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

from .compiling import compile_all, describe
from .errors import import_error
from .images import Image, make_object
from .kernel import files_of, import_kernel, place_of

__all__ = ["main"]


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
            function = import_kernel(given.kernel, request["module"], request["function"])
        except Exception as error:
            print(import_error(error, given.kernel), file=sys.stderr)
            return 1
        tasks = [(variant, image) for variant in request["kernels"] for image in given.image]
        images: list[Image] = []
        for (variant, _), made in zip(tasks, compile_all(function, tasks), strict=False):
            if isinstance(made, str):
                file, line = place_of(function)
                print(f"{made}\n{file}:{line}: note: compiled for {describe(variant)}", file=sys.stderr)
                return 1
            images.append(made)
    _write_depfile(given.depfile, given.output, files_of(function, before))
    return make_object(images, request["operator"], len(given.image), given.output, argv[at + 1 :])


def _prepare_triton(cache: Path) -> None:
    """Import Triton as it is without the user's settings: they are not part of what a build depends on."""
    for name in list(os.environ):
        if name.startswith("TRITON_"):
            del os.environ[name]
    os.environ["TRITON_CACHE_DIR"] = str(cache)
    # Lines lead to absolute paths, which would differ between machines.
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
    # Backends of other packages are found by a search through all that is installed; these kernels are for NVIDIA's.
    os.environ["TRITON_BACKENDS_IN_TREE"] = "1"
    warnings.simplefilter("ignore")
    from triton.runtime import cache as keys

    # The key of its cache has a digest of Triton's own files, half a gigabyte. In a cache of one run it tells nothing apart.
    if hasattr(keys, "triton_key"):
        keys.triton_key = lambda: ""


def _write_depfile(depfile: Path, output: Path, files: list[str]) -> None:
    names = " ".join(file.replace(" ", "\\ ") for file in files)
    depfile.write_text(f"{output}: {names}\n", encoding="utf-8")
