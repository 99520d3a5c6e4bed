"""Loading and messages: an edited operator, a missing symbol, a mistake in a source. (#23, #24, #27)

Further: reloading in tests/runtime/test_existing.py, messages in tests/build/test_diagnose.py and tests/catalogue, a real
Jupyter kernel in tests/build/test_notebook.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import MODULE, Tool

pytestmark = pytest.mark.compile

OPERATOR = """
#include <torch/csrc/stable/library.h>
static int64_t f(int64_t x) { return x + STEP; }
STABLE_TORCH_LIBRARY(mode23, m) { m.def("f(int x) -> int"); }
STABLE_TORCH_LIBRARY_IMPL(mode23, CompositeExplicitAutograd, m) { m.impl("f", TORCH_BOX(&f)); }
"""


@pytest.mark.torch_fails(by=AssertionError)
@pytest.mark.slow("builds with torch's headers")
def test_23_edited_operator_is_loaded_again_in_one_process(tool: Tool) -> None:
    """PyTorch's second load ends the process: no exception, no notebook."""
    code = f"""
text = {OPERATOR!r}
for step in (1, 2, 3, 1):
    code = text.replace("STEP", str(step))
    tool.load_inline("mode23", code, is_python_module=False, no_implicit_headers=True)
    print(torch.ops.mode23.f(1), flush=True)
"""
    assert tool.run(code).split() == ["2", "3", "4", "2"]


@pytest.mark.torch_fails(by=AssertionError)
def test_24_undefined_symbol_is_named_as_in_the_source_with_what_to_do(tool: Tool) -> None:
    """PyTorch passes the loader's words on: undefined symbol: _Z9elsewherei."""
    text = "int elsewhere(int); int here() { return elsewhere(1); }"
    with pytest.raises((RuntimeError, OSError)) as caught:
        tool.api.load_inline("mode24", [text], no_implicit_headers=True, is_python_module=False)
    assert "nothing defines elsewhere(int)" in str(caught.value)
    assert "Add the source that defines it" in str(caught.value)


@pytest.mark.torch_fails(by=AssertionError)
def test_27_mistake_is_told_at_the_users_line_without_ninjas_log(tool: Tool, module: Path) -> None:
    """PyTorch's exception is ninja's log, with the whole command of the compiler; the cause is somewhere in it."""
    module.write_text(MODULE.replace("VALUE)", "MISSING)"))
    with pytest.raises(RuntimeError) as caught:
        tool.api.load("mode27", [str(module)])
    message = str(caught.value)
    assert f"{module}:7:" in message
    assert "  7 | static PyObject* value" in message
    assert "ninja" not in message
    assert "-fPIC" not in message


@pytest.mark.torch_fails(by=AssertionError)
def test_27_verbose_is_seen_where_python_prints(tool: Tool, module: Path) -> None:
    """PyTorch's ninja writes to the process's own output: Jupyter, which replaces sys.stdout, shows nothing of it."""
    code = f"""
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.redirect_stderr(shown):
    tool.load("mode27", [{str(module)!r}], verbose=True)
print("-fPIC" in shown.getvalue())
"""
    assert tool.run(code).splitlines()[-1] == "True"
