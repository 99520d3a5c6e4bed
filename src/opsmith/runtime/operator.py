"""Defines Operator, what `@opsmith.op` returns: built and loaded by its first call, a dispatcher entry from then on."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Any, Literal

import torch

from opsmith._forks import Lock, hold_off_forks
from opsmith._keywords import keywords_of
from opsmith.errors import DefinitionError, GradientError, OpsmithError
from opsmith.runtime.bind import scalar_check
from opsmith.runtime.bridge import find_bridge
from opsmith.runtime.define import define_backward, with_gradient, with_rival, with_rule
from opsmith.runtime.options import DefinitionOptions
from opsmith.runtime.sharding import ensure_sharding_rules
from opsmith.runtime.structs import Flatten, flattener
from opsmith.runtime.torch_ops import overload_of
from opsmith.spec import registry
from opsmith.spec.definition import Definition
from opsmith.spec.sizes import SizeProgram, plan_sizes

if TYPE_CHECKING:
    from opsmith.runtime.load import Obtained

__all__ = ["Operator", "load_module", "operators_of", "publish"]

# One load at a time: a library must not be built twice by two threads that call the same operator first.
_lock = Lock()


class Operator:
    """An operator: call it as the function that defines it.

    `reference` is that function, plain PyTorch. `torch_op` is the operator in `torch.ops`, which exists once the
    library is loaded; `load` does that before the first call. `definition` is what was declared.

    Where the bridge is there, calls of an operator do not run `__call__`: the type's own slot for calls does the same
    in C++, by what lies in `_fast`, and comes here for anything but plain tensors and numbers.
    """

    __slots__ = ("__dict__", "__weakref__", "_fast")

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.gradient: Operator | None = None
        self._overload: Any = None
        self._entry: Callable[..., Any] = self._first_call
        self._visible = tuple(index for index, output in enumerate(definition.signature.outputs) if not output.saved)
        self._hides = len(self._visible) != len(definition.signature.outputs)
        self._flatten = flattener(definition.signature) if definition.signature.structs else None
        update_wrapper(self, definition.body)

        def ensure_loaded() -> None:
            self.load()
            ensure_sharding_rules()

        # torch.compile runs a function that is marked so while it traces, and takes its result for a constant: the
        # library is built then, and the graph holds the plain operator. (`torch.compiler.assume_constant_result` sets
        # the same mark, but importing it costs seconds.)
        ensure_loaded._dynamo_marked_constant = True  # type: ignore[attr-defined]
        self._ensure_loaded = ensure_loaded

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator; raises ShapeError, DtypeError, DeviceError or ArgumentTypeError for invalid arguments."""
        if torch.compiler.is_compiling():
            self._ensure_loaded()
            if self._flatten is not None:
                args, kwargs = self._flatten(args, kwargs) or (args, kwargs)
            results = self._overload(*args, **kwargs)
            return self._select(results) if self._hides else results
        return self._entry(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<opsmith operator {self.definition.namespace}::{self.definition.signature.schema}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        # By name, as a function is pickled: a model that holds an operator can be saved and sent to another process.
        return _find, (self.definition.module, self.definition.name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Operator:
        return self

    @property
    def reference(self) -> Callable[..., Any]:
        """The body: the same values in plain PyTorch."""
        return self.definition.body

    @property
    def is_loaded(self) -> bool:
        """Whether the operator is registered with PyTorch."""
        return self._overload is not None

    @property
    def torch_op(self) -> Any:
        """The operator as `torch.ops` has it; builds and loads it first where that is not done."""
        self.load()
        return self._overload

    @cached_property
    def sizes(self) -> SizeProgram:
        """The steps that find and check the sizes of a call."""
        return plan_sizes(self.definition.signature)

    def load(self) -> None:
        """Build the library where there is none and register the operator; raises BuildError, ToolchainError, ..."""
        if self._overload is None:
            load_module(self.definition.module)

    @keywords_of(DefinitionOptions, DefinitionError)
    def backward(self, options: DefinitionOptions) -> Callable[[Callable[..., Any]], Operator]:
        """Declare the gradient, as a decorator: an operator whose parameters and outputs say what they are by name.

        A parameter is called `grad_<output>`, or as an input or output of the forward; a `grad_<output>` annotated with
        `| None` is None if that gradient is zero. `needs_grad_<input>: bool` tells whether that gradient is needed;
        where it is not, its output has no elements. Outputs are, in order, the gradients of all differentiable inputs,
        or those that `outputs=("grad_<input>", ...)` names. A body of `...` stands for the gradient of the forward's
        body. Everything else is as for `opsmith.op`.
        """
        if self.is_loaded:
            raise GradientError(f"{self.definition.name} is already loaded; declare its backward before the first call")

        def decorate(function: Callable[..., Any]) -> Operator:
            forward, backward = define_backward(self.definition, function, options)
            self.gradient = publish(backward)
            self.definition = forward
            return self.gradient

        return decorate

    def gradient_is(self, operator: Operator, **names: str) -> None:
        """Declare that the gradient is an operator that exists already, with other arguments.

        Each keyword names a parameter or output of that operator and says what it is here, in the words of `backward`:
        `grad_<output>`, an input, an output, or for an output `grad_<input>`. What is not named is called alike in
        both. Two linear operators, of which each is the transposed of the other, have gradients of any order in this
        way:

            @scale.backward(cpu="scale.cpp")
            def scale_transposed(grad_y, factor): ...

            scale_transposed.gradient_is(scale, x="grad_grad_x", y="grad_grad_y")
        """
        if self.is_loaded:
            raise GradientError(f"{self.definition.name} is already loaded; declare its gradient before the first call")
        self.definition = with_gradient(self.definition, operator.definition, names)
        self.gradient = operator

    def vmap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Declare the rule of torch.vmap, as a decorator of `function(info, in_dims, *args)`.

        What the function gets and returns is as for `torch.library.register_vmap`.
        Without one the rule follows from the definition: its variadic dimensions, its `batch`, or its body.
        """
        return self._declare_rule("vmap", function)

    def sharding(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Declare how the operator is sharded, as a decorator of what torch's `register_sharding` takes.

        Without one the rule follows from the definition: its variadic dimensions and its `batch` may be sharded.
        """
        return self._declare_rule("sharding", function)

    def flops(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Declare how many floating-point operations a call takes, as a decorator of a function of the same arguments.

        Without one they are counted in the body, by torch.utils.flop_counter.
        """
        return self._declare_rule("flops", function)

    def examples(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Declare calls that `opsmith check` makes besides its own, as a decorator of a function without arguments.

        It returns or yields calls, each a tuple of positional arguments or a dict by name, with tensors on the CPU;
        their element types are changed as the check goes through them. Needed where most arguments of the right shape
        mean nothing, as with indices.
        """
        return self._declare_rule("examples", function)

    def versus(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare what `opsmith bench` times the operator against, as a decorator of a function of the same arguments."""

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            self.definition = with_rival(self.definition, name, function)
            return function

        return decorate

    def attach(self, overload: Any) -> None:
        """Take over the registered operator: from now on calls enter the dispatcher."""
        explain, hides, select = self._explain, self._hides, self._select

        refuse_changed = scalar_check(self.definition.signature)

        def entry(*args: Any, **kwargs: Any) -> Any:
            ensure_sharding_rules()
            if refuse_changed is not None:
                refuse_changed(args, kwargs)
            try:
                results = overload(*args, **kwargs)
            except OpsmithError:
                raise
            except Exception:
                better = explain(args, kwargs)
                if better is None:
                    raise
                try:
                    raise better from None
                finally:
                    del better  # its traceback holds this frame, which would hold it and the arguments
            return select(results) if hides else results

        self._overload = overload
        self._entry = entry if self._flatten is None else self._flattened(entry, self._flatten)
        if (bridge := find_bridge()) is not None:
            definition = self.definition
            self._fast = bridge.make_entry(definition.qualified_name, definition.signature.parameters, self._visible)
            bridge.accelerate(Operator, "_fast")

    def _declare_rule(
        self, kind: Literal["vmap", "sharding", "flops", "examples"], function: Callable[..., Any]
    ) -> Callable[..., Any]:
        definition = with_rule(self.definition, kind, function)
        if self.is_loaded:
            raise DefinitionError(f"{definition.name} is already loaded; declare its {kind} rule before the first call")
        self.definition = definition
        return function

    def _first_call(self, *args: Any, **kwargs: Any) -> Any:
        self.load()
        return self._entry(*args, **kwargs)

    def _flattened(self, entry: Callable[..., Any], flatten: Flatten) -> Callable[..., Any]:
        """Return what takes dataclasses, too: it calls the operator again with their fields, which the bridge can take."""

        def flattened(*args: Any, **kwargs: Any) -> Any:
            flat = flatten(args, kwargs)
            return entry(*args, **kwargs) if flat is None else self(*flat[0], **flat[1])

        return flattened

    def _select(self, results: Any) -> Any:
        visible = tuple(results[index] for index in self._visible)
        return visible[0] if len(visible) == 1 else visible

    def _explain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpsmithError | None:
        """Return the typed exception where the arguments are to blame for an error that crossed C++, without its frames."""
        from opsmith.runtime.register import explain_call

        try:
            explain_call(self.definition, self.sizes, args, kwargs)
        except OpsmithError as better:
            return better.with_traceback(None)
        return None


def publish(definition: Definition) -> Operator:
    """Return the operator of a definition, known to the registry from now on."""
    operator = Operator(definition)
    registry.declare(operator)
    return operator


def operators_of(module: str) -> tuple[Operator, ...]:
    """Return the operators that a module has declared, in order."""
    return tuple(item for item in registry.declared_in(module) if isinstance(item, Operator))


def load_module(module: str, *, anew: bool = False, obtained: Obtained | None = None) -> None:
    """Load and register the operators of a module that are not loaded yet; `anew` and errors as for `obtain`.

    They come from the library that was `obtained`, where it is given.
    """
    from opsmith.runtime.load import obtain, register  # declaring an operator needs nothing of it

    with _lock:
        pending = [operator for operator in operators_of(module) if not operator.is_loaded]
        if not pending:
            return
        definitions = [operator.definition for operator in pending]
        obtained = obtained or obtain(module, definitions, anew=anew)
        find_bridge()  # which may build it now; `attach` asks for it again
        with hold_off_forks():
            register(definitions, obtained)
            for operator in pending:
                operator.attach(overload_of(operator.definition.qualified_name))


def _find(module: str, name: str) -> Operator:
    """Return an operator that another process pickled."""
    import importlib

    importlib.import_module(module)
    for operator in operators_of(module):
        if operator.definition.name == name:
            return operator
    raise AttributeError(f"{module} declares no operator {name}")
