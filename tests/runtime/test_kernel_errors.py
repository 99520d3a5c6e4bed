"""What a user reads when a kernel does not fit, does not compile or cannot be built at all."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from compilers import find_compiler
from opsmith.errors import CompileError, DefinitionError, OpsmithError, SignatureError, ToolchainError
from some import some

pytestmark = pytest.mark.compile
Package = Callable[..., ModuleType]

DEFINITION = """
@opsmith.op(cpu={kernel}, dtypes=[torch.float32])
def scale(x: Float[Tensor, "B N"], factor: float, count: int = 1) -> Float[Tensor, "B N"]:
    return x * factor
"""
VIEW = DEFINITION.format(kernel='"scale.cpp"')
NATIVE = DEFINITION.format(kernel='opsmith.native("scale.cpp")')
FITTING = """#include <opsmith/kernel.h>
using namespace opsmith;

template <class T>
void scale(View<const T, 2> x, double factor, int64_t count, View<T, 2> out) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) out(b, n) = T(factor * compute_t<T>(x(b, n)));
  }
}
"""
NEEDED = "template <class T> void scale(View<const T, 2> x, double factor, int64_t count, View<T, 2> out)"


def failure(module: ModuleType, error: type[OpsmithError]) -> str:
    with pytest.raises(error) as raised:
        module.scale(torch.ones(2, 3), 2.0)
    assert type(raised.value) is error
    assert "ninja" not in str(raised.value)
    assert "FAILED" not in str(raised.value)
    return str(raised.value)


MISFITS = {
    "another rank": ("View<const T, 2> x", "View<const T, 1> x"),
    "another number": ("double factor", "float factor"),
    "an argument too few": (", int64_t count", ""),
}


@pytest.mark.parametrize("case", MISFITS)
def test_a_kernel_that_does_not_fit_is_shown_with_the_prototype_it_should_have(package: Package, case: str) -> None:
    old, new = MISFITS[case]
    kernel = re.sub(r"\{.*\}", "{}", FITTING.replace(old, new), flags=re.DOTALL) + "\n"
    module = package(VIEW, scale__cpp=kernel)
    message = failure(module, SignatureError)
    file = Path(module.__file__).with_name("scale.cpp")
    assert message.startswith(
        f"{file}:5: the kernel `scale` does not match its definition ({module.scale.definition.location})"
    )
    assert f"the definition needs   {NEEDED}\n" in message
    assert f"the file has           {NEEDED.replace(old, new)}\n" in message
    assert f"`opsmith stub {module.__name__}` prints the prototype" in message


def test_a_missing_function_is_a_misfit_too(package: Package) -> None:
    module = package(VIEW, scale__cpp="#include <opsmith/kernel.h>\n")
    message = failure(module, SignatureError)
    assert f"the definition needs   {NEEDED}" in message
    assert "the file has           no function `scale`" in message


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("missing", ["#include <opsmith/kernel.h>\n", "using namespace opsmith;\n"])
def test_a_kernel_that_does_not_know_opsmith_s_names_is_no_misfit(
    package: Package, monkeypatch: pytest.MonkeyPatch, compiler: str, missing: str
) -> None:
    monkeypatch.setenv("CXX", find_compiler(compiler))
    message = failure(package(VIEW, scale__cpp=FITTING.replace(missing, "")), CompileError)
    assert "Begin the file with `#include <opsmith/kernel.h>`" in message
    assert re.search(r"scale\.cpp:[14]:\d+: ", message)
    assert "does not match" not in message


def test_a_kernel_in_a_namespace_is_shown_with_it_and_with_the_entry_that_finds_it(package: Package) -> None:
    kernel = FITTING.replace("template", "namespace mine {\ntemplate") + "}\n"
    message = failure(package(VIEW, scale__cpp=kernel), SignatureError)
    assert f"the definition needs   {NEEDED}\n" in message
    assert f"the file has           {NEEDED.replace('scale(', 'mine::scale(')}\n" in message
    assert re.search(r"the compiler says      .*mine::scale", message)
    entry = 'opsmith.view("scale.cpp", entry="mine::scale")'
    assert f"Name it with its namespace: cpu={entry}." in message
    module = package(DEFINITION.format(kernel=entry), scale__cpp=kernel)
    assert module.scale(torch.ones(2, 3), 2.0).tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize(
    ("parameters", "found"),
    some(
        [
            ("const Tensor& x, int64_t factor, int64_t count", "a narrowed number"),
            ("const std::vector<Tensor>& x, double factor, int64_t count", "a list"),
        ],
        1,
        "compiles PyTorch's headers",
    ),
)
def test_a_native_kernel_that_does_not_fit(package: Package, parameters: str, found: str) -> None:
    text = f"#include <opsmith/native.h>\nusing namespace opsmith;\nTensor scale({parameters}) {{ return Tensor(); }}\n"
    message = failure(package(NATIVE, scale__cpp=text), SignatureError)
    assert "the definition needs   Tensor scale(const Tensor& x, double factor, int64_t count)" in message, found
    assert f"the file has           Tensor scale({parameters})" in message
    assert "scale.cpp:3: " in message


def test_a_syntax_error_is_shown_at_the_user_s_line(package: Package) -> None:
    module = package(VIEW, scale__cpp=FITTING.replace("++n) out(b, n) =", "++n) out(b, n) = ) +"))
    message = failure(module, CompileError)
    file = Path(module.__file__).with_name("scale.cpp")
    assert f"{file}:7:" in message
    assert "    7 |     for (int64_t n = 0; n < x.size[1]; ++n) out(b, n) = ) + T(factor" in message
    assert re.search(r"^ +\| +\^$", message, re.MULTILINE)
    assert "binding.cpp" not in message


def test_an_unknown_name_inside_the_template_is_the_user_s_error(package: Package) -> None:
    message = failure(package(VIEW, scale__cpp=FITTING.replace("factor *", "faktor *")), CompileError)
    assert "scale.cpp:7:" in message
    assert "faktor" in message


def test_the_header_that_gcc_proposes_is_passed_on(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", find_compiler("g++"))
    kernel = FITTING.replace("  for", "  std::unordered_map<int, int> seen;\n  for", 1)
    message = failure(package(VIEW, scale__cpp=kernel), CompileError)
    assert re.search(r"note: .*did you forget to .#include <unordered_map>", message)


def test_an_error_in_a_header_of_the_user_s_is_shown_there(package: Package) -> None:
    header = "#pragma once\nint broken( {\n"
    module = package(VIEW, scale__cpp='#include "helper.h"\n' + FITTING, helper__h=header)
    message = failure(module, CompileError)
    assert re.search(r"helper\.h:2:\d+: ", message)
    assert "    2 | int broken( {" in message


def test_a_function_that_nothing_defines_is_a_link_error(package: Package) -> None:
    kernel = FITTING.replace("template <class T>", "void elsewhere();\ntemplate <class T>", 1)
    kernel = kernel.replace("out(b, n) =", "elsewhere(), out(b, n) =")
    message = failure(package(VIEW, scale__cpp=kernel), CompileError)
    assert "does not link: nothing defines elsewhere()" in message


def test_a_missing_kernel_file_is_told_with_the_way_to_make_it(package: Package) -> None:
    module = package(VIEW)
    message = failure(module, DefinitionError)
    assert f"scale ({module.scale.definition.location}): no kernel file" in message
    assert str(Path(module.__file__).with_name("scale.cpp")) in message
    assert "opsmith stub" in message


def test_a_missing_kernel_of_another_device_is_not_asked_for(package: Package) -> None:
    module = package(VIEW.replace('cpu="scale.cpp"', 'cpu="scale.cpp", cuda="absent.cu"'), scale__cpp=FITTING)
    if torch.cuda.is_available():
        assert "no kernel file" in failure(module, DefinitionError)
    else:
        assert module.scale(torch.ones(2, 3), 2.0).tolist() == [[2, 2, 2], [2, 2, 2]]


def test_one_file_in_two_styles_is_refused(package: Package) -> None:
    other = NATIVE.replace("def scale", "def other")
    message = failure(package(VIEW + other, scale__cpp=FITTING), DefinitionError)
    assert "other, scale share scale.cpp but with different styles" in message


def test_a_missing_compiler(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    message = failure(package(VIEW, scale__cpp=FITTING), ToolchainError)
    assert "/nowhere/c++" in message
    assert "CXX" in message


def test_a_store_that_cannot_be_written(package: Package, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A file where a folder should be stops even a superuser.
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    monkeypatch.setenv("OPSMITH_CACHE_DIR", str(blocked / "store"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    module = package(VIEW, scale__cpp=FITTING)
    with pytest.warns(RuntimeWarning, match=rf"(?s){blocked}.*OPSMITH_CACHE_DIR"):
        assert module.scale(torch.ones(2, 3), 2.0).tolist() == [[2, 2, 2]] * 2


def test_after_the_mistake_is_mended_the_same_process_builds(package: Package) -> None:
    module = package(VIEW, scale__cpp=FITTING.replace("double factor", "float factor"))
    failure(module, SignatureError)
    Path(module.__file__).with_name("scale.cpp").write_text(FITTING)
    assert module.scale(torch.ones(2, 3), 2.0).tolist() == [[2, 2, 2]] * 2


def test_names_that_mean_something_in_cpp_are_no_trouble(package: Package) -> None:
    module = package(
        """
        @opsmith.op(cpu=opsmith.view("names.cpp", entry="user::plus"))
        def view(double: Float[Tensor, "B"], B: Float[Tensor, "B"], int: int, op: bool) -> Float[Tensor, "B"]:
            return double + B + int

        @opsmith.op(cpu=opsmith.view("names.cpp", entry="user::plus"))
        def allocate(double: Float[Tensor, "B"], B: Float[Tensor, "B"], int: int, op: bool) -> Float[Tensor, "B"]:
            return double + B + int
        """,
        names__cpp="""
        #include <opsmith/kernel.h>
        namespace user {
        using namespace opsmith;
        template <class T>
        void plus(View<const T, 1> a, View<const T, 1> b, int64_t c, bool, View<T, 1> out) {
          for (int64_t n = 0; n < a.size[0]; ++n) out(n) = T(compute_t<T>(a(n)) + compute_t<T>(b(n)) + c);
        }
        }  // namespace user
        """,
    )
    x = torch.arange(3.0)
    assert module.view(x, x, 1, op=True).tolist() == [1, 3, 5]
    assert module.allocate(x, x, 2, op=True).tolist() == [2, 4, 6]


def test_files_whose_names_differ_by_their_folder_alone(package: Package) -> None:
    text = VIEW.replace("scale.cpp", "a/b.cpp") + VIEW.replace("scale.cpp", "a_b.cpp").replace("def scale", "def other")
    module = package(text, a_b__cpp=FITTING.replace("void scale", "void other"))
    folder = Path(module.__file__).parent / "a"
    folder.mkdir()
    (folder / "b.cpp").write_text(FITTING)
    assert module.other(torch.ones(1, 1), 3.0).item() == 3
    assert module.scale(torch.ones(1, 1), 2.0).item() == 2


THROWING = """#include <opsmith/kernel.h>
using namespace opsmith;

template <class T>
void scale(View<const T, 2> x, double factor, int64_t count, View<T, 2> out) {
  parallel_for(0, x.size[0], 1, [&](int64_t, int64_t) { throw 3; });
}
"""


def test_what_a_kernel_throws_that_is_no_exception_names_the_operator(package: Package) -> None:
    """PyTorch makes Python exceptions of nothing but a std::exception; all else ended the process."""
    module = package(VIEW, scale__cpp=THROWING)
    x = torch.ones(4, 3)
    for call in (module.scale, module.scale.torch_op):
        with pytest.raises(RuntimeError, match=r"scale\(\): the kernel threw something that is not a std::exception"):
            call(x, 2.0, 1)


REFUSING = """
#include <opsmith/kernel.h>
using namespace opsmith;

template <class T>
void scale(View<const T, 2> x, double factor, int64_t count, View<T, 2> out) {
  fail(count == 1 ? "count is 1" : "scale takes one");
}
"""


def test_what_a_kernel_refuses_names_the_operator_once(package: Package) -> None:
    module = package(VIEW, scale__cpp=REFUSING)
    x = torch.ones(4, 3)
    for count, text in ((1, "scale(): count is 1"), (2, "scale takes one")):
        with pytest.raises(RuntimeError, match=f"^{re.escape(text)}"):
            module.scale(x, 2.0, count)


HUNGRY = """
#include <opsmith/kernel.h>
#include <new>
using namespace opsmith;

template <class T>
void scale(View<const T, 2> x, double factor, int64_t count, View<T, 2> out) {
  throw std::bad_alloc();
}
"""


def test_a_kernel_without_memory_names_the_operator(package: Package) -> None:
    module = package(VIEW, scale__cpp=HUNGRY)
    with pytest.raises(RuntimeError, match=r"^scale\(\): there is not enough memory"):
        module.scale(torch.ones(4, 3), 2.0)
