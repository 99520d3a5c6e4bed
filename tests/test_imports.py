"""No module of opsmith imports itself by way of others; imports for type checking and those inside functions count."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import pytest

grimp = pytest.importorskip("grimp", reason="grimp, which reads the imports, is not installed on this machine")


def test_modules_form_no_import_circle():
    graph = grimp.build_graph("opsmith", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    circles = []
    for _ in range(100):
        try:
            TopologicalSorter(imports).prepare()
            break
        except CycleError as error:
            circle = error.args[1]
            imports[circle[1]] -= {circle[0]}
            circles.append(" <- ".join(circle))
    assert not circles


def test_a_circle_would_be_found():
    graph = grimp.build_graph("opsmith", cache_dir=None)
    assert graph.direct_import_exists(importer="opsmith.spec.samples", imported="opsmith.spec.definition")
    assert graph.direct_import_exists(
        importer="opsmith.runtime.operator", imported="opsmith.runtime.load"
    )  # in a function
    assert graph.direct_import_exists(importer="opsmith.build.record", imported="opsmith.toolchain")  # type checking
