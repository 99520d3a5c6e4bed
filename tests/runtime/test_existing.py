"""`load` and `load_inline`: what they build, when they build again, and how they refuse."""

from __future__ import annotations

import importlib
import os
import sys
import textwrap
from pathlib import Path

import pytest
import torch

import opsmith
from forks import python_c
from opsmith.errors import ArgumentError, ArgumentTypeError, CompileError, LoadError, ToolchainError

# A Python module in plain C API: it compiles in a tenth of a second, where torch/extension.h takes ten.
MODULE = """
#include <Python.h>
#include "value.h"
#ifndef EXTRA
#define EXTRA 0
#endif
#define PASTE(name) PyInit_##name
#define INIT(name) PASTE(name)
#define TEXT(name) #name
#define NAME(name) TEXT(name)
static PyObject* value(PyObject*, PyObject*) { return PyLong_FromLong(VALUE + EXTRA); }
static PyMethodDef methods[] = {{"value", value, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, NAME(TORCH_EXTENSION_NAME), "", -1, methods};
PyMODINIT_FUNC INIT(TORCH_EXTENSION_NAME)() { return PyModule_Create(&definition); }
"""

# An operator over the stable headers, for the same reason; to PyTorch's dispatcher it is one like any other.
LIBRARY = """
#include <torch/csrc/stable/library.h>
namespace {
int64_t scaled(int64_t x) { return x * FACTOR; }
}
STABLE_TORCH_LIBRARY(NAMESPACE, m) { m.def("scaled(int x) -> int"); }
STABLE_TORCH_LIBRARY_IMPL(NAMESPACE, CompositeExplicitAutograd, m) { m.impl("scaled", TORCH_BOX(&scaled)); }
"""

# For what takes long to compile: what is built matters here, not how fast it is.
UNOPTIMISED = ["-O0"]


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    (tmp_path / "value.h").write_text("#define VALUE 1\n")
    (tmp_path / "module.cpp").write_text(MODULE)
    return tmp_path


def printed(code: str) -> str:
    done = python_c(textwrap.dedent(code), env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.compile
def test_unchanged_source_gives_the_same_module(sources: Path) -> None:
    first = opsmith.load("plain", [sources / "module.cpp"])
    assert first.value() == 1
    assert first.__name__ == "plain"
    assert opsmith.load("plain", str(sources / "module.cpp")) is first
    os.utime(sources / "module.cpp", (1, 1))
    assert opsmith.load("plain", [sources / "module.cpp"]) is first


@pytest.mark.compile
def test_edited_header_source_and_flag_are_noticed_in_the_same_process(sources: Path) -> None:
    file = sources / "module.cpp"
    first = opsmith.load("edited", [file])
    (sources / "value.h").write_text("#define VALUE 2\n")
    second = opsmith.load("edited", [file])
    flagged = opsmith.load("edited", [file], extra_cflags=["-DEXTRA=40"])
    file.write_text(MODULE.replace("VALUE + EXTRA", "VALUE * 50"))
    third = opsmith.load("edited", [file])
    assert [module.value() for module in (first, second, flagged, third)] == [1, 2, 42, 100]
    (sources / "value.h").write_text("#define VALUE 1\n")
    file.write_text(MODULE)
    assert opsmith.load("edited", [file]) is first


@pytest.mark.compile
def test_module_can_be_imported_by_its_name_and_never_hides_another(sources: Path) -> None:
    """StyleGAN3 loads its modules in one function and imports them by name in another."""
    file = sources / "module.cpp"
    for value in (1, 2):
        (sources / "value.h").write_text(f"#define VALUE {value}\n")
        loaded = opsmith.load("imported_by_name", [file])
        assert importlib.import_module("imported_by_name") is loaded
        assert loaded.value() == value
    assert opsmith.load("textwrap", [file]).value() == 2
    assert importlib.import_module("textwrap") is textwrap


@pytest.mark.compile
def test_multi_phase_module_can_be_imported_by_its_name(tmp_path: Path) -> None:
    """Python itself registers modules of the older kind only; pybind11 3 makes none of those."""
    file = tmp_path / "phased.cpp"
    file.write_text(
        "#include <Python.h>\nstatic PyModuleDef_Slot slots[] = {{0, nullptr}};\n"
        'static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "phased", "", 0, nullptr, slots};\n'
        "PyMODINIT_FUNC PyInit_phased() { return PyModuleDef_Init(&definition); }\n"
    )
    assert opsmith.load("phased", [file]) is importlib.import_module("phased")


@pytest.mark.nightly("compiles torch/extension.h, 15 s each")
@pytest.mark.compile
def test_edited_pybind11_module_is_a_new_one_of_the_same_name(tmp_path: Path) -> None:
    """pybind11 remembers modules by name: an edited one must not come back as it was."""
    text = '#include <pybind11/pybind11.h>\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.attr("value") = STEP; }'
    file = tmp_path / "bound.cpp"
    modules = []
    for step in (1, 2, 1, 3):
        file.write_text(text.replace("STEP", str(step)))
        modules.append(opsmith.load("bound", file, extra_cflags=UNOPTIMISED))
    assert [(module.value, module.__name__) for module in modules] == [
        (1, "bound"),
        (2, "bound"),
        (1, "bound"),
        (3, "bound"),
    ]
    assert modules[0] is modules[2]


@pytest.mark.slow("processes that import torch; build/test_shortcut.py has each kind of edit")
@pytest.mark.compile
@pytest.mark.usefixtures("empty_store")
def test_new_process_notices_an_edit_and_starts_no_program_without_one(sources: Path) -> None:
    code = f"""
        import sys
        started = []
        events = ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "os.fork")
        import torch, opsmith
        sys.addaudithook(lambda event, arguments: started.append(event) if event in events else None)
        print(opsmith.load("again", [{str(sources / "module.cpp")!r}]).value(), len(started) > 0)
    """
    assert printed(code) == "1 True"
    assert printed(code) == "1 False"
    (sources / "value.h").write_text("#define VALUE 3\n")
    assert printed(code) == "3 True"


@pytest.mark.compile
def test_failed_build_names_the_line_and_can_be_fixed(sources: Path) -> None:
    file = sources / "module.cpp"
    file.write_text(MODULE.replace("VALUE + EXTRA", "VALUE + MISSING"))
    with pytest.raises(CompileError, match=r"module\.cpp:11:\d+: .*MISSING"):
        opsmith.load("mended", [file])
    file.write_text(MODULE)
    assert opsmith.load("mended", [file]).value() == 1


@pytest.mark.compile
def test_missing_header_says_where_to_name_its_folder(sources: Path) -> None:
    (sources / "value.h").rename(sources / "elsewhere.h")
    with pytest.raises(CompileError, match=r"module\.cpp:3.*(?s:.*)Add the folder that has value\.h"):
        opsmith.load("headerless", [sources / "module.cpp"])
    other = sources / "include"
    other.mkdir()
    (other / "value.h").write_text("#define VALUE 7\n")
    assert opsmith.load("headerless", [sources / "module.cpp"], extra_include_paths=[other]).value() == 7


@pytest.mark.compile
@pytest.mark.slow("several processes that build")
def test_processes_with_one_name_and_different_sources_never_mix(sources: Path) -> None:
    files = []
    for value in range(3):
        folder = sources / str(value)
        folder.mkdir()
        (folder / "value.h").write_text(f"#define VALUE {value}\n")
        (folder / "module.cpp").write_text(MODULE)
        files += [str(folder / "module.cpp")] * 2
    # The processes have torch in common, and nothing of opsmith.
    code = f"""
        import os, torch
        for number, file in enumerate({files!r}):
            if os.fork() == 0:
                import opsmith
                open(f"{sources}/{{number}}.txt", "w").write(str(opsmith.load("mixed", [file]).value()))
                break
        else:
            print([os.waitstatus_to_exitcode(os.wait()[1]) for _ in range({len(files)})])
    """
    assert printed(code) == "[0, 0, 0, 0, 0, 0]"
    assert [(sources / f"{number}.txt").read_text() for number in range(6)] == ["0", "0", "1", "1", "2", "2"]


@pytest.mark.compile
def test_files_of_one_name_in_two_folders_do_not_meet(sources: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (sources / name).mkdir()
        (sources / name / "part.cpp").write_text(f"int {name}() {{ return '{other}'; }}\n")
    text = MODULE.replace("VALUE + EXTRA", "a() * 1000 + b()").replace(
        "#include <Python.h>", "#include <Python.h>\nint a(); int b();"
    )
    (sources / "module.cpp").write_text(text)
    parts = [sources / "module.cpp", sources / "a" / "part.cpp", sources / "b" / "part.cpp"]
    assert opsmith.load("parts", parts).value() == ord("b") * 1000 + ord("a")


@pytest.mark.compile
def test_arguments_are_not_changed(sources: Path) -> None:
    arguments = {
        "sources": [str(sources / "module.cpp")],
        "extra_cflags": ["-DEXTRA=1 -DUNUSED=2"],
        "extra_ldflags": ["-Wl,--as-needed"],
        "extra_include_paths": [str(sources)],
    }
    before = {name: list(value) for name, value in arguments.items()}
    assert opsmith.load("untouched", **arguments).value() == 2
    assert arguments == before
    texts = [MODULE.replace('#include "value.h"', "#define VALUE 5")]
    assert opsmith.load_inline("untouched", texts, no_implicit_headers=True).value() == 5
    assert len(texts) == 1


@pytest.mark.nightly("compiles torch/extension.h, 15 s each")
@pytest.mark.compile
def test_edited_library_takes_the_place_of_its_earlier_version(tmp_path: Path) -> None:
    """#23: with torch.utils.cpp_extension the second load ends the process."""
    file = tmp_path / "ops.cpp"

    def load(factor: int, **changes: str) -> str:
        text = LIBRARY.replace("NAMESPACE", "existing_ops").replace("FACTOR", str(factor))
        for old, new in changes.items():
            text = text.replace(old, new)
        file.write_text(text)
        return opsmith.load("existing_library", [file], extra_cflags=UNOPTIMISED, is_python_module=False)

    path = load(3)
    assert Path(path).is_file()
    held, overload = torch.ops.existing_ops.scaled, torch.ops.existing_ops.scaled.default
    assert held(14) == 42
    assert load(3) == path
    assert load(4) != path
    assert (torch.ops.existing_ops.scaled(14), held(14), overload(14)) == (56, 56, 56)
    # Back to the first version, whose library is in the process already.
    assert load(3) == path
    assert (torch.ops.existing_ops.scaled(14), held(14)) == (42, 42)
    load(5)
    assert (torch.ops.existing_ops.scaled(14), held(14)) == (70, 70)


@pytest.mark.slow("a process that builds a library")
@pytest.mark.compile
def test_namespace_of_another_library_is_refused_without_an_abort(tmp_path: Path) -> None:
    file = tmp_path / "ops.cpp"
    file.write_text(LIBRARY.replace("NAMESPACE", "existing_taken").replace("FACTOR", "3"))
    opsmith.load("existing_first", [file], is_python_module=False)
    file.write_text(LIBRARY.replace("NAMESPACE", "existing_taken").replace("FACTOR", "4"))
    with pytest.raises(LoadError, match="namespace existing_taken"):
        opsmith.load("existing_second", [file], is_python_module=False)
    assert torch.ops.existing_taken.scaled(14) == 42


@pytest.mark.compile
def test_undefined_function_is_named_as_in_the_source() -> None:
    text = "int elsewhere(double, int);\nint here() { return elsewhere(1.0, 2); }\n"
    with pytest.raises(LoadError, match=r"nothing defines elsewhere\(double, int\)"):
        opsmith.load_inline("incomplete", text, no_implicit_headers=True, is_python_module=False)


@pytest.mark.compile
def test_inline_errors_name_the_argument_and_its_line() -> None:
    texts = ["int first() { return 1; }\n", "int second() {\n  return missing;\n}\n"]
    with pytest.raises(CompileError, match=r"cpp_sources\[1\]:2:10: .*missing.*(?s:.*)\|   return missing;"):
        opsmith.load_inline("inline_error", texts, no_implicit_headers=True)


@pytest.mark.compile
def test_file_of_a_text_can_be_opened_and_has_its_line_there(tmp_path: Path) -> None:
    """TORCH_CHECK and stack traces name __FILE__ and __LINE__."""
    text = MODULE.replace('#include "value.h"', "#define VALUE 0").replace(
        "PyLong_FromLong(VALUE + EXTRA)", 'Py_BuildValue("si", __FILE__, __LINE__)'
    )
    keys = set()
    for store in ("one", "two"):
        texts = ["// first\n", text]
        module = opsmith.load_inline("kept_text", texts, no_implicit_headers=True, build_directory=tmp_path / store)
        file, line = module.value()
        assert Path(file).name == "main.cpp"
        assert "__FILE__, __LINE__" in Path(file).read_text().splitlines()[line - 1]
        keys.add(Path(module.__file__).parent.name)
    assert len(keys) == 1, "the path of the store is not part of the key"


@pytest.mark.compile
def test_error_in_a_header_is_told_at_the_line_that_led_to_it() -> None:
    text = "#include <algorithm>\n#include <vector>\nstruct A {};\n"
    text += "void f(std::vector<A>& a) {\n  std::sort(a.begin(), a.end());\n}\n"
    with pytest.raises(CompileError, match=r"cpp_sources\[0\]:5:"):
        opsmith.load_inline("header_error", text, no_implicit_headers=True)


@pytest.mark.compile
def test_build_directory_is_a_store_of_its_own(sources: Path, tmp_path: Path) -> None:
    module = opsmith.load("elsewhere", [sources / "module.cpp"], build_directory=tmp_path / "store")
    assert Path(module.__file__).is_relative_to(tmp_path / "store")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"sources": ["/nowhere/at_all.cpp"]}, ArgumentError, "no source file /nowhere/at_all.cpp"),
        ({"sources": ["/nowhere/at_all.cpp"]}, FileNotFoundError, "no source file /nowhere/at_all.cpp"),
        ({"sources": []}, ArgumentError, "no sources"),
        ({"sources": 5}, ArgumentTypeError, "sources must be"),
        ({"sources": [__file__]}, ArgumentError, "is not a known kind of source file"),
        ({"sources": [], "is_standalone": True}, ValueError, "is_python_module=False"),
        ({"sources": [], "extra_cflags": [1]}, ArgumentTypeError, "extra_cflags must be a list of strings"),
        ({"sources": [], "extra_cflags": ["-D'"]}, ArgumentError, "cannot be split like a shell command"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        opsmith.load("refused", **arguments)


def test_name_must_be_an_identifier(sources: Path) -> None:
    with pytest.raises(ArgumentError, match="identifier"):
        opsmith.load("not-a-name", [sources / "module.cpp"])


@pytest.mark.skipif(torch.version.cuda is not None or torch.version.hip is not None, reason="this torch has a GPU")
def test_cuda_source_with_a_cpu_torch_is_refused_before_a_long_build() -> None:
    with pytest.raises(ToolchainError, match=r"cudaless has CUDA sources, but torch .* built without CUDA") as raised:
        opsmith.load_inline("cudaless", "", "__global__ void f() {}")
    assert isinstance(raised.value, OSError)
    with pytest.raises(ToolchainError, match=r"cudaless is to be built with CUDA \(with_cuda=True\), but torch"):
        opsmith.load_inline("cudaless", "", with_cuda=True)


@pytest.mark.slow("compiles torch/extension.h, 15 s each")
@pytest.mark.compile
def test_load_inline_binds_functions_with_any_doc_text_and_torch_errors() -> None:
    text = """
        torch::Tensor twice(const torch::Tensor& x) {
          TORCH_CHECK_VALUE(x.dim() == 1, "one dimension, please");
          return x + x;
        }
        namespace inner { int answer() { return 42; } }
    """
    functions = {"twice": 'Says "2x",\nin C:\\ and Zürich', "inner::answer": ""}
    before = dict(functions)
    module = opsmith.load_inline("documented", text, functions=functions, extra_cflags=UNOPTIMISED)
    assert functions == before
    torch.testing.assert_close(module.twice(torch.arange(3)), torch.tensor([0, 2, 4]))
    assert functions["twice"] in module.twice.__doc__
    assert module.answer() == 42
    with pytest.raises(ValueError, match="one dimension, please"):
        module.twice(torch.zeros(()))


@pytest.mark.slow("compiles torch/extension.h, 15 s each")
@pytest.mark.compile
def test_classic_operators_are_replaced_and_a_changed_signature_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "classic.cpp"
    text = """
        #include <ATen/core/Tensor.h>
        #include <torch/library.h>
        TORCH_LIBRARY_FRAGMENT(existing_classic, m) {
          m.def("plus(int x) -> int", [](TYPE x) { return x + STEP; });
        }
        TORCH_LIBRARY(existing_whole, m) { m.def("minus", +[](int64_t x) { return x - STEP; }); }
    """

    def load(step: int, kind: str = "int64_t") -> None:
        file.write_text(text.replace("TYPE", kind).replace("STEP", str(step)))
        opsmith.load("classic", file, extra_cflags=UNOPTIMISED, is_python_module=False)

    load(1)
    held = torch.ops.existing_classic.plus
    assert (held(1), torch.ops.existing_whole.minus(1)) == (2, 0)
    load(2)
    assert (held(1), torch.ops.existing_classic.plus(1), torch.ops.existing_whole.minus(1)) == (3, 3, -1)
    file.write_text(
        text.replace("int64_t x) { return x - STEP", "int64_t x, int64_t y) { return x - y")
        .replace("TYPE", "int64_t")
        .replace("STEP", "0")
    )
    with pytest.raises(LoadError, match=r"cannot replace the earlier one.*signature"):
        opsmith.load("classic", file, extra_cflags=UNOPTIMISED, is_python_module=False)
    assert (held(1), torch.ops.existing_whole.minus(1)) == (3, -1)


@pytest.mark.gpu
@pytest.mark.slow("compiles torch/extension.h, 15 s each")
@pytest.mark.compile
def test_cuda_sources_over_torchs_full_api_run_on_the_current_stream() -> None:
    declared = "torch::Tensor twice(torch::Tensor x);"
    kernel = """
        #include <c10/cuda/CUDAException.h>
        #include <c10/cuda/CUDAStream.h>
        __global__ void each(const float* x, float* y, int64_t n) {
          for (int64_t i = threadIdx.x; i < n; i += blockDim.x) y[i] = 2 * x[i];
        }
        torch::Tensor twice(torch::Tensor x) {
          auto y = torch::empty_like(x);
          each<<<1, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
          C10_CUDA_KERNEL_LAUNCH_CHECK();
          return y;
        }
    """
    module = opsmith.load_inline("cuda_inline", declared, kernel, functions="twice")
    x = torch.randn(1000, device="cuda")
    torch.testing.assert_close(module.twice(x), 2 * x)


@pytest.mark.gpu
@pytest.mark.slow("compiles torch/extension.h, 15 s each")
@pytest.mark.compile
def test_cpp_source_may_call_the_cuda_runtime(tmp_path: Path) -> None:
    file = tmp_path / "count.cpp"
    head = "#include <cuda_runtime_api.h>\nint count() { int n = 0; cudaGetDeviceCount(&n); return n; }"
    text = MODULE.replace('#include "value.h"', head)
    file.write_text(text.replace("VALUE + EXTRA", "count()"))
    with pytest.raises(CompileError, match="cuda_runtime_api"):
        opsmith.load("device_count", file)
    assert opsmith.load("device_count", file, with_cuda=True).value() == torch.cuda.device_count()
