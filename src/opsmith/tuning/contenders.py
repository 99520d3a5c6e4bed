"""Builds an operator once for each configuration of its kernel, under names of their own, so that all can be timed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count

from opsmith.build.artifact import obtain_artifact
from opsmith.build.prepare import prepare
from opsmith.errors import ArgumentError
from opsmith.runtime.load import load_library
from opsmith.runtime.operator import Operator
from opsmith.runtime.register import register_kernels, register_rules
from opsmith.runtime.torch_ops import overload_of
from opsmith.spec.definition import Definition, Group
from opsmith.spec.launch import Config, Launch
from opsmith.store import Store, default_root
from opsmith.tuning.options import Phase

__all__ = ["Contender", "build", "contenders_of", "launch_of"]

# PyTorch does not take an operator of the same name a second time.
_numbers = count()


@dataclass(frozen=True)
class Contender:
    """A configuration, and where there is one a condition that it must have at least."""

    number: int
    config: Config

    @property
    def label(self) -> str:
        """The constants and options, as a table shows them."""
        return (
            " ".join(f"{name}={value}" for name, value in (*self.config.constants, *self.config.options)) or "as it is"
        )

    def fits(self, sizes: Mapping[str, int]) -> bool:
        """Whether the condition holds, or cannot be told from the sizes alone."""
        when = self.config.when
        can_tell = when is None or when.names <= {*sizes, *self.config.numbers}
        return not can_tell or self.config.holds(sizes)


def launch_of(definition: Definition, phase: Phase) -> Launch:
    """Return the launch of an operator's GPU kernel; raises ArgumentError where there is nothing to choose from."""
    of = definition if phase == "forward" else definition.backward
    kernel = None if of is None else of.kernels.get("cuda")
    if kernel is None or kernel.launch is None:
        raise ArgumentError(
            f"{definition.name} has no {phase} kernel with a launch: configurations are those of opsmith.triton(...) and "
            "opsmith.kernel(...)"
        )
    return kernel.launch


def contenders_of(launch: Launch) -> tuple[Contender, ...]:
    """Return the different configurations of a launch.

    One that is there several times has the condition of the last: those before it are what an earlier tuning has put in
    front. Raises ArgumentError if there is only one.
    """
    found = {config.identity: config for config in launch.configs}
    if len(found) < 2:
        raise ArgumentError("there is one configuration; give several to choose from: configs=[{...}, {...}]")
    return tuple(Contender(number, config) for number, config in enumerate(found.values()))


def build(definition: Definition, phase: Phase, contenders: tuple[Contender, ...]) -> list[Operator]:
    """Return an operator for each contender, all in one library. Raises CompileError, ToolchainError or StoreError."""
    namespace = f"{definition.namespace}_tuned{next(_numbers)}"
    pairs = [_pair(definition, phase, contender, namespace) for contender in contenders]
    everything = [one for pair in pairs for one in pair]
    compiled = tuple(one for one in everything if one.kernels)
    prepared = prepare(Group(definition.module, definition.file, compiled), ("cuda",), strict=True)
    artifact = obtain_artifact(prepared.plan, prepared.toolchain, prepared.target, Store(default_root()))
    load_library(artifact.library, list(compiled))
    for one in everything:
        register_kernels(one, is_defined=bool(one.kernels), missing={})
    for one in everything:
        register_rules(one)
    operators = [Operator(pair[0]) for pair in pairs]
    for operator in operators:
        operator.attach(overload_of(operator.definition.qualified_name))
    return operators


def _pair(definition: Definition, phase: Phase, contender: Contender, namespace: str) -> tuple[Definition, ...]:
    """Return the definition with one configuration, and its backward where that is what is chosen for.

    A forward without a kernel is its definition, in PyTorch: only the gradient is timed then.
    """

    def alone(one: Definition) -> Definition:
        kernel = one.kernels["cuda"]
        assert kernel.launch is not None
        launch = replace(kernel.launch, configs=(replace(contender.config, when=None),))
        return replace(renamed(one), kernels={"cuda": replace(kernel, launch=launch)})

    def renamed(one: Definition) -> Definition:
        signature = replace(one.signature, name=f"{one.name}_{contender.number}")
        return replace(one, signature=signature, namespace=namespace)

    if phase == "forward":
        return (replace(alone(definition), backward=None),)
    assert definition.backward is not None
    backward = alone(definition.backward)
    return replace(renamed(definition), kernels={}, backward=backward), backward
