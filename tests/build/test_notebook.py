"""A build in a real Jupyter kernel: progress in one output that is updated, and errors with the compiler's words."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

pytestmark = [pytest.mark.compile, pytest.mark.slow("runs a notebook's kernel")]

_KERNEL = """
%%writefile twice.cpp
#include <opsmith/kernel.h>
using namespace opsmith;
template <class T>
void twice(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(2 * compute_t<T>(x(n)));
}
"""

_DEFINITION = """
%%writefile notebook_twice.py
import opsmith
from jaxtyping import Float
from torch import Tensor

@opsmith.op(cpu="twice.cpp", outputs="y")
def twice(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return 2 * x
"""

_OPERATOR = """
import torch
from notebook_twice import twice
print(twice(torch.ones(3)).tolist())
"""

# pybind11 alone, because torch/extension.h would take four times as long and show nothing more.
_INLINE = '''
import opsmith
source = """
#include <pybind11/pybind11.h>
int thrice(int x) {{ return 3 * x; }}{mistake}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("thrice", &thrice); }}
"""
module = opsmith.load_inline("notebook_inline", source, no_implicit_headers=True)
print(module.thrice(14))
'''


class Recorder(nbclient.NotebookClient):  # type: ignore[misc]
    """A client that also keeps each state of an output that a kernel replaces."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.shown: list[str] = []
        super().__init__(*args, **kwargs)

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] in {"display_data", "update_display_data"}:
            self.shown.append(f"{msg['msg_type']}: {msg['content']['data']['text/plain']}")
        return super().process_message(msg, cell, cell_index)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[str]]:
    """Run the cells in a kernel of this Python and return the notebook and all that was displayed on the way."""
    folder = tmp_path_factory.mktemp("notebook")
    cells = [_KERNEL, _DEFINITION, _OPERATOR, _INLINE.format(mistake=""), _INLINE.format(mistake=" int x = nothing;")]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(textwrap.dedent(cell).strip()) for cell in cells])
    made.cells[-1].metadata["tags"] = ["raises-exception"]
    # jupyter_client would take a kernel that is installed for the user, whatever Python that has.
    kernels = folder / "kernels" / "python3"
    kernels.mkdir(parents=True)
    (kernels / "kernel.json").write_text(
        f'{{"argv": ["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"],'
        ' "display_name": "test", "language": "python"}'
    )
    env = {name: value for name, value in os.environ.items() if name not in {"OPSMITH_QUIET", "OPSMITH_VERBOSE"}}
    env |= {"OPSMITH_CACHE_DIR": str(folder / "store"), "OPSMITH_BRIDGE": "off", "IPYTHONDIR": str(folder / "ipython")}
    env |= {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder))
        client = Recorder(made, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
        client.execute(env=env)
    return made, client.shown


def outputs(cell: Any, kind: str) -> list[Any]:
    return [output for output in cell.outputs if output.output_type == kind]


def test_an_operator_and_an_inline_module_are_built_and_used(notebook):
    operator, inline = notebook[0].cells[2:4]
    assert outputs(operator, "stream")[-1].text == "[2.0, 2.0, 2.0]\n"
    assert outputs(inline, "stream")[-1].text == "42\n"


def test_each_build_has_one_output_that_ends_with_the_result(notebook):
    for cell, title in (
        (notebook[0].cells[2], "notebook_twice: twice for cpu"),
        (notebook[0].cells[3], "notebook_inline"),
    ):
        (shown,) = outputs(cell, "display_data")
        assert shown.data["text/plain"].startswith(f"opsmith  built {title} in ")
        # Nothing else but what the cell prints: no stream that fills line by line.
        assert [output.output_type for output in cell.outputs] == ["display_data", "stream"]


def test_progress_is_shown_in_place_while_it_builds(notebook):
    end = next(index for index, line in enumerate(notebook[1]) if "built notebook_inline" in line)
    lines = [line for line in notebook[1][:end] if "building notebook_inline" in line]
    first, *later = lines
    assert first.startswith("display_data: opsmith  building notebook_inline  [0/2]  main.cpp  0.")
    # The compiler says nothing for seconds; it is the clock that moves.
    assert sum("[0/2]" in line for line in later) >= 2
    assert all(line.startswith("update_display_data: ") for line in later)


def test_an_error_shows_what_the_compiler_says(notebook):
    cell = notebook[0].cells[4]
    (error,) = outputs(cell, "error")
    assert error.ename == "CompileError"
    assert "nothing" in error.evalue
    assert "was not declared" in error.evalue or "undeclared" in error.evalue
    assert "cpp_sources[0]:3" in error.evalue
    (shown,) = outputs(cell, "display_data")
    assert shown.data["text/plain"].startswith("opsmith  notebook_inline failed after ")
