"""Keeps torch.compile's cache from reusing the gradient of an earlier version of an operator.

torch.compile keeps compiled graphs on disk, by the names of the operators in the forward graph. The backward graph comes
from the operator's gradient, of which the name says nothing: after an edit of a body or of a backward's signature the old
graph would be found, and its gradients would be wrong or its operators gone.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from opsmith._forks import Lock
from opsmith._version import __version__
from opsmith.spec.definition import Definition
from opsmith.store import digest, digest_file

__all__ = ["tag_compile_cache"]

_lock = Lock()
_files: dict[Path, str] = {}
_written: list[str] = []  # the last tag, to be taken away before the next


def tag_compile_cache(definition: Definition) -> None:
    """Make the keys of torch.compile's cache depend on the file that declares an operator's module.

    The tag of the user, `torch.compiler.config.cache_key_tag`, stays in front of ours. A body's helpers in other files are
    not seen.
    """
    from torch.compiler import config

    with _lock:
        try:
            _files[definition.file] = digest_file(definition.file)
        except OSError:  # declared in a notebook or on a prompt
            code = inspect.unwrap(definition.body).__code__
            _files[definition.file] = digest(repr(code.co_code), repr(code.co_consts), repr(code.co_names))
        tag = f"opsmith-{digest(__version__, *(f'{file} {_files[file]}' for file in sorted(_files)))}"
        # Not only at the end: behind it may be the tag of a standalone wheel's own copy of opsmith.
        of_the_user = config.cache_key_tag.replace(_written.pop(), "") if _written else config.cache_key_tag
        config.cache_key_tag = f"{of_the_user}{tag}"
        _written.append(tag)
