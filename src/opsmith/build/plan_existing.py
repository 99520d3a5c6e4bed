"""Plans the commands that build existing sources, to the same effect as torch.utils.cpp_extension's.

A pure function of the sources, the toolchain and the target, as `plan.py` is for declared operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from opsmith.build.plan import Plan, Step, Target
from opsmith.build.sycl import SyclCompiler, sycl_command, sycl_link_command
from opsmith.spec.extension import ExistingSources, Source

if TYPE_CHECKING:
    from opsmith.toolchain import PythonHeaders, Toolchain

__all__ = ["names_cuda_archs", "plan_existing"]

_STANDARD = "-std=c++20"
_HOST_FLAGS = ("-O3", _STANDARD, "-fPIC", "-DNDEBUG")
# No NaN is assumed away; these only say that no code reads errno or the floating-point exception flags.
_HOST_MATH = ("-fno-math-errno", "-fno-trapping-math")

# Standards that torch's headers refuse. Many a setup.py still asks for one, and would have to be edited.
_TOO_OLD = re.compile(r"-{1,2}std=(?:c|gnu)\+\+(?:98|03|0x|11|1y|14)")
_ANY_STANDARD = re.compile(r"-{1,2}std(?:=|$)")

# What names the GPUs of an nvcc command. A flag that only has "arch" somewhere in it (-I/home/me/research) does not.
_ARCH_FLAG = re.compile(r"(?:-gencode|--generate-code|-arch|--gpu-architecture|-code|--gpu-code)(?:=.*)?|-arch\w*=.*")
_HOST_CHOICE = re.compile(r"(?:-ccbin|--compiler-bindir)(?:=.*)?")

_HIP_FLAGS = ("-D__HIP_PLATFORM_AMD__=1", "-DUSE_ROCM=1", "-DHIPBLAS_V2")
_HIPCC_FLAGS = (
    "-DCUDA_HAS_FP16=1",
    "-D__HIP_NO_HALF_OPERATORS__=1",
    "-D__HIP_NO_HALF_CONVERSIONS__=1",
    "-DHIP_ENABLE_WARP_SYNC_BUILTINS=1",
    "-fno-gpu-rdc",
)

_RELEASE = Path(__file__).resolve().parent / "release.cpp"

_STATIC_CUDART = "libcudart_static.a"


def names_cuda_archs(flags: Iterable[str]) -> bool:
    """Tell whether flags for nvcc choose the architectures themselves."""
    return any(_ARCH_FLAG.fullmatch(flag) for flag in flags)


def plan_existing(
    extension: ExistingSources,
    toolchain: Toolchain,
    target: Target,
    *,
    python: PythonHeaders,
    sycl: SyclCompiler | None = None,
    nvcc: Sequence[str] = (),
) -> Plan:
    """Return the plan; `nvcc` is the command that stands for nvcc where the user names one, such as `ccache nvcc`."""
    tools = _Tools(extension, toolchain, target, python, sycl, tuple(nvcc))
    steps = [tools.compile(source) for source in extension.sources]
    texts = {source.name: source.text for source in extension.sources if source.text is not None}
    if extension.reloadable:
        texts[_RELEASE.name] = _RELEASE.read_text(encoding="utf-8")
        steps.append(tools.compile_release())
    objects = [step.output for step in steps]
    if extension.dlink_flags is not None:
        steps.append(tools.link_device_code(objects))
    if any(source.language == "sycl" for source in extension.sources):
        steps.append(tools.link_sycl(objects))
    steps.append(tools.link([*objects, *(step.output for step in steps[len(objects) :])]))
    roots = {"project": extension.root, "torch": toolchain.torch.root}
    if extension.texts_dir is not None:
        roots["texts"] = extension.texts_dir
    return Plan(extension, texts, tuple(steps), extension.library, roots, _python_abi(tools))


def _python_abi(tools: _Tools) -> str | None:
    if tools.extension.kind == "program":
        return None
    return f"abi3-{tools.extension.limited_api}" if tools.extension.limited_api else tools.python.abi


class _Tools:
    """The commands of one extension: what they share is looked up once."""

    def __init__(
        self,
        extension: ExistingSources,
        toolchain: Toolchain,
        target: Target,
        python: PythonHeaders,
        sycl: SyclCompiler | None,
        nvcc: tuple[str, ...],
    ) -> None:
        self.extension, self.toolchain, self.target = extension, toolchain, target
        self.python, self.sycl, self.nvcc = python, sycl, nvcc
        self.prefix = f"-ffile-prefix-map={extension.root}=."

    def compile(self, source: Source) -> Step:
        """Return the step that compiles one source."""
        name = source.name if source.text is not None else str(source.path)
        output, depfile = f"{source.name}.o", f"{source.name}.d"
        by_language = {"cxx": self._host, "gpu": self._gpu, "sycl": self._sycl}
        argv = [*by_language[source.language](source), *self._kept_name(source), "-MD", "-MF", depfile]
        # icpx takes .sycl for an object file if it is not told.
        argv += ["-c", *(["-x", "c++"] if source.language == "sycl" else []), name, "-o", output]
        shown = ", ".join(file.name for file in source.users) or source.name
        return Step(shown, tuple(argv), (name,), output, depfile, source.users)

    def compile_release(self) -> Step:
        """Return the step that compiles what gives registrations back; it includes nothing and takes no time."""
        output = f"{_RELEASE.name}.o"
        argv = (*self.toolchain.host.command, "-O1", "-fPIC", "-c", _RELEASE.name, "-o", output)
        return Step(_RELEASE.name, argv, (_RELEASE.name,), output)

    def link_device_code(self, objects: Sequence[str]) -> Step:
        """Return the step in which nvcc links the device code of all objects."""
        assert self.extension.dlink_flags is not None
        flags = (*self.extension.nvcc_flags, "-Xcompiler=-fPIC", *self._ccbin(()))
        argv = (*self._nvcc_words(), *flags, *self._gencode(self.extension.dlink_flags), *self.extension.dlink_flags)
        return Step("link device code", (*argv, *objects, "-o", "dlink.o"), tuple(objects), "dlink.o")

    def link_sycl(self, objects: Sequence[str]) -> Step:
        """Return the step in which icpx links the device code of all objects."""
        assert self.sycl is not None, "prepare_existing finds icpx where there are SYCL sources"
        argv = (*sycl_link_command(self.sycl, self.extension.sycl_flags), *objects, "-o", "sycl_dlink.o")
        return Step("link device code", argv, tuple(objects), "sycl_dlink.o")

    def link(self, objects: Sequence[str]) -> Step:
        """Return the step that makes the library or program."""
        extension, torch = self.extension, self.toolchain.torch
        shared = () if extension.kind == "program" else ("-shared", "-fPIC")
        names = extension.libraries if extension.libraries is not None else self._torch_libraries()
        wrap = ["-Wl,--wrap=__cxa_atexit"] if extension.reloadable else []
        words = [f"-L{folder}" for folder in dict.fromkeys((*extension.library_dirs, torch.lib_dir))]
        words += [word for name in names for word in self._library(name)]
        if self.toolchain.rocm is not None:
            words.append(f"-L{self.toolchain.rocm.root / 'lib'}")
        if self.sycl is not None:
            words += [f"-L{folder}" for folder in self.sycl.library_dirs]
        if extension.kind == "program":
            words.append(f"-Wl,-rpath,{torch.lib_dir}")
        argv = [*self.toolchain.host.command, *shared, *objects, *wrap, *words, *extension.link_flags, "-ldl"]
        return Step("link", (*argv, "-o", extension.library), tuple(objects), extension.library)

    def _kept_name(self, source: Source) -> tuple[str, ...]:
        """Return the flag by which a text is known in the library under the name of the file that is kept of it."""
        if source.text is None or self.extension.texts_dir is None or source.language == "sycl":
            return ()
        flag = f"-ffile-prefix-map={source.name}={self.extension.texts_dir / source.name}"
        is_nvcc = source.language == "gpu" and self.toolchain.rocm is None
        return (f"-Xcompiler={flag}" if is_nvcc else flag,)

    def _host(self, source: Source) -> list[str]:
        head = [*self.toolchain.host.command, *_HOST_FLAGS, *_HOST_MATH, self.prefix]
        hip = _HIP_FLAGS if self.toolchain.rocm is not None else ()
        return [*head, *hip, *self._common(), *_modern(self.extension.cxx_flags), *source.flags]

    def _gpu(self, source: Source) -> list[str]:
        own = [*_modern(self.extension.gpu_flags), *source.flags]
        if self.toolchain.rocm is not None:
            archs = [] if any("offload-arch" in flag for flag in own) else self._offload_archs()
            head = [str(self.toolchain.rocm.hipcc), "-x", "hip", *_HOST_FLAGS, self.prefix]
            return [*head, *_HIP_FLAGS, *_HIPCC_FLAGS, *self._common(), *archs, *own]
        standard = [] if any(_ANY_STANDARD.match(flag) for flag in own) else [_STANDARD]
        host = f"-Xcompiler={','.join(('-fPIC', *_HOST_MATH))}"
        head = [*self._nvcc_words(), *standard, "-O3", "-DNDEBUG", *self.extension.nvcc_flags, host]
        return [*head, *self._ccbin(own), *self._gencode(own), *self._common(), *own]

    def _sycl(self, source: Source) -> list[str]:
        assert self.sycl is not None, "prepare_existing finds icpx where there are SYCL sources"
        host = ["-O3", _STANDARD, "-fPIC", *self._common(), *_modern(self.extension.cxx_flags)]
        own = (*self.extension.sycl_flags, *source.flags)
        return list(sycl_command(self.sycl, str(self.toolchain.host.path), host, own))

    def _common(self) -> list[str]:
        extension = self.extension
        words = []
        if extension.kind != "program":
            words += [f"-DTORCH_EXTENSION_NAME={extension.name}", "-DTORCH_API_INCLUDE_EXTENSION_H"]
        if extension.limited_api is not None:
            words.append(f"-DPy_LIMITED_API={extension.limited_api}")
        system = dict.fromkeys(self._system_includes())
        # Where the user names one of these too, by whatever path, it stays a system folder: its warnings are not the user's.
        known = {folder.resolve() for folder in system}
        words += [f"-I{folder}" for folder in extension.include_dirs if folder.resolve() not in known]
        return [*words, *(word for folder in system for word in ("-isystem", str(folder)))]

    def _system_includes(self) -> Iterable[Path]:
        tools = self.toolchain
        yield from tools.torch.include_dirs
        yield from self.python.include_dirs
        if tools.cuda is not None:
            # As -isystem, /usr/include would hide the compiler's own headers from #include_next.
            yield from (folder for folder in tools.cuda.include_dirs if folder != Path("/usr/include"))
        if tools.rocm is not None:
            yield from (tools.torch.root / "include" / "THH", tools.rocm.include)
        if self.sycl is not None:
            yield from self.sycl.include_dirs

    def _nvcc_words(self) -> tuple[str, ...]:
        assert self.toolchain.cuda is not None, "prepare_existing finds nvcc where there are CUDA sources"
        return self.nvcc or (str(self.toolchain.cuda.nvcc),)

    def _ccbin(self, flags: Iterable[str]) -> tuple[str, ...]:
        assert self.toolchain.cuda is not None
        if any(_HOST_CHOICE.fullmatch(flag) for flag in flags):
            return ()
        return ("-ccbin", str(self.toolchain.cuda.host.path))

    def _gencode(self, flags: Iterable[str]) -> list[str]:
        if names_cuda_archs(flags):
            return []
        return [flag for arch in self.target.cuda_archs for flag in arch.gencode]

    def _offload_archs(self) -> list[str]:
        return [flag for arch in self.target.rocm_archs for flag in arch.flags]

    def _torch_libraries(self) -> list[str]:
        extension, toolchain = self.extension, self.toolchain
        names = ["c10", "torch_cpu"]
        if toolchain.cuda is not None:
            names += ["c10_cuda", "torch_cuda", "cudart"]
        if toolchain.rocm is not None:
            names += ["c10_hip", "torch_hip", "amdhip64"]
        if self.sycl is not None:
            names += ["c10_xpu", "torch_xpu", "sycl"]
        names.append("torch")
        if extension.kind != "program" and extension.limited_api is None:
            names.append("torch_python")
        return names

    def _library(self, name: str) -> tuple[str, ...]:
        cuda, torch = self.toolchain.cuda, self.toolchain.torch
        if name in ("c10_cuda", "torch_cuda") and cuda is not None and torch.cuda is None:
            return ()  # built here for another machine, whose torch has them
        if name != "cudart" or cuda is None:
            return (f"-l{name}",)
        cudart = cuda.required_cudart
        # The static CUDA runtime is this library's alone: other libraries in the process should not find its symbols here.
        hidden = (f"-Wl,--exclude-libs,{_STATIC_CUDART}",) if cudart.name == _STATIC_CUDART else ()
        return (*hidden, str(cudart), "-lrt", "-lpthread")


def _modern(flags: Iterable[str]) -> list[str]:
    return [flag for flag in flags if not _TOO_OLD.fullmatch(flag)]
