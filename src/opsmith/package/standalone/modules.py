"""Lists what of opsmith a standalone wheel has a copy of.

A module's import statements outside functions lead to modules of this list. Inside functions some lead to others, which a
standalone wheel never comes to; tests/package/standalone/test_copied_modules.py has those, and why.
"""

from __future__ import annotations

__all__ = ["DATA", "FOLDER", "NAMES", "is_copied", "module_files"]

# The copy's folder, in the package whose operators need it.
FOLDER = "_opsmith"

# What `import opsmith` offers there.
NAMES = frozenset(
    {"Operator", "__version__", "cute", "errors", "kernel", "native", "op", "scriptable", "triton", "view"}
)

_PACKAGES: dict[str, str] = {
    "": "_drawing _env _forks _keywords _lazy _printable _standalone _subprocess _torch_release _version errors",
    "build": "devices prebuilt",
    # Why a library does not load, and what helps.
    "catalogue": "candidates compiler cuda entry gpu headers linker loader lookup machine packages registration symbols "
    "table torch_build triton",
    "runtime": "arguments autocast bind body_results bridge compile_cache crash_note declare define derived differentiate "
    "edits flops gradient_plan gradients kernel_file load load_failure obtained operator options outputs "
    "python_gradient register scalars sharding structs torch_ops torchscript vmap vmap_body vmap_samples",
    "spec": "annotations block_launch casts conditions cpp_names definition dims dtypes gradient gradient_types "
    "interface kinds launch launch_numbers registry samples shapes signature sizes skippable structs",
    "store": "keys manifest reading",
    "toolchain": "facts shims torch_install",
}

# Files beside the modules that read them.
DATA = ("toolchain/data/shims.json",)

_FILES = frozenset(
    f"{package}/{module}.py".lstrip("/")
    for package, modules in _PACKAGES.items()
    for module in ("__init__", *modules.split())
)


def module_files() -> tuple[str, ...]:
    """Return the files of the copied modules, relative to opsmith's folder."""
    return tuple(sorted(_FILES))


def is_copied(module: str) -> bool:
    """Tell whether a module, such as `opsmith.errors`, is in the copy."""
    path = module.replace(".", "/").removeprefix("opsmith").lstrip("/")
    return not _FILES.isdisjoint({f"{path}.py", f"{path}/__init__.py".lstrip("/")})
