"""What is refused where an operator is declared, and how it gets its name, its namespace and its place."""

from __future__ import annotations

import copy
import importlib
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
import torch

import opsmith
from opsmith.errors import DefinitionError, GradientError

Package = Callable[..., ModuleType]

DOUBLE = """
@opsmith.op()
def double(x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    '''Twice the input.'''
    return x * 2
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('@opsmith.op()\ndef f(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]: ...', "f: the body is empty"),
        ('@opsmith.op\ndef f(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:\n    """Doc."""', "f: the body is empty"),
        (
            '@opsmith.op("f.cpp")\ndef f(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]: return x',
            "found 'f.cpp'; cpu= and",
        ),
        ('@opsmith.op(cpu=3)\ndef f(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]: return x', "a kernel is a file name"),
        (
            '@opsmith.op(cpu="f.cpp")\ndef f(x: Float[Tensor, "N"]) -> Float[Tensor, "K"]: return x',
            "no input determines the size K of the output, so it cannot be allocated in advance; the inputs have N. Use",
        ),
        (
            '@opsmith.op()\ndef f(n: Float[Tensor, "N"], *, x: Float[Tensor, "N"]) -> Float[Tensor, "N"]: return x',
            "the tensor x is keyword-only, and PyTorch gives no gradients to such operators; move it before the `*`",
        ),
        (
            '@opsmith.op()\ndef f(é: Float[Tensor, "N"]) -> Float[Tensor, "N"]: return é',
            "f: PyTorch cannot read the schema f(Tensor é) -> Tensor",
        ),
        (
            '@opsmith.op(cpu="f.cu")\ndef f(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]: return x',
            "f: cpu= names the GPU source f.cu; give it as cuda=",
        ),
        (
            '@opsmith.op(cpu="f.cpp")\ndef new(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]: return x',
            'new is a keyword of C++, so no kernel can have that name; choose another with opsmith.view("f.cpp", '
            'entry="new_")',
        ),
        (
            "@opsmith.op()\ndef f("
            + ", ".join(f'x{index}: Float[Tensor, "N"]' for index in range(65))
            + ') -> Float[Tensor, "N"]: return x0',
            "f: it has 65 arguments, and PyTorch's operators can have 64; take tensors as a list",
        ),
        (
            f"@opsmith.op(mutates={[f'x{index}' for index in range(27)]})\ndef f("
            + ", ".join(f'x{index}: Float[Tensor, "N"]' for index in range(27))
            + ") -> None: x0.add_(1)",
            "f: it mutates 27 tensors; an operator can mutate 26",
        ),
        (
            '@opsmith.op(dtypes=["float32"])\ndef f(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]: return x',
            "dtypes= holds ['float32']; give torch.float32",
        ),
        (
            '@opsmith.op(dtypes=[])\ndef f(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]: return x',
            "dtypes= holds []; give torch.float32",
        ),
        (
            '@opsmith.op(dtypes=[torch.complex64])\ndef f(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]: return x',
            "dtypes= holds [torch.complex64]; give torch.float32",
        ),
        *(
            (
                f'@opsmith.op({given})\ndef f(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]: return x',
                f"f: {given.partition('=')[0]}= {words}",
            )
            for given, words in (
                ("outputs=7", "is 7; give a name, or a tuple of names"),
                ("outputs=b'y'", "is b'y'; give a name, or a tuple of names"),
                ("saved=('y', 3)", "is ('y', 3); give a name, or a tuple of names"),
                ("mutates=5", "is 5; give a name, or a tuple of names"),
                ("nondifferentiable=5", "is 5; give a name, or a tuple of names"),
                ("contiguous=5", "is 5; give a name, or a tuple of names"),
                ("passes_gradient=3", 'is 3; give a dict of names, such as {"out": "x"}'),
                ("preserve_format=['out']", "is ['out']; give a dict of names, such as"),
                ("dtypes=3", "holds [3]; give torch.float32"),
            )
        ),
    ],
)
def test_a_definition_that_cannot_work_is_refused(package: Package, text: str, words: str) -> None:
    with pytest.raises(DefinitionError) as error:
        package(text)
    assert words in str(error.value)


BACKWARD = {
    "needs an input that it does not take": (
        '(grad_out: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]: ...',
        "its body is empty, so it would be the gradient of double's body, but that needs the input x",
    ),
    "takes what there is not": (
        '(grad_out: Float[Tensor, "*n"], z: float) -> Float[Tensor, "*n"]: return grad_out',
        "the parameter z is neither a gradient nor an input nor an output of double. There are grad_out, x, out",
    ),
    "returns too little": (
        '(x: Float[Tensor, "*n"]) -> None: return None',
        "it returns 0 gradients, but double has 1 differentiable input (x), and what is missing would silently be zero",
    ),
}


@pytest.mark.parametrize("case", BACKWARD)
def test_a_backward_that_does_not_fit_is_refused_and_forgotten(package: Package, case: str) -> None:
    text, words = BACKWARD[case]
    module = package(DOUBLE)
    module.add = f"@double.backward()\ndef double_backward{text}"
    with pytest.raises(DefinitionError) as error:
        exec(module.add, module.__dict__)
    assert words in str(error.value)
    x = torch.ones(3, requires_grad=True)
    module.double(x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    assert not hasattr(getattr(torch.ops, module.__name__), "double_backward")


def test_a_backward_is_declared_before_the_first_call(package: Package) -> None:
    module = package(DOUBLE)
    module.double(torch.ones(1))
    with pytest.raises(GradientError, match="double is already loaded; declare its backward before the first call"):
        module.double.backward()


def test_lists_cannot_have_a_derived_backward(package: Package) -> None:
    with pytest.raises(DefinitionError, match="total takes a list of tensors; write the body of its gradient"):
        package("""
            @opsmith.op(nondifferentiable="xs")
            def total(xs: list[Float[Tensor, "N"]], w: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
                return sum(xs) * w

            @total.backward()
            def total_backward(
                grad_out: Float[Tensor, "N"], xs: list[Float[Tensor, "N"]], w: Float[Tensor, "N"]
            ) -> Float[Tensor, "N"]: ...
        """)


def test_the_namespace_is_the_package_or_what_is_said(package: Package) -> None:
    module = package(
        DOUBLE
        + """
@opsmith.op(namespace="elsewhere")
def triple(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return x * 3
"""
    )
    assert module.double.definition.qualified_name == f"{module.__name__}::double"
    assert module.triple.torch_op is torch.ops.elsewhere.triple.default
    assert getattr(torch.ops, module.__name__).double(torch.ones(2)).tolist() == [2, 2]


def test_an_operator_remembers_where_and_how_it_was_declared(package: Package) -> None:
    module = package(DOUBLE)
    definition = module.double.definition
    line = Path(module.__file__).read_text().splitlines().index("@opsmith.op()") + 1
    assert definition.location == f"{module.__file__}:{line}"
    assert (module.double.__name__, module.double.__doc__) == ("double", "Twice the input.")
    assert repr(module.double) == f"<opsmith operator {module.__name__}::double(Tensor x) -> Tensor>"


def test_one_name_in_two_files_is_refused(package: Package) -> None:
    text = '@opsmith.op(namespace="shared{}")\ndef twice(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]: return x * 2'
    first = package(text.format(1))
    package(text.format(2))
    with pytest.raises(DefinitionError) as error:
        package(text.format(1))
    assert "shared1::twice is already declared at" in str(error.value)
    assert first.twice.definition.location in str(error.value)


def test_a_module_that_is_run_again_replaces_its_operators_until_they_are_used(package: Package) -> None:
    module = package(DOUBLE)
    code = compile(Path(module.__file__).read_text(), module.__file__, "exec")
    before = module.double
    exec(code, module.__dict__)
    assert module.double is not before
    module.double.load()
    with pytest.raises(DefinitionError, match=r"double is already in use, and PyTorch cannot unload it"):
        exec(code, module.__dict__)


def test_operators_are_copied_and_pickled_by_name(package: Package) -> None:
    module = package(DOUBLE)
    assert copy.deepcopy([module.double])[0] is module.double
    assert pickle.loads(pickle.dumps(module.double)) is module.double
    assert sys.modules[module.__name__] is module


def test_a_body_that_returns_something_else_is_told(package: Package) -> None:
    module = package("""
        @opsmith.op()
        def wrong(x: Float[Tensor, "N"], how: str) -> Float[Tensor, "N"]:
            return {"count": (x, x), "size": x[1:], "dtype": x.double(), "type": 3}[how]
    """)
    x = torch.ones(3)
    for how, words in {
        "count": "the body returned Tensor, Tensor, the definition says 1 tensor",
        "type": "the body returned int, the definition says 1 tensor",
        "size": "has the sizes (2,), the definition says (3,)",
        "dtype": "is torch.float64, the definition says torch.float32",
    }.items():
        with pytest.raises(DefinitionError) as error:
            module.wrong(x, how)
        assert words in str(error.value)
        assert module.wrong.definition.location in str(error.value)


@pytest.mark.compile
def test_many_threads_may_make_the_first_call(package: Package) -> None:
    module = package(
        DOUBLE.replace("op()", 'op(cpu=opsmith.view("double.cpp", entry="twice"))'),
        double__cpp="""
        #include <opsmith/kernel.h>
        template <class T>
        void twice(opsmith::View<const T, 1> x, opsmith::View<T, 1> out) {
          for (int64_t n = 0; n < x.size[0]; ++n) out(n) = T(2 * opsmith::compute_t<T>(x(n)));
        }
        """,
    )
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: module.double(torch.tensor([float(number)])).item(), range(32)))
    assert results == [2.0 * number for number in range(32)]


def test_operators_without_kernels_need_no_compiler(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    module = package(DOUBLE)
    assert isinstance(module.double, opsmith.Operator)
    assert module.double(torch.ones(2)).tolist() == [2, 2]
    assert module.double(torch.ones(2, device="meta")).device.type == "meta"


def test_sixty_four_arguments_and_defaults_at_the_edges_work(package: Package) -> None:
    numbers = ", ".join(f"n{index}: int = {index}" for index in range(58))
    module = package(
        f"""
@opsmith.op()
def wide(
    x: Float[Tensor, "N"], {numbers}, low: int = -2**63, high: int = 2**63 - 1, small: float = 2.2250738585072014e-308,
    text: str = "\\r\\x01\\t\\\\\\"?é", large: float = 1.7976931348623157e308
) -> Float[Tensor, "N"]:
    assert (low, high) == (-2**63, 2**63 - 1), (low, high)
    assert (small, large) == (2.2250738585072014e-308, 1.7976931348623157e308)
    assert text == "\\r\\x01\\t\\\\\\"?é", text
    return x + n57
"""
    )
    assert module.wide(torch.zeros(2)).tolist() == [57, 57]
    assert module.wide.torch_op(torch.zeros(2)).tolist() == [57, 57]


@pytest.mark.compile
def test_a_module_whose_name_is_not_ascii_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "größe.py").write_text(
        "from jaxtyping import Float32\nfrom torch import Tensor\nimport opsmith\n\n"
        '@opsmith.op(cpu="größe.cpp")\n'
        'def twice(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:\n    return 2 * x\n',
        encoding="utf-8",
    )
    (tmp_path / "größe.cpp").write_text(
        "#include <opsmith/kernel.h>\nvoid twice(opsmith::View<const float, 1> x, opsmith::View<float, 1> out) {\n"
        "  for (int64_t n = 0; n < x.size[0]; ++n) out(n) = 2 * x(n);\n}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("größe")
    assert module.twice(torch.ones(2)).tolist() == [2, 2]
    assert module.twice.torch_op(torch.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("options", "name", "words"),
    [
        ('namespace="größe"', "f", "f: PyTorch cannot read the schema f(Tensor x) -> Tensor in größe"),
        ('namespace="a b"', "f", "f: PyTorch cannot read the schema f(Tensor x) -> Tensor in a b"),
        ("", "größe", "größe: PyTorch cannot read the schema größe(Tensor x) -> Tensor in user"),
    ],
)
def test_a_name_that_pytorch_cannot_read_is_refused(package: Package, options: str, name: str, words: str) -> None:
    with pytest.raises(opsmith.errors.DefinitionError) as raised:
        package(f'@opsmith.op({options})\ndef {name}(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]: return x')
    assert words in str(raised.value)


def test_operators_may_have_the_names_of_keywords_of_c(package: Package) -> None:
    module = package(
        '@opsmith.op()\ndef int(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]: return 2 * x\n'
        '@opsmith.op()\ndef new(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]: return 3 * x\n'
    )
    assert module.int(torch.ones(1)).item() == 2
    assert module.new.torch_op(torch.ones(1)).item() == 3
