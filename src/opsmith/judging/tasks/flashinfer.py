"""Reads a definition of FlashInfer-Bench: JSON with axes, inputs, outputs and a reference in Python.

Its candidates have a function `run` of the inputs, which returns the outputs or is given them. Sizes of variable axes
come from the recorded workloads, where the data set is there; from small ones that meet its constraints otherwise.
"""

from __future__ import annotations

import ast
import functools
import json
import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from opsmith.errors import ArgumentError
from opsmith.judging.candidate import Entry, Packing
from opsmith.judging.task import Task
from opsmith.judging.tasks.places import generator_of
from opsmith.judging.tasks.symbols import signature_of
from opsmith.spec.dtypes import from_torch
from opsmith.spec.signature import Signature

__all__ = ["is_definition", "read_flashinfer", "workload_files"]

_WHAT = "a definition of FlashInfer-Bench"
_MOST_WORKLOADS = 4
# Of variable axes without workloads, tried in turn until the constraints hold.
_SIZES = (64, 16, 48, 8, 4, 2, 1)
_PLAIN = {"float": 0.5, "int": 1, "bool": True}


@dataclass(frozen=True)
class _Spec:
    """An input or an output; `shape` is None for a number."""

    shape: tuple[str, ...] | None
    dtype: str

    @property
    def kind(self) -> str:
        """Which type of Python's a number has."""
        return "bool" if self.dtype == "bool" else "int" if "int" in self.dtype else "float"


@dataclass(frozen=True)
class _Definition:
    name: str
    axes: Mapping[str, int | None]
    inputs: Mapping[str, _Spec]
    outputs: Mapping[str, _Spec]
    reference: str
    constraints: tuple[str, ...]
    path: Path


def is_definition(path: Path) -> bool:
    """Whether a file is such a definition by its name."""
    return path.suffix == ".json"


def read_flashinfer(path: Path) -> Task:
    """Return the task of a definition; raises ArgumentError for JSON that is not one."""
    definition = _read(path)
    run = _run_of(definition)
    workloads = _workloads(definition) or [({"axes": _sizes(definition), "inputs": {}})]
    posed = {_label(one): functools.partial(_inputs, definition, one) for one in workloads}
    first = next(iter(posed.values()))
    names = tuple(definition.inputs)
    outputs = _outputs(definition)
    packing: Packing = "destination" if outputs else "arguments"
    entry = Entry(("run",), packing, names, outputs=outputs, results=tuple(definition.outputs))
    return Task(
        definition.name, "flashinfer-bench", names, run, first, entry, posed,
        signature=_signature(definition, first(0)), path=path, notes=_notes(definition, workloads),
    )  # fmt: skip


def _read(path: Path) -> _Definition:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ArgumentError(f"{path} is not JSON, so it is not {_WHAT}: {error}") from error
    wanted = ("name", "axes", "inputs", "outputs", "reference")
    if not isinstance(found, dict) or (missing := [name for name in wanted if name not in found]):
        lacking = ", ".join(missing) if isinstance(found, dict) else "an object at its top"
        raise ArgumentError(f"{path} lacks {lacking}, so it is not {_WHAT}")
    try:
        axes = {name: int(axis["value"]) if axis["type"] == "const" else None for name, axis in found["axes"].items()}
        inputs, outputs = (
            {name: _Spec(None if one["shape"] is None else tuple(one["shape"]), one["dtype"]) for name, one in part}
            for part in (found["inputs"].items(), found["outputs"].items())
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArgumentError(f"{path}: an axis or a tensor is not described as {_WHAT} does it ({error!r})") from error
    definition = _Definition(
        str(found["name"]), axes, inputs, outputs, str(found["reference"]), tuple(found.get("constraints") or ()), path
    )
    _refuse_unknown(definition)
    return definition


def _refuse_unknown(definition: _Definition) -> None:
    """Raise ArgumentError for axes that are not declared, and for element types that PyTorch does not have."""
    for name, spec in {**definition.inputs, **definition.outputs}.items():
        if unknown := [axis for axis in spec.shape or () if axis not in definition.axes]:
            raise ArgumentError(f"{definition.path}: {name} has the axis {unknown[0]}, which is not among its axes")
        if not isinstance(getattr(torch, spec.dtype, None), torch.dtype):
            raise ArgumentError(f"{definition.path}: {name} has the element type {spec.dtype}, which PyTorch lacks")
    in_inputs = {axis for spec in definition.inputs.values() for axis in spec.shape or ()}
    free = [axis for axis, size in definition.axes.items() if size is None and axis not in in_inputs]
    if free:
        raise ArgumentError(f"{definition.path}: no input has the variable axis {free[0]}, so nothing tells its size")


def _run_of(definition: _Definition) -> Callable[..., Any]:
    """Return the reference's function `run`; tracebacks show its lines."""
    where = f"<reference of {definition.name}>"
    linecache.cache[where] = (len(definition.reference), None, definition.reference.splitlines(True), where)
    module = ModuleType(f"opsmith_reference_{definition.name}")
    try:
        exec(compile(definition.reference, where, "exec"), vars(module))
    except Exception as error:
        raise ArgumentError(f"{definition.path}: its reference raises {type(error).__name__}: {error}") from error
    run = getattr(module, "run", None)
    if not callable(run):
        raise ArgumentError(f"{definition.path}: its reference has no function run")
    outputs = tuple(definition.outputs)

    def reference(*values: Any) -> Any:
        found = run(*values)
        return tuple(found[name] for name in outputs) if isinstance(found, dict) else found

    return reference


def _workloads(definition: _Definition) -> list[dict[str, Any]]:
    """Return a few recorded workloads of a definition, from the smallest to the largest, if the data set is there."""
    root = _root_of(definition.path)
    found: dict[str, dict[str, Any]] = {}
    for path in workload_files(definition.path, definition.name):
        for line in path.read_text().splitlines():
            try:
                workload = json.loads(line)["workload"]
                workload = {"axes": dict(workload["axes"]), "inputs": dict(workload["inputs"]), "root": str(root)}
            except (ValueError, KeyError, TypeError):
                continue
            found.setdefault(_label(workload), workload)
    ordered = sorted(found.values(), key=lambda one: sum(one["axes"].values()))
    if len(ordered) <= _MOST_WORKLOADS:
        return ordered
    return [ordered[index * (len(ordered) - 1) // (_MOST_WORKLOADS - 1)] for index in range(_MOST_WORKLOADS)]


def workload_files(path: Path, name: str) -> list[Path]:
    """Return the files with the recorded workloads of a definition."""
    root = _root_of(path)
    return sorted((root / "workloads").rglob(f"{name}.jsonl")) if root is not None and is_definition(path) else []


def _root_of(path: Path) -> Path | None:
    return next((one for one in path.parents if (one / "workloads").is_dir()), None)


def _label(workload: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={size}" for name, size in workload["axes"].items()) or "as posed"


def _sizes(definition: _Definition) -> dict[str, int]:
    """Return sizes of the variable axes that meet the constraints; raises ArgumentError where none are found."""
    free = [name for name, size in definition.axes.items() if size is None]
    known = {name: size for name, size in definition.axes.items() if size is not None}
    for size in _SIZES:
        sizes = {**known, **dict.fromkeys(free, size)}
        for constraint in definition.constraints:
            sizes |= _solved(constraint, sizes, free)
        if all(_holds(constraint, sizes) for constraint in definition.constraints):
            return {name: sizes[name] for name in free}
    raise ArgumentError(f"{definition.path}: no sizes were found for its constraints; put it beside its workloads")


def _solved(constraint: str, sizes: Mapping[str, int], free: list[str]) -> dict[str, int]:
    """Return the size of a variable axis that an equation gives: `H_qo == H_kv * H_r`."""
    try:
        tree = ast.parse(constraint, mode="eval").body
    except SyntaxError:
        return {}
    if not (isinstance(tree, ast.Compare) and len(tree.ops) == 1 and isinstance(tree.ops[0], ast.Eq)):
        return {}
    for side, other in ((tree.left, tree.comparators[0]), (tree.comparators[0], tree.left)):
        if isinstance(side, ast.Name) and side.id in free:
            try:
                return {side.id: int(eval(ast.unparse(other), {}, dict(sizes)))}
            except Exception:
                return {}
    return {}


def _holds(constraint: str, sizes: Mapping[str, int]) -> bool:
    try:
        return bool(eval(constraint, {}, dict(sizes)))
    except Exception:
        return True  # it speaks of values, which are not there yet


def _inputs(definition: _Definition, workload: Mapping[str, Any], seed: int) -> Mapping[str, Any]:
    generator = generator_of(seed)
    sizes = {name: size if size is not None else int(workload["axes"][name]) for name, size in definition.axes.items()}
    found: dict[str, Any] = {}
    for name, spec in definition.inputs.items():
        source = workload["inputs"].get(name, {})
        if spec.shape is None:
            found[name] = source.get("value", _PLAIN[spec.kind] if name != "eps" else 1e-6)
        elif (recorded := _recorded(source, workload)) is not None:
            found[name] = recorded
        else:
            found[name] = _random(tuple(sizes[axis] for axis in spec.shape), getattr(torch, spec.dtype), generator)
    return found


def _random(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Return normal numbers, or of integers those that are indices of every tensor: 0 and 1."""
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator, device=generator.device).to(dtype)
    return torch.randint(0, 2, shape, generator=generator, device=generator.device).to(dtype)


def _recorded(source: Mapping[str, Any], workload: Mapping[str, Any]) -> Tensor | None:
    """Return a tensor that was recorded, where its file and the package safetensors are there."""
    if source.get("type") != "safetensors":
        return None
    path = Path(workload["root"], source["path"])
    try:
        from safetensors import safe_open
    except ImportError:
        return None
    if not path.is_file():
        return None
    with safe_open(str(path), framework="pt") as file:
        tensor = file.get_tensor(source["tensor_key"])
    return tensor if isinstance(tensor, Tensor) else None


def _outputs(definition: _Definition) -> tuple[tuple[tuple[int | str, ...], str], ...]:
    """Return the outputs that a candidate may be given; none where one of them is a number."""
    if any(spec.shape is None for spec in definition.outputs.values()):
        return ()
    places: dict[str, int | str] = {name: size for name, size in definition.axes.items() if size is not None}
    for name, spec in definition.inputs.items():
        for dim, axis in enumerate(spec.shape or ()):
            places.setdefault(axis, f"{name}.{dim}")
    return tuple((tuple(places[axis] for axis in spec.shape or ()), spec.dtype) for spec in definition.outputs.values())


def _signature(definition: _Definition, values: Mapping[str, Any]) -> Signature | None:
    """Return the shapes in symbols, or None for element types that opsmith does not generate."""
    tensors = [value for value in values.values() if isinstance(value, Tensor)]
    if any(from_torch(value.dtype) is None for value in tensors):
        return None

    def words(spec: _Spec) -> list[str]:
        return [axis if definition.axes[axis] is None else str(definition.axes[axis]) for axis in spec.shape or ()]

    dims = {name: words(spec) for name, spec in definition.inputs.items()}
    outputs = [(name, getattr(torch, spec.dtype), words(spec)) for name, spec in definition.outputs.items()]
    if any(from_torch(dtype) is None for _, dtype, _ in outputs):
        return None
    return signature_of(definition.name, values, dims, outputs)


def _notes(definition: _Definition, workloads: list[dict[str, Any]]) -> tuple[str, ...]:
    if not workloads[0].get("root"):
        return (f"no workloads lie beside it: the sizes are {_label(workloads[0])}, and values are random",)
    recorded = [
        name
        for name in definition.inputs
        for one in workloads
        if one["inputs"].get(name, {}).get("type") == "safetensors" and _recorded(one["inputs"][name], one) is None
    ]
    names = ", ".join(dict.fromkeys(recorded))
    return (f"recorded inputs are not there (their files, or safetensors), and random: {names}",) if names else ()
