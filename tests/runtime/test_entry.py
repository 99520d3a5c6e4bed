"""The fast entry takes plain calls and leaves all others to torch.ops; nobody can tell which way a call went."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import opsmith
from opsmith.errors import ArgumentTypeError, DtypeError, ShapeError
from opsmith.ops.add2 import add2
from opsmith.runtime.bridge import find_bridge

pytestmark = pytest.mark.compile

OPERATOR = '''
    @opsmith.op(outputs=("y", "spare"), saved="spare")
    def everything(
        x: Float[Tensor, "N"], more: list[Float[Tensor, "_"]], w: Float[Tensor, "N"] | None = None, n: int = 2,
        *, f: float = 0.5, flag: bool = True, name: str = "a", ints: list[int] = (1, 2), floats: list[float] = (),
        oi: int | None = None, of: float | None = None, ob: bool | None = None,
    ) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
        """Every kind of argument in one sum."""
        total = n + f + flag + len(name) + sum(ints) + sum(floats) + (oi or 0) + (of or 0) + bool(ob)
        for tensor in more:
            total = total + tensor.sum()
        y = x * total if w is None else x * total + w
        return y, y.detach()
'''


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> opsmith.Operator:
    import importlib
    import sys
    import textwrap

    folder = tmp_path_factory.mktemp("entry")
    head = "import torch\nfrom jaxtyping import Float\nfrom torch import Tensor\nimport opsmith\n"
    (folder / "entry_operators.py").write_text(head + textwrap.dedent(OPERATOR))
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("entry_operators").everything
    finally:
        sys.path.remove(str(folder))


class Slow(Exception):
    """Raised where a call goes the slow way."""


@pytest.fixture
def only_fast(everything: opsmith.Operator, monkeypatch: pytest.MonkeyPatch) -> opsmith.Operator:
    """The operator, raising Slow where a call is not taken by the fast entry."""
    if find_bridge() is None:
        pytest.skip("there is no fast entry without the bridge")
    everything.load()

    def slow(*args: object, **kwargs: object) -> None:
        raise Slow

    monkeypatch.setattr(everything, "_entry", slow)
    return everything


X = torch.arange(3.0)
PLAIN: list[tuple[tuple[object, ...], dict[str, object]]] = [
    ((X, []), {}),
    ((X, (), None, 2), {}),
    ((X, [X, X[:1]], X, 7), {"f": 3, "name": "longer", "ints": [], "floats": (1.5, 2)}),
    ((), {"n": -1, "more": [], "x": X, "ob": True, "oi": 2**40, "of": 1, "flag": False}),
    ((torch.nn.Parameter(X), []), {"w": torch.nn.Parameter(X), "oi": None, "of": None, "ob": None}),
]


@pytest.mark.parametrize(("args", "kwargs"), PLAIN)
def test_plain_calls_are_taken(only_fast, args, kwargs):
    result = only_fast(*args, **kwargs)
    assert torch.equal(result, only_fast.torch_op(*args, **kwargs)[0])
    assert torch.equal(result, only_fast.reference(*args, **kwargs)[0])


class Subclass(torch.Tensor):
    pass


class Int(int):
    pass


UNUSUAL: list[tuple[tuple[object, ...], dict[str, object]]] = [
    ((X.as_subclass(Subclass), []), {}),
    ((X, []), {"n": Int(3)}),
    ((X, []), {"f": True}),
    ((X, []), {"flag": 1}),
    ((X, []), {"n": 2**70}),
    ((X, []), {"unknown": 1}),
    ((X, [], None, 1, 1), {}),
    ((X,), {"w": X}),
    ((X, []), {"x": X}),
    ((X, [X, None]), {}),
    ((X, iter([X])), {}),
    ((X, []), {"ints": [1.5]}),
    ((X, []), {"n": None}),
    (([1.0], []), {}),
]


@pytest.mark.parametrize(("args", "kwargs"), UNUSUAL)
def test_unusual_calls_are_left_to_torch_ops(only_fast, args, kwargs):
    with pytest.raises(Slow):
        only_fast(*args, **kwargs)


def test_modes_see_the_call_of_torch_ops(everything):
    seen: list[object] = []

    class Function(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    class Dispatch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    for mode in (Function(), Dispatch()):
        with mode:
            everything(X, [])
        assert everything.torch_op in seen
        seen.clear()


def test_errors_are_typed_whichever_way_a_call_goes():
    for call in (add2, add2.__call__):
        with pytest.raises(ShapeError, match=r"b has the sizes \(2\)"):
            call(X, X[:2])
        with pytest.raises(DtypeError, match="b is float64"):
            call(X, b=X.double())
        with pytest.raises(ArgumentTypeError, match="b is missing"):
            call(X)
        with pytest.raises(ArgumentTypeError, match="b is given twice"):
            call(X, X, b=X)
        with pytest.raises(ArgumentTypeError, match="there is no argument c"):
            call(X, X, c=X)


def test_an_error_of_a_kernel_keeps_its_words(package: Callable[..., ModuleType]) -> None:
    module = package("""
        @opsmith.op
        def refuses(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
            raise ZeroDivisionError("by design")
    """)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="by design"):
            module.refuses(X)


def test_operators_without_results_return_none(package: Callable[..., ModuleType]) -> None:
    module = package(
        """
        @opsmith.op(mutates="x", cpu="clear.cpp")
        def clear(x: Float[Tensor, "*n"], value: float = 0.0) -> None:
            x.fill_(value)
    """,
        clear__cpp="""
        #include <opsmith/kernel.h>
        template <class T>
        void clear(opsmith::View<T, 1> x, double value) {
          for (int64_t i = 0; i < x.size[0]; ++i) x(i) = static_cast<T>(value);
        }
    """,
    )
    x = X.clone()
    assert module.clear(x) is None
    assert module.clear(x, value=2) is None
    assert x.tolist() == [2.0, 2.0, 2.0]


def test_the_interpreter_lock_is_free_while_a_kernel_runs() -> None:
    """Two threads that call large kernels make progress together; a held lock would be a deadlock with backward."""
    from concurrent.futures import ThreadPoolExecutor

    def work(seed: int) -> Tensor:
        x = torch.full((50_000,), float(seed), requires_grad=True)
        add2(x, x).sum().backward()
        assert x.grad is not None
        return x.grad

    with ThreadPoolExecutor(8) as pool:
        for gradient in pool.map(work, range(32)):
            assert torch.equal(gradient, torch.full((50_000,), 2.0))
