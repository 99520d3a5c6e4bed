"""Runs each property of each operator as a pytest test: `pytest --opsmith mypkg.ops`.

pytest imports this module in every run, so it imports torch only where the option is used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import pytest

from opsmith.errors import CheckError, OpsmithError

if TYPE_CHECKING:
    from opsmith.checker.properties.table import Property
    from opsmith.checker.report import Report
    from opsmith.runtime.operator import Operator

__all__ = ["OperatorTest", "opsmith_check"]

_P = ParamSpec("_P")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("opsmith", "opsmith check")
    group.addoption(
        "--opsmith",
        action="append",
        default=[],
        metavar="PATH[::OP]",
        help="Check the operators of a module, a .py file or a folder; may be repeated. Without other paths, "
        "nothing else is collected.",
    )
    group.addoption("--opsmith-seed", type=int, default=0, metavar="N", help="The seed of the checks' inputs (0).")
    group.addoption(
        "--opsmith-dtype", action="append", default=[], metavar="NAME", help="Check only this element type."
    )
    group.addoption(
        "--opsmith-seconds",
        type=float,
        metavar="N",
        help="Time limit for one test: a property of an operator on a device.",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Collect nothing else where the operators are all that the command line asks for."""
    if config.getoption("opsmith"):
        _refuse_wrong_options(config)
    if config.getoption("opsmith") and config.args_source != pytest.Config.ArgsSource.ARGS:
        config.args = []


# First, so that -k, -m and --last-failed choose among these tests too.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add a test for each operator, property and device."""
    for path in config.getoption("opsmith"):
        items.extend(_tests_of(session, path))


def _refuse_wrong_options(config: pytest.Config) -> None:
    """Raise pytest's error for a command line, once and not in each test."""
    from opsmith.checker.options import CheckOptions
    from opsmith.checker.plans import plan_of

    try:
        plan_of(CheckOptions(dtypes=config.getoption("opsmith_dtype"), seconds=config.getoption("opsmith_seconds")))
    except OpsmithError as error:
        raise pytest.UsageError(f"--opsmith: {error}") from error


@pytest.fixture
def opsmith_check() -> Callable[..., Report]:
    """Return `opsmith.check` as a function that fails the test where something is wrong, and returns the report."""
    from opsmith.checker.api import check

    return _failing(check)


def _failing(check: Callable[_P, Report]) -> Callable[_P, Report]:
    @functools.wraps(check)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> Report:
        __tracebackhide__ = True
        report = check(*args, **kwargs)
        if not report.ok:
            pytest.fail(str(report), pytrace=False)
        return report

    return run


class OperatorTest(pytest.Item):
    """One property of one operator on one device, in all its element types."""

    def __init__(self, *, operator: Operator, checked: Property, device: str, **other: Any) -> None:
        super().__init__(**other)
        self.operator, self.checked, self.device = operator, checked, device

    def runtest(self) -> None:
        """Check the property; raises CheckError if it failed, and skips where it could not be judged."""
        from opsmith.checker.api import check

        report: Report = check(
            self.operator,
            devices=[self.device],
            dtypes=self.config.getoption("opsmith_dtype"),
            properties=[self.checked.name],
            seed=self.config.getoption("opsmith_seed"),
            seconds=self.config.getoption("opsmith_seconds"),
        )
        if not report.ok:
            from opsmith.report.check.text import failure_text

            raise CheckError(failure_text(report))
        if all(result.outcome.state == "not run" for result in report.results):
            reasons = dict.fromkeys(result.outcome.note for result in report.results)
            # The summary shows where the operator is declared, not this line.
            raise pytest.skip.Exception("; ".join(reasons), _use_item_location=True)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show what was found, and no traceback of opsmith's."""
        if isinstance(excinfo.value, OpsmithError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return where the operator is declared, and the test's name."""
        definition = self.operator.definition
        return definition.file, definition.line - 1, self.name


def _tests_of(session: pytest.Session, path: str) -> Iterator[OperatorTest]:
    from opsmith.checker.properties.table import PROPERTIES
    from opsmith.runtime.operator import Operator
    from opsmith.subject.devices import devices_here
    from opsmith.subject.find import find_operators

    try:
        operators = find_operators(path)
    except OpsmithError as error:
        raise pytest.UsageError(f"--opsmith {path}: {error}") from error
    here = devices_here()
    for operator in operators:
        if not isinstance(operator, Operator):
            raise pytest.UsageError(
                f"--opsmith {path}: it does not declare a reference; write a test with the fixture opsmith_check"
            )
        definition = operator.definition
        for device in here:
            for checked in PROPERTIES:
                if device in ("cpu", *definition.kernels) and device in checked.devices:
                    name = f"{definition.name}::{checked.name}[{device}]"
                    yield OperatorTest.from_parent(
                        session,
                        name=name,
                        nodeid=f"{_shown(definition.file, session)}::{name}",
                        operator=operator,
                        checked=checked,
                        device=device,
                    )


def _shown(file: Path, session: pytest.Session) -> str:
    root = session.config.rootpath
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)
