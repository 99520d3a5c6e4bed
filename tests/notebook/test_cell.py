"""A cell is a module and the files after each `%%file`, and a line of any of them keeps its number in the cell."""

from __future__ import annotations

import pytest

from opsmith.errors import DefinitionError
from opsmith.notebook.cell import DEFINITION, read_cell

_CELL = """import opsmith
x = 1

%%file first.cpp
// a

// b
%%file second.h
// c
"""


def test_a_line_of_each_file_has_the_number_that_it_has_in_the_cell():
    cell = read_cell(_CELL)
    in_cell = ["%%opsmith", *_CELL.splitlines()]
    assert list(cell.files) == [DEFINITION, "first.cpp", "second.h"]
    found = [
        (number, line)
        for text in cell.files.values()
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip()
    ]
    assert found == [(number, in_cell[number - 1]) for number in (2, 3, 6, 8, 10)]


def test_the_files_of_a_package_begin_where_their_content_does():
    assert read_cell(_CELL).unnumbered() == {
        DEFINITION: "import opsmith\nx = 1\n",
        "first.cpp": "// a\n\n// b\n",
        "second.h": "// c\n",
    }


def test_the_module_is_named_by_the_text():
    assert read_cell(_CELL).module == read_cell(_CELL).module
    assert read_cell(_CELL).module != read_cell(_CELL.replace("// b", "// B")).module
    assert read_cell(_CELL).module != read_cell(_CELL.replace("second.h", "third.h")).module
    assert read_cell(_CELL).module.isidentifier()


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        ("%%cpp", r"line 5 of the cell is '%%cpp'; .*`%%file lowpass\.cpp`"),
        ("%%file", "line 5 of the cell is '%%file'"),
        ("%%file two words.cpp", "line 5 of the cell is '%%file two words.cpp'"),
        ("%%file ../first.cpp", r"line 5 of the cell: \.\./first\.cpp is not the name"),
        ("%%file ..", r"line 5 of the cell: \.\. is not the name"),
        ("%%file /first.cpp", "line 5 of the cell: /first.cpp is not the name"),
        ("%%file __init__.py", r"line 5 of the cell: __init__\.py is not the name"),
        ("%%file second.h", "line 9 of the cell: it has `%%file second.h` twice"),
    ],
)
def test_a_line_that_begins_no_file_is_refused_by_its_number(mark, says):
    with pytest.raises(DefinitionError, match=says):
        read_cell(_CELL.replace("%%file first.cpp", mark))
