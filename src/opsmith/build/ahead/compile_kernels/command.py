"""The program's command line, and its steps."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from .hosted import make_hosted_object
from .images import make_object
from .producer import FailureError, Order

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Run the program and return its exit status."""
    at = argv.index("--")
    parser = argparse.ArgumentParser()
    parser.add_argument("--by", choices=("triton", "nvrtc", "cute"), required=True)
    parser.add_argument("request", type=Path)
    parser.add_argument("kernel", type=Path)
    parser.add_argument("--image", action="append", required=True)
    parser.add_argument("--library", type=Path)
    parser.add_argument("--opsmith", type=Path)
    parser.add_argument("--include", type=Path, action="append", default=[])
    parser.add_argument("--cuda", type=Path, action="append", default=[])
    parser.add_argument("-MF", dest="depfile", type=Path, required=True)
    parser.add_argument("-o", dest="output", type=Path, required=True)
    given = parser.parse_args(argv[:at])
    request = json.loads(given.request.read_text(encoding="utf-8"))
    # Each in a module of its own, because one does not need what the other does.
    produce = importlib.import_module(f"{__package__}.{given.by}_produce").produce
    order = Order(
        given.request.name,
        request,
        given.kernel,
        given.output,
        tuple(given.image),
        library=given.library,
        opsmith=given.opsmith,
        include=tuple(given.include),
        cuda=tuple(given.cuda),
    )
    try:
        made = produce(order)
    except FailureError as error:
        print(error, file=sys.stderr)
        return 1
    _write_depfile(given.depfile, given.output, made.files)
    table = f"{given.by}_{request['operator']}"
    rest = (request["operator"], table, len(given.image), given.output, argv[at + 1 :])
    return make_object(made.images, *rest) if made.images else make_hosted_object(made.hosted, *rest)


def _write_depfile(depfile: Path, output: Path, files: Iterable[str]) -> None:
    rule = " ".join([f"{_quoted(str(output))}:", *map(_quoted, files)])
    depfile.write_text(f"{rule} \n", encoding="utf-8", errors="surrogateescape")


def _quoted(name: str) -> str:
    """Quote a name for Make as store/depfile.py does, which this program cannot import."""
    quoted = re.sub(r"(\\*)([ \t])", r"\1\1\\\2", re.sub(r"([#:])", r"\\\1", name.replace("$", "$$")))
    return quoted + "\\" * (len(quoted) - len(quoted.rstrip("\\")))
