"""Runs in a sanitizer's process: makes every call of the suite that the reference takes, and gradients of some.

`opsmith.checker.sanitize.run` starts it as `python -m opsmith.checker.sanitize.child REQUEST`, with a JSON text. Results
are compared with nothing here: the sanitizer reports on stderr.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

__all__ = ["main"]

# Integer extremes overflow in the reference as well, where PyTorch means them to wrap around.
_WRAPS = frozenset({"extremes", "wide"})


def main(text: str) -> None:
    """Make the calls and print a mark before each, and how many there were at the end."""
    # Compilers that start from here run without the sanitizer.
    os.environ.pop("LD_PRELOAD", None)
    request = json.loads(text)
    sys.path[:0] = [folder for folder in request["search"] if folder not in sys.path]
    from opsmith.checker.process.timed_cases import interleaved
    from opsmith.checker.sanitize.output import MARK

    subject = _subject(request)
    asked = set(request["dtypes"])
    columns = [dtypes for dtypes in subject.dtypes if not asked or asked & set(dtypes.values())]
    made = left_out = 0
    started, seconds = time.monotonic(), request["seconds"]
    for number, dtypes in enumerate(columns, 1):
        cases = interleaved(subject.suite.cases(dtypes))
        for index, case in enumerate(cases):
            if seconds is not None and index > 0 and time.monotonic() - started > seconds * number / len(columns):
                left_out += len(cases) - index
                break
            if any(recipe.values in _WRAPS for recipe in case.tensors().values()) and request["kind"] == "undefined":
                continue
            words = ", ".join(dtypes.values())
            print(f"{MARK}{case.label}{f' ({words})' if words else ''}", file=sys.stderr, flush=True)
            made += _call(subject, case, request["device"])
    print(f"{MARK}the end", file=sys.stderr, flush=True)
    print(json.dumps({"made": made, "left_out": left_out}), flush=True)


def _subject(request: Mapping[str, Any]) -> Any:
    from opsmith.subject.find import find_attribute, find_operators
    from opsmith.subject.subject import subject_of

    for module in request["imports"]:
        importlib.import_module(module)
    (op,) = find_operators(request["path"])
    _load(op)
    more = {name: find_attribute(request[name], name) for name in ("reference", "examples") if request[name]}
    from opsmith.subject.index_bounds import with_index_bounds

    return with_index_bounds(subject_of(op, devices=(request["device"],), seed=request["seed"], **more))


def _load(op: Any) -> None:
    """Build and load the operator's library, whatever lies next to its module."""
    import torch

    from opsmith.runtime.operator import Operator, load_module

    torch.set_num_threads(max(4, torch.get_num_threads()))
    if isinstance(op, Operator):
        load_module(op.definition.module, anew=True)


def _call(subject: Any, case: Any, device: str) -> int:
    """Make a call, and for ordinary ones the gradient's; return 0 if the reference refuses it."""
    import torch

    try:
        subject.results(subject.reference, case.build("cpu"))
    except Exception:
        return 0
    values = case.build(device)
    wanted = [] if case.group not in ("plain", "sizes", "layouts", "empty") else _differentiable(subject, values)
    with contextlib.suppress(Exception):  # what it raises is for other properties to judge
        found = subject.kernel_results(values)
        results = [result for result in found if result.requires_grad]
        if wanted and results:
            torch.autograd.grad(results, wanted, [torch.ones_like(r) for r in results], allow_unused=True)
    if device != "cpu":
        torch.cuda.synchronize()
    return 1


def _differentiable(subject: Any, values: dict[str, Any]) -> list[Any]:
    import torch

    found = []
    for name in subject.differentiable if subject.operator is not None and not subject.mutated else ():
        value = values.get(name)
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            values[name] = value.detach().requires_grad_()
            found.append(values[name])
    return found


if __name__ == "__main__":
    main(sys.argv[1])
