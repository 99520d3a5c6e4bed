"""Makes a function's keywords from the fields of a frozen dataclass, so that each option is declared once.

`@keywords_of(CheckOptions)` makes `check(op, *, devices=None, seed=0, ...)` of `check(op, options)`. Type checkers and
editors see the dataclass's constructor, `help` and `inspect.signature` its fields, and an unknown keyword is refused
with the nearest one that exists. The command line reads the same fields (`opsmith.cli.options`).
"""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, cast, overload

from opsmith.errors import ArgumentTypeError

__all__ = ["Option", "keywords_of", "names_in", "nearest", "normalize", "option", "options_in"]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_First = TypeVar("_First")
_Second = TypeVar("_Second")
_Result = TypeVar("_Result")
_METADATA = "opsmith"


@dataclass(frozen=True)
class Option:
    """What an option is for, and how the command line spells it.

    `unset` says what the default of None or () stands for. `kind` is what the command line reads it as; None means that
    it is not there. `flag` is its name there where that is not the field's, `choices` are all values that it takes, and
    `is_repeated` tells that it may be given several times. `for_one` marks what several operators cannot share.
    """

    help: str
    unset: str = ""
    kind: Literal["text", "number", "integer", "switch", "function", "sizes", "file"] | None = None
    flag: str | None = None
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    is_repeated: bool = False
    for_one: bool = False

    @property
    def text(self) -> str:
        """The help with the default, where the default's value does not say it."""
        return f"{self.help} Default: {self.unset}." if self.unset else self.help


def option(default: _T, described: Option) -> _T:
    """Return a dataclass field; to a type checker it is its default."""
    return field(default=default, metadata={_METADATA: described})


def options_in(options: type) -> Iterator[tuple[str, Any, Option]]:
    """Yield the name, the default and the description of each option of a dataclass."""
    for one in fields(options):
        yield one.name, one.default, one.metadata[_METADATA]


def normalize(options: object, **values: object) -> None:
    """Set fields of a frozen dataclass, in its `__post_init__`, to the one form of a value that may be given in several."""
    for name, value in values.items():
        object.__setattr__(options, name, value)


def names_in(given: Iterable[str] | str | None) -> tuple[str, ...]:
    """Return the names that were given; a text is one name, and not its letters."""
    return (given,) if isinstance(given, str) else tuple(given or ())


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a misspelt one most likely stands for, or None."""
    import difflib  # imported by a mistake only: importing opsmith stays fast

    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


class _Decorator(Protocol[_P, _T_co]):
    """What turns the last parameter of a function with one or two others into keywords."""

    @overload
    def __call__(self, function: Callable[[_First, _T_co], _Result]) -> Callable[Concatenate[_First, _P], _Result]: ...
    @overload
    def __call__(
        self, function: Callable[[_First, _Second, _T_co], _Result]
    ) -> Callable[Concatenate[_First, _Second, _P], _Result]: ...


def keywords_of(options: Callable[_P, _T], error: type[TypeError] = ArgumentTypeError) -> _Decorator[_P, _T]:
    """Return a decorator that turns a function's last parameter, an object with all options, into keywords.

    The function's documentation gets a section with every option. `error` is raised for a keyword that does not exist.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = _signature(function, options)
        known = tuple(one.name for one in signature.parameters.values() if one.kind is one.KEYWORD_ONLY)
        leading = len(signature.parameters) - len(known)

        @functools.wraps(function)
        def wrapper(*positional: Any, **keywords: Any) -> Any:
            for name in keywords:
                if name not in signature.parameters:
                    raise error(_unknown(function.__name__, name, known))
            try:
                bound = signature.bind(*positional, **keywords)
            except TypeError as reason:
                hint = f"; options are keywords, such as {known[0]}=" if "positional" in str(reason) else ""
                raise error(f"{function.__name__}(): {reason}{hint}") from None
            bound.apply_defaults()
            values: Mapping[str, Any] = bound.arguments
            given = [values[name] for name in list(values)[:leading]]
            return function(*given, options(**{name: values[name] for name in known}))  # type: ignore[call-arg]

        vars(wrapper)["__signature__"] = signature
        wrapper.__doc__ = _documentation(function, options)
        return wrapper

    return cast("_Decorator[_P, _T]", decorate)


def _signature(function: Callable[..., Any], options: Any) -> inspect.Signature:
    """Return the function's signature with keywords in place of its last parameter."""
    own = inspect.signature(function)
    keywords = [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
        for one in fields(options)
    ]
    return own.replace(parameters=[*list(own.parameters.values())[:-1], *keywords])


def _documentation(function: Callable[..., Any], options: Any) -> str:
    lines = [inspect.getdoc(function) or "", "", "Parameters", "----------"]
    for name, _, described in options_in(options):
        lines += [name, *textwrap.wrap(described.text, 112, initial_indent="    ", subsequent_indent="    ")]
    return "\n".join(lines)


def _unknown(function: str, name: str, known: tuple[str, ...]) -> str:
    guess = nearest(name, known)
    hint = f"did you mean {guess!r}?" if guess else f"there are {', '.join(known)}"
    return f"{function}() has no option {name!r}; {hint}"
