"""Lists undefined symbols that the loader reports, by the library that they belong to."""

from __future__ import annotations

from opsmith.catalogue.entry import Entry

__all__ = ["ENTRIES"]

_UNDEFINED = r"(?:undefined symbol: |[Ss]ymbol not found in flat namespace '?_?|Symbol not found: _?)"
_UNDEFINED_WORDS = ("undefined symbol: ", "ymbol not found")
# How the names of PyTorch's C++ namespaces begin after mangling: functions, their const members, type information.
_TORCH = r"_Z(?:T[VIS]|GV)?N?[KV]?(?:3c10|2at|5torch|6caffe2|N3c10|N2at|N5torch)\w*"
_BUILT = (
    "The library was built against torch {built_torch}.",
    "It was built with {built_with}.",
    "The installed torch is {torch}.",
)
_REBUILD = (
    "Rebuild it with the installed torch: `pip install --no-build-isolation --no-cache-dir --force-reinstall "
    "--no-deps PACKAGE` for a package; opsmith's own builds are rebuilt automatically.",
    "Or install the torch it was built for: `pip install torch=={built_torch}`.",
)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "torch-too-old",
        "torch is older than the library allows",
        _UNDEFINED + r"(?P<symbol>(?:aoti_)?torch_\w+)",
        (
            "The library needs torch {needed_torch} or newer, which has {symbol}.",
            "The installed torch is {torch}.",
        ),
        (
            "`pip install --upgrade 'torch>={needed_torch}'`, or install a release of the package for this torch: `opsmith "
            "audit FILE.whl` says what a wheel needs.",
        ),
        "OSError: /x/k.so: undefined symbol: torch_get_const_data_ptr",
        words=_UNDEFINED_WORDS,
        needs="needed_torch",
    ),
    Entry(
        "torch-without-cuda",
        "The library is for GPUs, torch is not",
        _UNDEFINED + r"(?P<symbol>(?:aoti_)?torch_\w*(?:cuda|hip)\w*)",
        ("The library has GPU code and needs {symbol}; the installed torch ({cpu_torch}) is a CPU build.",),
        ("`pip install --force-reinstall torch` installs a CUDA build on Linux; or install the package's CPU wheel.",),
        "OSError: /x/k.so: undefined symbol: aoti_torch_get_current_cuda_stream",
        words=_UNDEFINED_WORDS,
        needs="cpu_torch",
    ),
    Entry(
        "torch-symbol-old-strings",
        "Built with the other C++ string ABI",
        _UNDEFINED + r"(?P<symbol>_Z\w*(?:3c10|2at|5torch)\w*(?:RKSs|PKSs|ESs|RSs)\w*)",
        (
            "The library was compiled with -D_GLIBCXX_USE_CXX11_ABI=0: {symbol} takes the old std::string, but torch "
            "(every build since 2.6) has the function only with the new one.",
            *_BUILT,
        ),
        ("Remove -D_GLIBCXX_USE_CXX11_ABI=0 from the flags.", *_REBUILD),
        "ImportError: /x/k.so: undefined symbol: _ZN3c106detail14torchCheckFailEPKcS2_jRKSs",
        words=_UNDEFINED_WORDS,
    ),
    Entry(
        "torch-cuda-symbol",
        "A CUDA part of torch is missing",
        _UNDEFINED + r"(?P<symbol>_ZNK?(?:3c104cuda|2at4cuda|2at6native4cuda|5torch4cuda)\w*)",
        (
            "{symbol} belongs to the CUDA part of torch.",
            "The installed torch ({cpu_torch}) is a CPU build without that part.",
            "The installed torch ({cuda_torch}) is not the one that the library was built against.",
            "The library was built against torch {built_torch}.",
        ),
        (
            "Install a CUDA build of torch as https://pytorch.org/get-started/locally says, and `import torch` before "
            "the library.",
            *_REBUILD,
        ),
        "ImportError: /x/k.so: undefined symbol: _ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb",
        words=_UNDEFINED_WORDS,
    ),
    Entry(
        "torch-symbol-new-strings",
        "torch changed, or its C++ string ABI",
        _UNDEFINED + rf"(?P<symbol>(?={_TORCH})\w*7__cxx11\w*)",
        (
            "The library needs {symbol}, which the torch in this process does not have.",
            "Most often torch was upgraded or replaced after the build. A torch before 2.6 from PyPI lacks it because "
            "it has the old C++ string ABI.",
            *_BUILT,
        ),
        (*_REBUILD, "Make sure to `import torch` before the library."),
        "undefined symbol: "
        "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        words=_UNDEFINED_WORDS,
    ),
    Entry(
        "torch-symbol",
        "torch has changed since the build",
        _UNDEFINED
        + rf"(?P<symbol>{_TORCH}|aoti_torch_\w+|torch_(?:call_dispatcher|library_\w+)|THPVariable\w*|THP\w+)",
        (
            "The library needs {symbol}, which the torch in this process does not have: it is not the torch that the "
            "library was built against, or torch was not imported first.",
            *_BUILT,
        ),
        (*_REBUILD, "Make sure to `import torch` before the library."),
        "ImportError: /x/k.so: undefined symbol: _ZN3c1011SymbolicInt4sizeEv",
        words=_UNDEFINED_WORDS,
    ),
    Entry(
        "python-symbol",
        "Built for another Python",
        _UNDEFINED + r"(?P<symbol>_?Py\w+)",
        (
            "{symbol} belongs to Python's C API, but this Python does not have it: the library was built for another "
            "version.",
            "This Python is {python}.",
            "(A program other than Python, such as one that uses libtorch, does not have it at all.)",
        ),
        (
            "Build it with this Python, or install the wheel for it: `pip install --force-reinstall --no-deps "
            "--no-cache-dir PACKAGE`.",
            "A TORCH_LIBRARY for any Python should include torch/library.h, not Python.h or torch/extension.h.",
        ),
        "ImportError: /x/k.so: undefined symbol: _PyUnicode_Ready",
        words=_UNDEFINED_WORDS,
    ),
    Entry(
        "cuda-library-shadowed",
        "A library of another CUDA is loaded first",
        r"(?:undefined symbol: |symbol )(?P<symbol>\w+),? version (?P<version>lib[\w.]+)(?: not defined in file)?",
        (
            "The {version} that was found is older than the library that needs {symbol}: LD_LIBRARY_PATH or a system "
            "folder comes before torch's own libraries.",
        ),
        (
            "Start with `env -u LD_LIBRARY_PATH python ...`, or remove the CUDA toolkit's lib64 from LD_LIBRARY_PATH; "
            "torch finds its own.",
        ),
        "ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12",
        words=(" version lib",),
    ),
    Entry(
        "openmp-symbol",
        "Compiled with OpenMP, linked without",
        _UNDEFINED + r"(?P<symbol>GOMP_\w+|omp_\w+|__kmpc_\w+)",
        ("{symbol} belongs to OpenMP: the sources were compiled with -fopenmp but linked without it.",),
        ("Pass -fopenmp to the linker too: `extra_ldflags=['-fopenmp']`, or `extra_link_args` of an Extension.",),
        "ImportError: /x/k.so: undefined symbol: GOMP_parallel",
        words=_UNDEFINED_WORDS,
    ),
    Entry(
        "cuda-runtime-symbol",
        "A CUDA library was not linked",
        _UNDEFINED + r"(?P<symbol>(?:__)?(?:cuda|cublas|cudnn|cusparse|cufft|curand|cusolver|nccl|nvrtc)[A-Z]\w+)",
        (
            "{symbol} belongs to CUDA's runtime or one of its libraries. The library was linked without it, or for "
            "another major version of CUDA.",
            "torch is built for CUDA {torch_cuda}.",
        ),
        (
            "Add the library: `extra_ldflags=['-lcudart']` (or -lcublas, -lcusparse ...), or build C++ files that "
            "call CUDA with `with_cuda=True` or as a CUDAExtension.",
        ),
        "ImportError: /x/k.so: undefined symbol: cudaLaunchKernel",
        words=_UNDEFINED_WORDS,
    ),
    Entry(
        "cuda-driver-symbol",
        "The CUDA driver was not linked",
        _UNDEFINED
        + r"(?P<symbol>cu(?:Ctx|Device|Mem|Module|Launch|Init|Stream|Event|Func|Get|Tensor|Link|Occupancy)\w*)",
        ("{symbol} belongs to the CUDA driver (libcuda.so.1), which the library was not linked with.",),
        ("Link it: `extra_ldflags=['-lcuda']`; a machine without a driver has a stub in the toolkit's lib64/stubs.",),
        "ImportError: /x/k.so: undefined symbol: cuTensorMapEncodeTiled",
        words=_UNDEFINED_WORDS,
    ),
    Entry(
        "hip-symbol",
        "ROCm's runtime was not linked",
        _UNDEFINED + r"(?P<symbol>(?:__)?hip[A-Z]\w+)",
        ("{symbol} belongs to ROCm's runtime (libamdhip64), which the library was not linked with.",),
        ("Link it: `extra_ldflags=['-L/opt/rocm/lib', '-lamdhip64']`.",),
        "ImportError: /x/k.so: undefined symbol: hipLaunchKernel",
        words=_UNDEFINED_WORDS,
    ),
    Entry(
        "vtable-symbol",
        "A virtual function is declared but not defined",
        _UNDEFINED + r"(?P<symbol>_ZT[VI]\w+)|undefined (?:reference to|symbol:) [`']?(?P<symbol2>vtable for [^'\n]+)",
        (
            "A class's vtable is missing. The compiler emits it where the first non-inline virtual function is "
            "defined, and that function, or its file, is not in the build.",
        ),
        (
            "Define that function, or add its file to the sources; a pure virtual function is declared `virtual void "
            "f() = 0;`.",
        ),
        "/usr/bin/ld: k.cpp:(.text+0x18): undefined reference to `vtable for Shape'",
        words=(*_UNDEFINED_WORDS, "vtable for "),
    ),
    Entry(
        "undefined-symbol",
        "An undefined symbol",
        r"undefined symbol: (?P<symbol>\w+)",
        ("No loaded library defines {symbol}.", "The library is {library}."),
        (
            "Add the source that defines it to the sources, or the library to `extra_ldflags`; `nm -D --defined-only "
            "LIBRARY` tells whether a library has it.",
        ),
        "ImportError: /x/k.so: undefined symbol: _Z6helperi",
        words=("undefined symbol: ",),
    ),
)
