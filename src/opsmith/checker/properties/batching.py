"""Calls an operator under torch.vmap, and compares with a loop over the samples."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from opsmith.checker.outcome import Finding, Outcome, failed, not_run, passed
from opsmith.checker.properties.agreement import RefusedError, disagreement
from opsmith.checker.properties.context import Context
from opsmith.checker.properties.fakes import depends_on_data
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.derivatives import first_line
from opsmith.subject.subject import Subject

__all__ = ["has_rule", "vmap"]

_SAMPLES = 3


@dataclass(frozen=True)
class _Batching:
    """Which tensors have one value for each sample, and where that dimension is in them and in the outputs."""

    names: tuple[str, ...]
    in_dim: int
    out_dim: int
    nested: bool = False

    def __str__(self) -> str:
        over = " and ".join(self.names)
        nested = "torch.vmap of torch.vmap" if self.nested else "torch.vmap"
        return f"{nested} over {over}, in_dims={self.in_dim}, out_dims={self.out_dim}"


def vmap(context: Context) -> Outcome:
    """torch.vmap over each tensor argument and over all, along other dimensions too, and nested, against a loop."""
    subject = context.subject
    if subject.overload is None:
        return not_run("it is not an operator of torch.ops: PyTorch batches what its Python code calls")
    if subject.mutated:
        return not_run(f"it writes to {', '.join(subject.mutated)}: samples would write to one tensor")
    if not has_rule(subject):
        return _missing(context)
    compared = 0
    for case in itertools.islice(subject.suite.cases(context.dtypes, "plain"), 2):
        for batching in _batchings(case):
            try:
                message = _wrong(context, case, batching)
            except RefusedError:
                break
            compared += 1
            if message is not None:
                return _judged(context, case, f"{batching}: {message}", compared)
    return (
        passed(compared) if compared else not_run("samples have results of different sizes, or the kernel rejects them")
    )


def _missing(context: Context) -> Outcome:
    """Return what the missing rule means: nothing, where it could not exist or PyTorch cannot register it."""
    subject = context.subject
    case = subject.suite.plain(context.dtypes)
    kinds = {str(argument.type) for argument in subject.overload._schema.arguments if "Tensor" in str(argument.type)}
    if kinds != {"Tensor"}:
        return not_run(
            "no vmap rule is registered; torch.vmap does not support operators with lists or optional tensors"
        )
    if depends_on_data(subject, case.build(context.device)):
        return not_run("sizes of results depend on the data: samples have results of different sizes")
    name = str(subject.overload).removesuffix(".default").replace(".", "::", 1)
    return failed(
        Finding(
            "without a vmap rule, torch.vmap calls the kernel once for each sample, in a slow loop",
            hint=f"Register one: torch.library.register_vmap({name!r}), a function of (info, in_dims, *args).",
        )
    )


def _judged(context: Context, case: Case, message: str, compared: int) -> Outcome:
    """Return a finding, unless the kernel is wrong itself: then its results are not sure, and no measure."""
    for other in context.subject.suite.cases(context.dtypes, "plain", "layouts", "sizes", "empty"):
        try:
            if disagreement(context, other) is not None:
                return not_run(f"the kernel's own results are already wrong: {other.label}")
        except RefusedError:
            continue
    hint = "The rule gets tensors whose extra dimension is at in_dims, and returns that of its results in out_dims."
    return failed(Finding(message, case, hint), inputs=compared)


def has_rule(subject: Subject) -> bool:
    """Whether PyTorch knows how to batch the operator: by a rule, or because it is made of others."""
    if subject.overload is None:
        return False
    name = subject.overload.name()
    keys = ("FuncTorchBatched", "FuncTorchBatchedDecomposition", "CompositeImplicitAutograd")
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)


def _batchings(case: Case) -> Iterator[_Batching]:
    names = tuple(case.tensors())
    for chosen in [names, *((name,) for name in names if len(names) > 1)]:
        yield _Batching(chosen, 0, 0)
    yield _Batching(names, -1, 0)
    yield _Batching(names, 0, -1)
    yield _Batching(names, 0, 0, nested=True)


def _wrong(context: Context, case: Case, batching: _Batching) -> str | None:
    """Return how torch.vmap differs from a loop; raises RefusedError if the loop gives nothing to compare with."""
    subject = context.subject
    count = 2 * _SAMPLES if batching.nested else _SAMPLES
    samples = [_sample(case, batching.names, index).build(context.device) for index in range(count)]
    context.tell(case)
    try:
        for sample in samples:  # what the reference refuses, an index outside of a table, no kernel need survive
            subject.results(subject.reference, sample)
        each = [subject.kernel_results(sample) for sample in samples]
        expected = [torch.stack([one[index] for one in each]) for index in range(len(each[0]))]
    except Exception as error:
        raise RefusedError(str(error)) from error
    try:
        found = _batched(subject, samples, batching)
    except Exception as error:
        return f"it raises {type(error).__name__}: {first_line(error)}"
    for index, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one.shape != other.shape:
            return f"output {index} has shape {tuple(one.shape)}, a loop over the samples gives {tuple(other.shape)}"
        if not _is_close(one, other):
            wrong = int((one != other).sum())
            return f"output {index} differs from a loop over the samples in {wrong} of {other.numel()} elements"
    return None


def _batched(subject: Subject, samples: list[dict[str, Any]], batching: _Batching) -> list[Tensor]:
    """Return the outputs of torch.vmap, with the samples along dimension 0."""
    names = list(samples[0])
    stacked: list[Any] = []
    in_dims: list[Any] = []
    for name in names:
        value, dims = _stack(name, [sample[name] for sample in samples], batching)
        stacked.append(value)
        in_dims.append(dims)

    def call(*values: Any) -> tuple[Tensor, ...]:
        return tuple(subject.kernel_results(dict(zip(names, values, strict=True))))

    batched: Callable[..., Any] = torch.vmap(call, in_dims=tuple(in_dims), out_dims=batching.out_dim)
    if batching.nested:
        # Along dimension 0 lie groups of samples, and in each group the samples.
        batched = torch.vmap(batched, in_dims=tuple(in_dims))
        results = batched(*stacked)
        return [result.reshape(len(samples), *result.shape[2:]) for result in results]
    return [result.movedim(batching.out_dim, 0) for result in batched(*stacked)]


def _stack(name: str, values: list[Any], batching: _Batching) -> tuple[Any, Any]:
    first = values[0]
    if isinstance(first, list):
        items = [
            _stack(f"{name}[{index}]", [value[index] for value in values], batching) for index in range(len(first))
        ]
        return [value for value, _ in items], [dim for _, dim in items]
    if not isinstance(first, Tensor) or name not in batching.names:
        return first, None
    if batching.nested:
        groups = [torch.stack(values[start : start + _SAMPLES]) for start in range(0, len(values), _SAMPLES)]
        return torch.stack(groups), 0
    return torch.stack(values, batching.in_dim), batching.in_dim


def _sample(case: Case, names: tuple[str, ...], index: int) -> Case:
    """Return the case of a sample: other numbers in the tensors that differ from sample to sample."""

    def other(name: str, value: Any) -> Any:
        if isinstance(value, TensorRecipe) and name in names:
            return _other_numbers(value, index)
        if isinstance(value, tuple) and value and isinstance(value[0], TensorRecipe):
            return tuple(other(f"{name}[{number}]", item) for number, item in enumerate(value))
        return value

    return replace(case, arguments={name: other(name, value) for name, value in case.arguments.items()})


def _other_numbers(recipe: TensorRecipe, index: int) -> TensorRecipe:
    if recipe.given is None:
        return replace(recipe, seed=recipe.seed + 101 * index)
    # What indices and the like mean is not known; numbers may grow a little.
    is_floating = recipe.given.dtype.is_floating_point
    return replace(recipe, given=recipe.given * (1 + index / 8)) if is_floating else recipe


def _is_close(one: Tensor, other: Tensor) -> bool:
    if not other.dtype.is_floating_point:
        return torch.equal(one, other)
    # Sums in another order: a few digits less than the type has.
    tolerance = 8 * torch.finfo(other.dtype).eps ** 0.75
    return torch.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)
