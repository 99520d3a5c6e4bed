"""Loads PyTorch's own torch.utils.cpp_extension, for the names that opsmith does not provide.

It is loaded under another name, because the drop-in may stand in its place in sys.modules.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["original_name", "torch_module"]

_NAME = "torch.utils.cpp_extension"
# Below torch.utils, for the relative imports in it.
_ALIAS = "torch.utils._cpp_extension_of_torch"
_DROP_IN = "opsmith.cpp_extension"


def original_name(name: str) -> Any:
    """Return what PyTorch's module calls `name`. Raises AttributeError if it has nothing of that name."""
    module = torch_module()
    try:
        return getattr(module, name)
    except AttributeError:
        raise AttributeError(f"neither {_DROP_IN} nor {_NAME} has an attribute {name!r}") from None


def torch_module() -> ModuleType:
    """Return PyTorch's own module, which is loaded once; it imports setuptools."""
    for name in (_NAME, _ALIAS):
        module = sys.modules.get(name)
        if module is not None and module.__name__ in (_NAME, _ALIAS):
            return module
    import torch.utils

    path = Path(torch.utils.__file__).parent / "cpp_extension.py"
    package = path.with_suffix("")
    if not path.is_file():
        path = package / "__init__.py"  # newer releases
    locations = [str(package)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(_ALIAS, path, submodule_search_locations=locations)
    if spec is None or spec.loader is None or not path.is_file():
        raise AttributeError(f"{_DROP_IN} does not have this name, and {path}, which may, is missing")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_ALIAS] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[_ALIAS]
        raise
    return module
