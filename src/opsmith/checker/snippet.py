"""Writes a finding as a program: its input in plain PyTorch, then the operator and the reference side by side.

The program is for a file or a notebook of the user's, imports the operator as they do and nothing else but torch, and
fits on a screen.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from opsmith.checker.endings import Parts, ending
from opsmith.checker.literals import FEW, TOO_LARGE, Code, number_text, tensor_code
from opsmith.runtime.operator import Operator
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.derivatives import GradientRequest
from opsmith.subject.subject import Subject

__all__ = ["MOST_COLUMNS", "MOST_LINES", "Program", "program_of", "snippet_of"]

# Names that a program may need, and where they come from; the first is for kinds of numbers that have no constructor.
_IMPORTS = {
    "TensorRecipe": "from opsmith.subject.case import TensorRecipe",
    "FakeTensorMode": "from torch._subclasses import FakeTensorMode",
}
_CONSTANTS = ("inf", "nan")
_DIGITS = {"float64": 17, "float32": 9}
_FEW = 256
# A screen. Where numbers take more, constructor calls take their place, for ever fewer numbers.
MOST_LINES, MOST_COLUMNS = 24, 100
_FEWER = (FEW, 24, 8, 2)


@dataclass(frozen=True)
class Program:
    """A finding as a program: its text, and the names by which it knows the operator and the reference."""

    text: str
    operator: str
    reference: str
    # What is missing for it to run, in words: something that has no name to import it by, or an example's numbers.
    missing: str = ""
    # Whether it names what is defined in the program that runs the check, which a new process does not have.
    is_of_main: bool = False


@dataclass(frozen=True)
class _Name:
    """How a program names something, and the line that it takes to be able to."""

    expression: str
    line: str = ""


def snippet_of(subject: Subject, case: Case, device: str, name: str = "value", earlier: Sequence[Case] = ()) -> str:
    """Return a program that shows what the property of that name has found on a case, after the `earlier` calls."""
    return program_of(subject, case, device, name, earlier).text


def program_of(
    subject: Subject,
    case: Case,
    device: str,
    name: str,
    earlier: Sequence[Case] = (),
    request: GradientRequest | None = None,
) -> Program:
    """Return the program with the most numbers written out that fits on a screen.

    One that differentiates takes the gradients of a request, by default those of all inputs.
    """
    for few in _FEWER:
        program = _program_of(subject, case, device, name, earlier, few, request)
        if program.text.count("\n") < MOST_LINES:
            break
    return program


def _program_of(
    subject: Subject,
    case: Case,
    device: str,
    name: str,
    earlier: Sequence[Case],
    few: int,
    request: GradientRequest | None,
) -> Program:
    operator = _name_of_operator(subject)
    reference = _name_of_reference(subject, operator)
    case = _recorded(subject, case) if name in _GRADIENTS else case
    passed = tuple(parameter for parameter in subject.parameters if parameter in case.arguments)
    program = Parts(
        operator.expression,
        reference.expression,
        passed,
        tuple(_wide(parameter, case.arguments[parameter]) for parameter in passed),
        tuple(
            p for p in passed if p in subject.differentiable and _is_floating(case.arguments[p]) and _asks(request, p)
        ),
        subject.mutated,
        case.elements > _FEW,
        subject.keyword_only,
        "contiguous" if request is None else request.layout,
    )
    inputs = _inputs_of(passed, case, device, few)
    calls = _earlier_calls(subject, program, earlier, device, few)
    # One tensor as two arguments shows in the results.
    shown = ending("value" if case.one_tensor else name, program)
    if earlier and name in _REPEATED:
        shown = ["first = " + program.call, *calls, *inputs, f"print(first, {program.call}, sep='\\n')"]
    else:
        # Numbers that an earlier call had already.
        inputs = [*calls, *(line for line in inputs if line not in calls or "torch." in line or "v" in line.split())]
    body = [*inputs, "", *shown]
    digits = max((_DIGITS.get(recipe.dtype, 5) for recipe in case.tensors().values()), default=5)
    text = "\n".join(body)
    needed = [line for word, line in _IMPORTS.items() if re.search(rf"\b{word}\b", text)]
    constants = [word for word in _CONSTANTS if re.search(rf"(?<![.\w]){word}\b", text)]
    needed += [f"from torch import {', '.join(constants)}"] if constants else []
    head = [*needed, "import torch", *subject.imports, operator.line, reference.line]
    lines = [line for line in dict.fromkeys(head) if line]
    options = [f"torch.set_printoptions(precision={digits})"] if "print(" in text else []
    whole = [*lines, "", *options, *(part for line in text.splitlines() for part in _within_columns(line))]
    return Program(
        "\n".join(whole),
        operator.expression,
        reference.expression,
        _missing(operator, reference, text),
        any(_is_of_main(name) for name in (operator, reference)),
    )


def _asks(request: GradientRequest | None, name: str) -> bool:
    return request is None or any(one.partition("[")[0] == name for one in request.inputs)


def _recorded(subject: Subject, case: Case) -> Case:
    """Return a case as autograd calls it, which asks for all that the backward needs: the reference is to do so too."""
    asked = {
        one.needed_by: True for one in subject.outputs if one.needed_by is not None and one.needed_by in case.arguments
    }
    return replace(case, arguments={**case.arguments, **asked}) if asked else case


def _is_of_main(name: _Name) -> bool:
    return not name.line and name.expression.isidentifier() and name.expression not in ("operator", "reference")


def _missing(operator: _Name, reference: _Name, text: str) -> str:
    """Return what a program lacks to be run by itself, in words, or ""."""
    if operator.line.startswith("#") or (operator.expression == "operator" and not operator.line):
        return "the operator is not an attribute of a module"
    if reference.line.startswith("#"):
        return "the reference is not an attribute of a module"
    return "an example's numbers are too many to print" if TOO_LARGE in text else ""


def _inputs_of(passed: Sequence[str], case: Case, device: str, few: int) -> list[str]:
    first = next((name for name in passed if name in case.one_tensor), "")
    return [
        line
        for name in passed
        for line in (
            [f"{name} = {first}"]
            if name in case.one_tensor and name != first
            else _assigned(name, case.arguments[name], device, few)
        )
    ]


def _assigned(name: str, value: Any, device: str, few: int) -> list[str]:
    """Return the lines that make an argument."""
    if isinstance(value, TensorRecipe):
        code = tensor_code(value, device, few)
        return [*code.before, f"{name} = {code.expression}"]
    if isinstance(value, list | tuple):
        codes = [_item_code(item, device, few) for item in value]
        if any(code.before for code in codes):
            lines = [line for n, code in enumerate(codes) for line in (*code.before, f"{name}_{n} = {code.expression}")]
            return [*lines, f"{name} = [{', '.join(f'{name}_{n}' for n in range(len(codes)))}]"]
        line = f"[{', '.join(code.expression for code in codes)}]"
        if len(name) + 3 + len(line) > MOST_COLUMNS:
            line = "[\n    {},\n]".format(",\n    ".join(code.expression for code in codes))
        return [f"{name} = {line}"]
    return [f"{name} = {_item_code(value, device, few).expression}"]


def _item_code(value: Any, device: str, few: int) -> Code:
    if isinstance(value, TensorRecipe):
        return tensor_code(value, device, few)
    return Code(number_text(value, torch.float64) if isinstance(value, float) else repr(value))


def _earlier_calls(subject: Subject, program: Parts, earlier: Sequence[Case], device: str, few: int) -> list[str]:
    """Return the lines that make calls before the one that fails; equal ones after each other in a loop."""
    lines: list[str] = []
    for case, alike in itertools.groupby(earlier):
        times = len(list(alike))
        passed = tuple(parameter for parameter in subject.parameters if parameter in case.arguments)
        call = replace(program, arguments=passed).call
        lines += _inputs_of(passed, case, device, min(few, _FEW_EARLIER))
        lines += [f"for _ in range({times}):", f"    {call}"] if times > 1 else [f"{call}  # an earlier call"]
    return lines


# An earlier call is not what a reader looks at.
_FEW_EARLIER = 8
# Findings whose programs differentiate.
_GRADIENTS = frozenset({"gradient", "second gradient", "func.grad"})
# Findings about the same call twice: what is called between.
_REPEATED = ("determinism",)


def _within_columns(line: str) -> Iterator[str]:
    """Break a line that is too long at spaces within brackets, where Python allows it: as few brackets as there are."""
    indent, depth = " " * (len(line) - len(line.lstrip()) + 4), 0
    while len(line) > MOST_COLUMNS:
        places = _breaks_of(line, depth)
        if not places:
            break
        # In the right half of the line, so that each piece is shorter than what it leaves.
        at, depth = min(places, key=lambda place: (place[0] < MOST_COLUMNS // 2, place[1], -place[0]))
        yield line[:at].rstrip()
        line = indent + line[at:].lstrip()
    yield line


def _breaks_of(line: str, depth: int) -> list[tuple[int, int]]:
    """Return the places within the columns at which a line may be broken, each with the number of open brackets."""
    found, quote = [], ""
    for place, letter in enumerate(line[:MOST_COLUMNS]):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "#":
            break
        elif letter == " " and depth > 0 and line[:place].strip():
            found.append((place, depth))
        else:
            depth += (letter in "([{") - (letter in ")]}")
    return found


def _wide(name: str, value: Any) -> str:
    if _is_floating(value):
        return f"{name}.double()"
    if isinstance(value, tuple) and any(_is_floating(item) for item in value):
        return f"[item.double() for item in {name}]"
    return name


def _is_floating(value: Any) -> bool:
    return isinstance(value, TensorRecipe) and bool(getattr(torch, value.dtype).is_floating_point)


def _name_of_operator(subject: Subject) -> _Name:
    op = subject.call
    if isinstance(op, Operator):
        name = _importable(op, op.definition.module, op.definition.name, subject.parameters)
        hides = any(output.saved for output in op.definition.signature.outputs)
        return _Name(f"{name.expression}.torch_op", name.line) if name and hides else name or _Name("operator")
    function = getattr(op, "_init_fn", op)  # of torch.library.custom_op
    found = _importable(
        op, getattr(function, "__module__", None), getattr(function, "__name__", ""), subject.parameters
    )
    if found is None and subject.overload is not None:
        schema = subject.overload._schema
        overload = f".{schema.overload_name}" if schema.overload_name else ""
        return _Name(f"torch.ops.{schema.name.replace('::', '.')}{overload}")
    return found or _Name("operator", f"# operator: {subject.name}; import it here")


def _name_of_reference(subject: Subject, operator: _Name) -> _Name:
    function = subject.reference
    if isinstance(subject.call, Operator) and function is subject.call.reference:
        return _Name(f"{operator.expression.removesuffix('.torch_op')}.reference")
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", "")
    found = _importable(function, module, name, (*subject.parameters, operator.expression), alias="reference")
    return found or _Name("reference", "# reference: the function passed as reference")


def _importable(
    thing: Any, module: str | None, name: str, taken: tuple[str, ...], alias: str = "operator"
) -> _Name | None:
    """Return how a module's attribute is imported, under another name where an argument has its own."""
    if not name.isidentifier() or getattr(sys.modules.get(module or ""), name, None) is not thing:
        return None
    if module == "__main__":
        return _Name(name)
    if name in taken:
        return _Name(alias, f"from {module} import {name} as {alias}")
    return _Name(name, f"from {module} import {name}")
