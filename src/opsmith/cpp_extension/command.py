"""Defines the drop-in's build_ext: what uses torch is built by opsmith's plan, all else as setuptools does."""

from __future__ import annotations

import copy
import shutil
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setuptools.errors import CompileError as SetuptoolsCompileError

from opsmith.build.artifact import obtain_artifact
from opsmith.build.existing import check_name, prepare_existing
from opsmith.build.isolation import describe_other_torch
from opsmith.build.jobs import torch_jobs
from opsmith.build.plan import Plan
from opsmith.build.setuptools import BuildOperators, OperatorExtension
from opsmith.build.target import Prepared
from opsmith.cpp_extension.compilers import get_compiler_abi_compatibility_and_version, is_ninja_available
from opsmith.cpp_extension.homes import assigned_homes, store_root
from opsmith.cpp_extension.names import current
from opsmith.cpp_extension.translate import is_ours, needs_gpu, translate
from opsmith.errors import OpsmithError, StoreError
from opsmith.store import Store
from opsmith.toolchain import find_torch

if TYPE_CHECKING:
    from torch.torch_version import TorchVersion

__all__ = ["BuildExtension"]

_COMPILERS = ("cxx", "nvcc", "sycl")


class BuildExtension(BuildOperators):
    """setuptools' build_ext for extensions over torch.

    Several extensions are built at once, each in a folder of its own, and come from opsmith's store where they were
    built before; with --force everything is compiled. Subclasses may override what they may override in PyTorch's class.
    `use_ninja` is kept and decides nothing: plans run in ninja where there is one.
    """

    no_python_abi_suffix = False
    use_ninja = True

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """Return the command with options: `use_ninja`, and `no_python_abi_suffix`, which names a file `lltm.so`."""
        return type(cls.__name__, (cls,), {**options, "__module__": cls.__module__})

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.use_ninja = bool(kwargs.get("use_ninja", type(self).use_ninja)) and is_ninja_available()
        self.no_python_abi_suffix = bool(kwargs.get("no_python_abi_suffix", type(self).no_python_abi_suffix))

    def build_extensions(self) -> None:
        """Build all extensions, several at once where nothing speaks against it."""
        for ext in self.extensions:
            if isinstance(ext.extra_compile_args, dict):
                # A subclass may add to a list that setup.py did not give.
                for compiler in _COMPILERS:
                    ext.extra_compile_args.setdefault(compiler, [])
        compiler_name, compiler_version = self._check_abi()
        own = [ext for ext in self.extensions if not isinstance(ext, OperatorExtension)]
        if any(map(needs_gpu, own)) and not current("IS_HIP_EXTENSION"):
            try:
                with assigned_homes():
                    current("_check_cuda_version")(compiler_name, compiler_version)
            except OpsmithError as error:
                raise SetuptoolsCompileError(str(error)) from error
        warning = describe_other_torch(find_torch()) if any(map(is_ours, own)) else None
        _say_loudly(warning)
        try:
            if self.parallel or len(own) < 2 or not self._may_build_at_once():
                super().build_extensions()
            else:
                self._build_at_once()
        finally:
            _say_loudly(warning)  # the first is far above where many files are compiled

    def build_extension(self, ext: Any) -> None:
        """Build one extension; what fails ends setuptools with opsmith's message and no traceback."""
        if isinstance(ext, OperatorExtension) or not is_ours(ext):
            super().build_extension(ext)
            return
        try:
            self._build_existing(ext)
        except OpsmithError as error:
            raise SetuptoolsCompileError(str(error)) from error

    def get_ext_filename(self, fullname: str) -> str:
        """Return the path of an extension's file below the folder of the packages."""
        name = str(super().get_ext_filename(fullname))  # type: ignore[no-untyped-call]
        parts = name.split(".")
        return ".".join([*parts[:-2], parts[-1]]) if self.no_python_abi_suffix and len(parts) > 2 else name

    def _build_existing(self, ext: Any) -> None:
        check_name(ext.name)
        target = Path(self.get_ext_fullpath(ext.name))
        sources = self._plain_sources(ext)
        gpu = True if needs_gpu(ext) else None
        with assigned_homes():
            extension = translate(ext, sources, target.name, self)
            prepared = prepare_existing(extension, with_gpu=gpu, check_cuda=False)
        library = self._obtain(prepared, ext.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        # Not over the old file: a process that has it loaded would see it change.
        target.unlink(missing_ok=True)
        shutil.copyfile(library, target)
        target.chmod(0o755)

    def _obtain(self, prepared: Prepared, name: str) -> Path:
        """Return the library, from the store where it is there; a store that cannot be written to is left alone."""
        if self.force:
            return self._run(prepared, name)[1]
        built = False

        lines = self._step_lines(name)

        def tell(plan: Plan) -> None:
            nonlocal built
            built = True
            print(f"opsmith: building {name} with {prepared.toolchain.torch.identity}", flush=True)
            if lines.on_start is not None:
                lines.on_start(plan)

        arguments = (prepared.plan, prepared.toolchain, prepared.target)
        watcher = replace(lines, on_start=tell, on_found=None)
        more: dict[str, Any] = {"jobs": self._most_jobs(), "watcher": watcher, "is_lasting": False}
        try:
            library = obtain_artifact(*arguments, Store(store_root()), **more).library
        except StoreError as error:
            own = Store(Path(self.build_temp).absolute() / "opsmith")
            print(f"opsmith: {error}; building in {own.root}", flush=True)
            library = obtain_artifact(*arguments, own, **more).library
        if not built:
            print(f"opsmith: {name} comes from the store", flush=True)
        return library

    def _most_jobs(self) -> int | None:
        return getattr(self, "_jobs", None) or super()._most_jobs()

    def _plain_sources(self, ext: Any) -> list[str]:
        """Return an extension's sources with SWIG's and Cython's translated."""
        if any(Path(source).suffix in {".pyx", ".py"} for source in ext.sources):
            from Cython.Build import cythonize  # type: ignore[import-not-found,unused-ignore]

            return list(cythonize([ext], force=bool(self.force))[0].sources)
        return list(self.swig_sources(list(ext.sources), ext))  # type: ignore[no-untyped-call]

    def _may_build_at_once(self) -> bool:
        """Tell whether extensions may be built in threads: their order does not matter, and none links another's library."""
        is_own = type(self).build_extension is BuildExtension.build_extension
        return is_own and not self.shlibs and all(is_ours(ext) for ext in self.extensions)

    def _build_at_once(self) -> None:
        self.check_extensions_list(self.extensions)
        workers = min(len(self.extensions), torch_jobs())
        self._jobs = max(1, torch_jobs() // workers)
        with ThreadPoolExecutor(workers) as pool:
            futures = [pool.submit(self.build_extension, ext) for ext in self.extensions]
            for ext, future in zip(self.extensions, futures, strict=True):
                with self._filter_build_errors(ext):  # type: ignore[attr-defined]
                    future.result()

    def _check_abi(self) -> tuple[str, TorchVersion]:
        """Return the C++ compiler's command and version."""
        compiler = current("get_cxx_compiler")()
        _, version = get_compiler_abi_compatibility_and_version(compiler)
        return compiler, version

    def _add_compile_flag(self, extension: Any, flag: str) -> None:
        arguments = copy.deepcopy(extension.extra_compile_args)
        for flags in arguments.values() if isinstance(arguments, dict) else [arguments]:
            flags.append(flag)
        extension.extra_compile_args = arguments


def _say_loudly(warning: str | None) -> None:
    if warning is not None:
        lines = textwrap.wrap(f"opsmith: WARNING: {warning}", 100, break_long_words=False, break_on_hyphens=False)
        print("\n".join(["!" * 100, *lines, "!" * 100]), file=sys.stderr, flush=True)
