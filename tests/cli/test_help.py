"""Help texts come at once: no command imports torch for its own."""

from __future__ import annotations

import subprocess
import sys

from opsmith.build.builders import BUILDERS
from opsmith.cli.build import _BUILDERS


def test_build_offers_every_builder():
    assert tuple(BUILDERS) == _BUILDERS


def test_the_help_of_build_imports_no_torch_and_no_build():
    code = "import opsmith.cli.build, sys; sys.exit(bool({'torch', 'opsmith.build.builders'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
