"""Makes a failing input smaller: hypothesis looks for the simplest one that fails in the same way."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opsmith.checker.literals import FEW
from opsmith.subject.case import Case, TensorRecipe
from opsmith.subject.placed_values import are_indices

if TYPE_CHECKING:
    from opsmith.checker.properties.context import Context

__all__ = ["sizes_of", "smallest"]

_TRIES = 60
# A try may take a second, where the reference is slow.
_SECONDS = 10.0


def smallest(context: Context, case: Case, fails: Callable[[Case], bool]) -> Case:
    """Return the simplest case that fails too: fewer elements, simpler layouts and values, in that order.

    The case itself comes back where nothing simpler fails, where hypothesis is not installed, or in a brief check.
    """
    if context.is_brief:
        return case
    space = context.subject.suite.space
    if space is None:
        return _plainer(case, fails)
    try:
        import hypothesis
        from hypothesis import strategies as st
    except ImportError:
        return _plainer(case, fails)
    tensors = case.tensors()
    sizes = sizes_of(case, context)
    if sizes is None:
        return _plainer(case, fails)
    names = list(sizes)
    layouts = {name: recipe.layout for name, recipe in tensors.items()}
    values = {name: recipe.values for name, recipe in tensors.items()}

    @st.composite
    def smaller(draw: Any) -> Case | None:
        chosen = {name: draw(_up_to(st, sizes[name])) for name in names}
        made = _made(context, case, chosen)
        if made is None:
            return None
        arguments = dict(case.arguments)
        for name, recipe in tensors.items():
            changed = replace(
                recipe,
                layout=draw(st.sampled_from(list(dict.fromkeys(("contiguous", layouts[name]))))),
                values=draw(st.sampled_from(list(dict.fromkeys(("normal", values[name]))))),
            )
            if are_indices(recipe.values):
                # Indices have to stay below what is now the smaller size.
                changed = replace(changed, values=made[name].values)
            _put(arguments, name, _resized(changed, made[name].shape))
        for name in names:
            if name in arguments:
                arguments[name] = chosen[name]
        return replace(case, arguments=arguments)

    best: list[Case] = []
    started_s = context.now_s()
    most_s = min(_SECONDS, context.seconds) if context.is_limited else _SECONDS

    def is_over() -> bool:
        return context.now_s() - started_s > most_s or time.monotonic() >= context.until_s

    def is_bad(other: Case | None) -> bool:
        if other is None or is_over() or not fails(other):
            return False
        best.append(other)
        return True

    settings = hypothesis.settings(
        max_examples=_TRIES,
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    with (
        warnings.catch_warnings(),
        contextlib.suppress(
            # A kernel that is wrong at times only cannot be shrunk (FlakyFailure).
            hypothesis.errors.HypothesisException,
            hypothesis.errors.FlakyFailure,
        ),
    ):
        warnings.simplefilter("ignore")
        found = hypothesis.find(smaller(), is_bad, settings=settings)
        if found is not None:
            return found
    # If time ran out, hypothesis did not see its own result fail again; each that failed was simpler than the last.
    return best[-1] if is_over() and best else _plainer(case, fails)


def _resized(recipe: TensorRecipe, shape: tuple[int, ...]) -> TensorRecipe:
    """Return a recipe of another shape; of given numbers the first ones are left, where there are so many."""
    given = recipe.given
    if given is not None:
        fits = len(shape) == given.dim() and all(new <= old for new, old in zip(shape, given.shape, strict=True))
        given = given[tuple(map(slice, shape))] if fits else None
    return replace(recipe, shape=shape, given=given)


def _up_to(st: Any, size: int) -> Any:
    """Return the sizes to try for one: small ones, the size itself, and those around powers of two below it."""
    near = [s for power in (8, 16, 32, 64, 128, 256, 512, 1024) for s in (power - 1, power, power + 1) if s < size]
    return st.sampled_from(sorted({*range(min(size, 8) + 1), *near, size}, key=lambda s: (s == 0, s)))


def _plainer(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Take layouts and values back to the plain ones, tensor by tensor, if it still fails."""
    for name in case.tensors():
        for change in ({"layout": "contiguous"}, {"values": "normal", "given": None}):
            recipe = case.tensors()[name]
            # An example's numbers mean something; only more than a reader looks at make way for random ones.
            if recipe.given is not None and "values" in change and recipe.given.numel() <= FEW:
                continue
            arguments = dict(case.arguments)
            _put(arguments, name, replace(recipe, **change))
            other = replace(case, arguments=arguments)
            if other != case and fails(other):
                case = other
    return case


def _put(arguments: dict[str, Any], name: str, recipe: TensorRecipe) -> None:
    base, bracket, index = name.partition("[")
    if not bracket:
        arguments[name] = recipe
        return
    items = list(arguments[base])
    items[int(index[:-1])] = recipe
    arguments[base] = tuple(items)


def sizes_of(case: Case, context: Context) -> dict[str, int] | None:
    """Return what each name of the signature is in a case, and each size of a variadic group as `group.0`, `group.1`.

    None where there is no signature, or the case does not fit it.
    """
    from opsmith.runtime.arguments import check_call
    from opsmith.spec.sizes import plan_sizes

    signature, space = context.subject.signature, context.subject.suite.space
    if signature is None or space is None:
        return None
    try:
        bound = check_call(signature, plan_sizes(signature), case.build("cpu"))
    except Exception:
        return None
    sizes = {name: int(value) for name, value in bound.sizes.items() if name in space.names}
    for group, shape in bound.groups.items():
        sizes |= {f"{group}.{index}": int(size) for index, size in enumerate(shape)}
    return sizes


def _made(context: Context, case: Case, chosen: Mapping[str, int]) -> dict[str, TensorRecipe] | None:
    """Return each tensor of a case as it is for other sizes, with ordinary values."""
    from opsmith.subject.space import Choice

    space = context.subject.suite.space
    assert space is not None
    groups: dict[str, tuple[int, ...]] = {}
    for name, size in chosen.items():
        group, dot, _ = name.partition(".")
        if dot:
            groups[group] = (*groups.get(group, ()), size)
    for group in space.groups:
        groups.setdefault(group, ())
    plain = {name: size for name, size in chosen.items() if "." not in name}
    if set(space.names) - plain.keys():
        return None
    absent = frozenset(name for name, value in case.arguments.items() if value is None)
    lengths = [len(value) for value in case.arguments.values() if isinstance(value, tuple)]
    choice = Choice(plain, groups, {}, {}, absent, list_length=max(lengths, default=2))
    made = space.case(choice, dict.fromkeys(("T", "I"), "int64"), 0)
    if made is None:
        return None
    found = made.tensors()
    return {name: found[name] for name in case.tensors()}
