"""Turns functions of a list of operators into functions of one or several, such as `opsmith.check`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

from opsmith._keywords import keywords_of, options_in
from opsmith.errors import ArgumentError
from opsmith.subject.selection import several_operators

__all__ = ["Verb", "verb"]

_P = ParamSpec("_P")
_Options = TypeVar("_Options")
_Report = TypeVar("_Report")
_Report_co = TypeVar("_Report_co", covariant=True)
_Reports = TypeVar("_Reports")
_Reports_co = TypeVar("_Reports_co", covariant=True)


class Verb(Protocol[_P, _Report_co, _Reports_co]):
    """A function that gives one report for an operator, and several for a list or a module of them."""

    @overload
    def __call__(
        self, op: ModuleType | list[Any] | tuple[Any, ...], *args: _P.args, **kwargs: _P.kwargs
    ) -> _Reports_co: ...
    @overload
    def __call__(self, op: Any, *args: _P.args, **kwargs: _P.kwargs) -> _Report_co: ...


def verb(
    options: Callable[_P, _Options], report: type[_Report], reports: Callable[[Iterable[_Report]], _Reports]
) -> Callable[[Callable[[Sequence[Any], _Options], Iterable[_Report]]], Verb[_P, _Report, _Reports]]:
    """Return a decorator of a function that yields a report for each operator of a list.

    The function that it makes takes `op`, one operator or several, and the fields of `options` as keywords. It returns
    the one `report`, or `reports` of them all. Raises ArgumentError if several operators are given together with an
    option that is for one.
    """

    def decorate(
        function: Callable[[Sequence[Any], _Options], Iterable[_Report]],
    ) -> Verb[_P, _Report, _Reports]:
        def one_or_several(op: Any, options: _Options) -> _Report | _Reports:
            several = several_operators(op)
            if several is None:
                (only,) = function([op], options)
                return only
            if given := _for_one(options):
                names = " and ".join(f"{name}=" for name in given)
                belongs = "belongs" if len(given) == 1 else "belong"
                raise ArgumentError(
                    f"{names} {belongs} to one operator; call {function.__name__}() for each of several"
                )
            return reports(function(several, options))

        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(one_or_several, name, getattr(function, name))
        one_or_several.__annotations__["return"] = f"{report.__name__} | {getattr(reports, '__name__', reports)}"
        return cast("Verb[_P, _Report, _Reports]", keywords_of(options)(one_or_several))

    return decorate


def _for_one(options: Any) -> list[str]:
    """Return the options that were given and are for one operator alone."""
    return [
        name
        for name, default, described in options_in(type(options))
        if described.for_one and getattr(options, name) is not default
    ]
