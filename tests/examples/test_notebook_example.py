"""The notebook in examples/ runs from top to bottom in a Jupyter kernel, and shows its reports."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from opsmith.notebook.cell import DEFINITION, read_cell

nbformat = pytest.importorskip("nbformat")

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook" / "first_operator.ipynb"
_MAGIC = "%%opsmith\n"


def cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_it_is_valid_and_kept_without_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in cells(notebook))


def test_its_operators_are_cells_with_a_kernel():
    sources = [cell.source for cell in cells(nbformat.read(NOTEBOOK, as_version=4))]
    operators = [read_cell(source.removeprefix(_MAGIC)) for source in sources if source.startswith(_MAGIC)]
    assert [list(cell.files) for cell in operators] == [[DEFINITION, "lowpass.cpp"]] * 2
    assert operators[0].module != operators[1].module


@pytest.mark.compile
@pytest.mark.nightly("runs a notebook's kernel, which checks and times an operator; the cells have fast tests")
def test_it_runs_and_shows_its_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    # jupyter_client would take a kernel that is installed for the user, whatever Python that has.
    kernels = tmp_path / "kernels" / "python3"
    kernels.mkdir(parents=True)
    (kernels / "kernel.json").write_text(
        f'{{"argv": ["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"],'
        ' "display_name": "test", "language": "python"}'
    )
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    env = {name: value for name, value in os.environ.items() if name != "OPSMITH_QUIET"}
    env |= {"IPYTHONDIR": str(tmp_path / "ipython"), "PYTHONPATH": os.pathsep.join(sys.path)}
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute(env=env)
    *_, check, bench = cells(notebook)
    assert "value" in check.outputs[-1].data["text/plain"]
    assert "properties hold" in check.outputs[-1].data["text/plain"]
    assert "✗" not in check.outputs[-1].data["text/plain"]
    assert "of the limit" in bench.outputs[-1].data["text/plain"]
    assert "data:image/svg+xml;base64," in bench.outputs[-1].data["text/html"]
