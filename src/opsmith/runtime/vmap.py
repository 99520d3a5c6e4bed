"""Registers an operator's torch.vmap rule: one call for all samples, or one for each where nothing else is right.

The first of these that fits is taken:

1. the rule that the user declared with `@op.vmap`;
2. the new dimension joins a dimension of independent samples (see `spec.samples`), and the operator is called once;
3. vmap of the Python body, which is made of PyTorch's own operators;
4. a call for each sample: where PyTorch cannot batch the body either, and where the operator writes to its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._functorch.autograd_function import custom_function_call_vmap_helper
from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter
from torch._functorch.vmap import _add_batch_dim  # type: ignore[attr-defined]

from opsmith.errors import ArgumentError, OpsmithError
from opsmith.runtime.autocast import cast_arguments
from opsmith.runtime.bind import bind_arguments
from opsmith.runtime.torch_ops import overload_of
from opsmith.spec.definition import Definition
from opsmith.spec.sizes import SizeProgram, plan_sizes

if TYPE_CHECKING:
    from opsmith.runtime.vmap_samples import BatchedCall
    from opsmith.spec.samples import Samples

__all__ = ["register_vmap"]


def register_vmap(definition: Definition, lib: torch.library.Library) -> None:
    """Give an operator its behaviour under torch.vmap; what that is gets worked out when it is first asked for."""
    rule = _Rule(definition)

    def batched(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        return rule.apply(args, kwargs)

    lib.impl(definition.name, batched, "FuncTorchBatched", with_keyset=True)


class _Rule:
    """The kernel of an operator for tensors that torch.vmap has given one more dimension."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition

    @cached_property
    def overload(self) -> Any:
        return overload_of(self.definition.qualified_name)

    @cached_property
    def sizes(self) -> SizeProgram:
        return plan_sizes(self.definition.signature)

    @cached_property
    def samples(self) -> tuple[Samples, ...]:
        from opsmith.spec.samples import find_samples

        return find_samples(self.definition)

    def apply(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        from opsmith.runtime.vmap_samples import BatchedCall

        interpreter: Any = retrieve_current_functorch_interpreter()
        declared = self.definition.rules.vmap
        if declared is not None:
            return custom_function_call_vmap_helper(interpreter, declared, self.overload, *args, **kwargs)
        level = interpreter.level()
        values, dims = _unwrap(args, level)
        # PyTorch's own vmap rules are lowered in the same way: what is called from here on is for the next transform.
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.FuncTorchBatched)):
            arguments = bind_arguments(self.definition.signature, values, kwargs)
            call = BatchedCall(
                self.definition,
                self.overload,
                cast_arguments(self.definition, arguments),
                dict(zip(arguments, dims, strict=False)),
                interpreter.batch_size(),
                interpreter.randomness(),
            )
            if not call.batched:
                return self.overload(*values, **kwargs)
            results, out_dims = self._run(call)
        wrapped = [_add_batch_dim(result, dim, level) for result, dim in zip(results, out_dims, strict=True)]
        return wrapped[0] if len(wrapped) == 1 else tuple(wrapped) or None

    def _run(self, call: BatchedCall) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """Return the outputs, and which dimension of each counts the samples."""
        from opsmith.runtime.vmap_body import call_body, call_each, sample_forms
        from opsmith.runtime.vmap_samples import call_once

        for parameter in self.definition.signature.mutated:
            if call.arguments[parameter.name] is not None and parameter not in call.batched:
                raise ArgumentError(
                    f"{call.name}() writes to {parameter.name}, which is the same tensor for every sample of torch.vmap, "
                    f"but {call.batched[0].name} differs from sample to sample. Give vmap one {parameter.name} for each"
                )
        for samples in self.samples:
            if call.fits(samples):
                try:
                    return call_once(call, samples)
                except Exception:
                    # Where the arguments are to blame this raises, in terms of one sample.
                    sample_forms(call, self.sizes)
                    raise
        forms = sample_forms(call, self.sizes)
        if self.definition.signature.mutated or call.size == 0:
            return call_each(call, forms)
        try:
            results = call_body(call, forms)
        except OpsmithError:
            raise
        except RuntimeError:
            # The body does what PyTorch cannot batch: it reads a number (`.item()`), or writes into a tensor that it made.
            return call_each(call, forms)
        return results, (0,) * len(results)


def _unwrap(values: Sequence[Any], level: int) -> tuple[list[Any], list[Any]]:
    """Take a transform off positional arguments; return them, and which dimension of each counts the samples.

    `torch._functorch.vmap.unwrap_batched` does it for trees of any kind, and that takes as long as all the rest.
    """
    bare: list[Any] = []
    dims: list[Any] = []
    for value in values:
        value_dim: tuple[Any, Any] = (value, None)
        if isinstance(value, Tensor):
            value_dim = torch._C._functorch._unwrap_batched(value, level)
        elif isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
            value_dim = _unwrap(value, level)
        bare.append(value_dim[0])
        dims.append(value_dim[1])
    return bare, dims
