"""Writes the end of a finding's program: the lines that call the operator and show what a property has found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

__all__ = ["Parts", "ending"]


@dataclass(frozen=True)
class Parts:
    """What the lines that call the operator are made of. `wide` are the arguments in float64, as the reference gets them.

    `layout` is how the gradients of the outputs lie, as in GradientRequest.
    """

    operator: str
    reference: str
    arguments: tuple[str, ...]
    wide: tuple[str, ...]
    differentiable: tuple[str, ...]
    mutated: tuple[str, ...]
    is_large: bool
    keyword_only: tuple[str, ...] = ()
    layout: str = "contiguous"

    @property
    def call(self) -> str:
        """A call of the operator."""
        return f"{self.operator}({self.spelled(self.arguments)})"

    def spelled(self, values: Iterable[str]) -> str:
        """Return the inside of a call with these values for the arguments."""
        return ", ".join(
            f"{name}={value}" if name in self.keyword_only else value
            for name, value in zip(self.arguments, values, strict=True)
        )


def ending(name: str, program: Parts) -> list[str]:
    """Return the lines for a property's finding, by default those that compare values."""
    return _ENDINGS.get(name, _compare)(program)


def _compare(program: Parts) -> list[str]:
    if program.mutated:
        copies = [f"{name}_expected = {name}.clone()" for name in program.mutated]
        given = [f"{name}_expected" if name in program.mutated else name for name in program.arguments]
        lines = [*copies, program.call, f"{program.reference}({program.spelled(given)})"]
        for name in program.mutated:
            lines += [f'print("{name} after the operator: ", {name})']
            lines += [f'print("{name} after the reference:", {name}_expected)']
        return lines
    expected = f"{program.reference}({program.spelled(program.wide)})"
    if program.is_large:
        return [f"torch.testing.assert_close({program.call}, {expected}, equal_nan=True, check_dtype=False)"]
    return [f'print("operator: ", {program.call})', f'print("reference:", {expected})']


def _gradient(program: Parts, *, is_second: bool = False) -> list[str]:
    if not program.differentiable:
        return _compare(program)
    inputs = ", ".join(program.differentiable)
    differentiation = _second(inputs) if is_second else _first(inputs, program.layout)
    return [
        f"def gradients(function, {inputs}):",
        *(f"    {name} = {name}.detach().requires_grad_()" for name in program.differentiable),
        f"    found = function({program.spelled(program.arguments)})",
        "    found = [out for out in (found if isinstance(found, tuple) else (found,)) if out.requires_grad]",
        *differentiation,
        f'print("operator: ", gradients({program.operator}, {inputs}))',
        f'print("reference:", gradients({program.reference}, {inputs}))',
    ]


def _first(inputs: str, layout: str) -> list[str]:
    weight = "torch.arange(1, 1 + out.numel()).reshape(out.shape).to(out)"
    if layout == "summed":
        weight = "torch.ones((), dtype=out.dtype, device=out.device).expand_as(out)"
    elif layout != "contiguous":
        weight = f"TensorRecipe(tuple(out.shape), str(out.dtype)[6:], {layout!r}).build(out.device)"
    return [
        f"    weights = [{weight} for out in found]",
        f"    return torch.autograd.grad(found, [{inputs}], weights, allow_unused=True)",
    ]


def _second(inputs: str) -> list[str]:
    return [
        "    weights = [torch.ones_like(out).requires_grad_() for out in found]",
        f"    first = torch.autograd.grad(found, [{inputs}], weights, allow_unused=True, create_graph=True)",
        "    numbered = [one * torch.arange(1, 1 + one.numel()).reshape(one.shape).to(one)",
        "                for one in first if one is not None]",
        f"    return torch.autograd.grad(sum(one.sum() for one in numbered), [{inputs}, *weights], allow_unused=True)",
    ]


def _twice(program: Parts) -> list[str]:
    equal = f"torch.testing.assert_close({program.call}, first, rtol=0, atol=0, equal_nan=True)"
    return [f"first = {program.call}", "for _ in range(100):", f"    {equal}"]


def _many(program: Parts) -> list[str]:
    return ["for _ in range(1000):", f"    {program.call}"]


def _shared(program: Parts) -> list[str]:
    tensors = [name for name, wide in zip(program.arguments, program.wide, strict=True) if name != wide]
    return [
        f"first, second = {program.call}, {program.call}",
        'print("memory of the results:", first.data_ptr(), second.data_ptr())',
        *(f'print("memory of {name}:", {name}.data_ptr())' for name in tensors),
    ]


def _inputs(program: Parts) -> list[str]:
    tensors = [name for name, wide in zip(program.arguments, program.wide, strict=True) if name != wide]
    before = [f"{name}_before = {name}.clone()" for name in tensors]
    after = [f'print("{name} is what it was:", {name}.equal({name}_before))' for name in tensors]
    return [*before, program.call, *after]


def _fake(program: Parts) -> list[str]:
    return [
        f'print("operator:", {program.call})',
        "mode = FakeTensorMode(allow_non_fake_inputs=True)",
        "with mode:",
        f'    print("fake:    ", {program.call})',
    ]


def _compiled(program: Parts) -> list[str]:
    lines = [f"{name}.requires_grad_()" for name in program.differentiable]
    lines += [
        f'compiled = torch.compile(lambda *a, **k: {program.operator}(*a, **k), fullgraph=True, backend="aot_eager")',
        f"found = compiled({program.spelled(program.arguments)})",
        "print(found)",
    ]
    if program.differentiable:
        lines += [
            "first = found[0] if isinstance(found, tuple) else found",
            "first.requires_grad and first.sum().backward()",
        ]
    return lines


def _called(program: Parts) -> list[str]:
    return [program.call]


# How a property's finding shows itself, where it is not in the values that are returned.
_ENDINGS: dict[str, Callable[[Parts], list[str]]] = {
    "gradient": _gradient,
    "second gradient": lambda program: _gradient(program, is_second=True),
    "func.grad": _gradient,
    "determinism": _twice,
    "threads": _twice,
    "inputs unchanged": _inputs,
    "fake": _fake,
    "compile": _compiled,
    "export": _called,
    "memory growth": _many,
    "outputs written": _called,
    "writes outside": _called,
    "reads outside": _called,
    "aliasing": _shared,
    "bad arguments": _called,
    "vmap": _called,
    "jvp": _called,
}
