"""Which failures does the loader print, when a finished library meets another machine or another torch?"""

from __future__ import annotations

from opsmith.catalogue.entry import Entry

__all__ = ["ENTRIES"]

_UNDEFINED = r"(?:undefined symbol: |[Ss]ymbol not found in flat namespace '?_?|Symbol not found: _?)"
# How the names of PyTorch's C++ namespaces begin after mangling: functions, their const members, type information.
_TORCH = r"_Z(?:T[VIS]|GV)?N?[KV]?(?:3c10|2at|5torch|6caffe2|N3c10|N2at|N5torch)\w*"
_BUILT = (
    "The library was built against torch {built_torch}.",
    "It was built with {built_with}.",
    "The torch that is here is {torch}.",
)
_REBUILD = (
    "Build it again with the torch that is here: `pip install --no-build-isolation --no-cache-dir --force-reinstall "
    "--no-deps PACKAGE` for a package; opsmith's own builds are made anew by themselves.",
    "Or install the torch that it was built for: `pip install torch=={built_torch}`.",
)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "torch-symbol-old-strings",
        "Built with the other C++ string ABI",
        _UNDEFINED + r"(?P<symbol>_Z\w*(?:3c10|2at|5torch)\w*(?:RKSs|PKSs|ESs|RSs)\w*)",
        (
            "The library was compiled with -D_GLIBCXX_USE_CXX11_ABI=0: {symbol} takes the old std::string, and torch "
            "(every build from 2.6 on) has the function with the new one only.",
            *_BUILT,
        ),
        ("Take -D_GLIBCXX_USE_CXX11_ABI=0 out of the flags.", *_REBUILD),
        "ImportError: /x/k.so: undefined symbol: _ZN3c106detail14torchCheckFailEPKcS2_jRKSs",
    ),
    Entry(
        "torch-cuda-symbol",
        "A CUDA part of torch is missing",
        _UNDEFINED + r"(?P<symbol>_ZNK?(?:3c104cuda|2at4cuda|2at6native4cuda|5torch4cuda)\w*)",
        (
            "{symbol} belongs to the CUDA part of torch.",
            "The torch that is here ({cpu_torch}) is a CPU build and has no such part.",
            "The torch that is here ({cuda_torch}) is not the one that the library was built against.",
            "The library was built against torch {built_torch}.",
        ),
        (
            "Install a CUDA build of torch as https://pytorch.org/get-started/locally says, and `import torch` before "
            "the library.",
            *_REBUILD,
        ),
        "ImportError: /x/k.so: undefined symbol: _ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb",
    ),
    Entry(
        "torch-symbol-new-strings",
        "torch changed, or its C++ string ABI",
        _UNDEFINED + rf"(?P<symbol>(?={_TORCH})\w*7__cxx11\w*)",
        (
            "The library needs {symbol}, and the torch in this process does not have it.",
            "Most often torch was upgraded or replaced after the build. A torch before 2.6 from PyPI lacks it because "
            "it has the old C++ string ABI.",
            *_BUILT,
        ),
        (*_REBUILD, "Make sure that `import torch` comes before the import of the library."),
        "undefined symbol: "
        "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    ),
    Entry(
        "torch-symbol",
        "torch changed since the build",
        _UNDEFINED
        + rf"(?P<symbol>{_TORCH}|aoti_torch_\w+|torch_(?:call_dispatcher|library_\w+)|THPVariable\w*|THP\w+)",
        (
            "The library needs {symbol}, and the torch in this process does not have it: it is another torch than the "
            "one that the library was built against, or torch was not imported before.",
            *_BUILT,
        ),
        (*_REBUILD, "Make sure that `import torch` comes before the import of the library."),
        "ImportError: /x/k.so: undefined symbol: _ZN3c1011SymbolicInt4sizeEv",
    ),
    Entry(
        "python-symbol",
        "Built for another Python",
        _UNDEFINED + r"(?P<symbol>_?Py\w+)",
        (
            "{symbol} belongs to Python's C API, and this Python does not have it: the library was built for another "
            "version of Python.",
            "This Python is {python}.",
            "(A program that is not Python, such as one that uses libtorch, has none of it.)",
        ),
        (
            "Build it with this Python, or install the wheel for it: `pip install --force-reinstall --no-deps "
            "--no-cache-dir PACKAGE`.",
            "A TORCH_LIBRARY that must load in any Python should include neither Python.h nor torch/extension.h, but "
            "torch/library.h.",
        ),
        "ImportError: /x/k.so: undefined symbol: _PyUnicode_Ready",
    ),
    Entry(
        "cuda-library-shadowed",
        "Another CUDA's library is in the way",
        r"(?:undefined symbol: |symbol )(?P<symbol>\w+),? version (?P<version>lib[\w.]+)(?: not defined in file)?",
        (
            "{version} was found, but one that is older than the library that asks for {symbol}: LD_LIBRARY_PATH or a "
            "system folder comes before the libraries that torch brings.",
        ),
        (
            "Start with `env -u LD_LIBRARY_PATH python ...`, or take the CUDA toolkit's lib64 out of LD_LIBRARY_PATH: "
            "torch finds its own.",
        ),
        "ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12",
    ),
    Entry(
        "openmp-symbol",
        "Compiled with OpenMP, linked without",
        _UNDEFINED + r"(?P<symbol>GOMP_\w+|omp_\w+|__kmpc_\w+)",
        ("{symbol} belongs to OpenMP: the sources were compiled with -fopenmp, and linked without.",),
        ("Give -fopenmp to the linker too: `extra_ldflags=['-fopenmp']`, or `extra_link_args` of an Extension.",),
        "ImportError: /x/k.so: undefined symbol: GOMP_parallel",
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
    ),
    Entry(
        "cuda-driver-symbol",
        "The CUDA driver was not linked",
        _UNDEFINED
        + r"(?P<symbol>cu(?:Ctx|Device|Mem|Module|Launch|Init|Stream|Event|Func|Get|Tensor|Link|Occupancy)\w*)",
        ("{symbol} belongs to the CUDA driver (libcuda.so.1), which the library was not linked with.",),
        ("Link it: `extra_ldflags=['-lcuda']`; a machine without a driver has a stub in the toolkit's lib64/stubs.",),
        "ImportError: /x/k.so: undefined symbol: cuTensorMapEncodeTiled",
    ),
    Entry(
        "hip-symbol",
        "ROCm's runtime was not linked",
        _UNDEFINED + r"(?P<symbol>(?:__)?hip[A-Z]\w+)",
        ("{symbol} belongs to ROCm's runtime (libamdhip64), which the library was not linked with.",),
        ("Link it: `extra_ldflags=['-L/opt/rocm/lib', '-lamdhip64']`.",),
        "ImportError: /x/k.so: undefined symbol: hipLaunchKernel",
    ),
    Entry(
        "vtable-symbol",
        "A virtual function is declared, and not defined",
        _UNDEFINED + r"(?P<symbol>_ZT[VI]\w+)|undefined (?:reference to|symbol:) [`']?(?P<symbol2>vtable for [^'\n]+)",
        (
            "A class's table of virtual functions is missing. The compiler writes it where the first virtual function "
            "that is not inline is defined, and that function, or its file, is not in the build.",
        ),
        (
            "Define that function, or add its file to the sources; one without a body in the base class is written "
            "`virtual void f() = 0;`.",
        ),
        "/usr/bin/ld: k.cpp:(.text+0x18): undefined reference to `vtable for Shape'",
    ),
    Entry(
        "undefined-symbol",
        "A symbol that nothing defines",
        r"undefined symbol: (?P<symbol>\w+)",
        ("Nothing that is loaded defines {symbol}.", "The library is {library}."),
        (
            "Add the source that defines it to the sources, or the library to `extra_ldflags`; `nm -D --defined-only "
            "LIBRARY` tells whether a library has it.",
        ),
        "ImportError: /x/k.so: undefined symbol: _Z6helperi",
    ),
    Entry(
        "torch-library-missing",
        "torch was not imported before",
        r"(?P<library_file>lib(?:torch|c10|shm|torch_\w+|c10_\w+)\.(?:so|dylib)): cannot open shared object file"
        r"|Library not loaded: @rpath/(?P<dylib>lib(?:torch|c10)\w*\.dylib)",
        (
            "The library needs torch's own libraries, which no folder of the system has: they come into the process "
            "with `import torch`.",
            "Where torch was imported, the torch that is here does not have that library: {torch} (a CPU build has no "
            "libc10_cuda and no libtorch_cuda).",
        ),
        (
            "`import torch` before the library; a C++ program is linked with `-Wl,-rpath,$(python -c 'import torch, "
            "os; print(os.path.dirname(torch.__file__))')/lib`.",
        ),
        "ImportError: libc10.so: cannot open shared object file: No such file or directory",
    ),
    Entry(
        "driver-missing",
        "There is no GPU driver",
        r"(?P<library_file>libcuda\.so\.1|libnvidia-ml\.so\.1): cannot open shared object file",
        ("{library_file} comes with NVIDIA's driver, and this machine or container has none.",),
        (
            "Install the driver, or start the container with the GPU: `docker run --gpus all ...`; `nvidia-smi` tells "
            "whether it is there.",
        ),
        "OSError: libcuda.so.1: cannot open shared object file: No such file or directory",
    ),
    Entry(
        "cuda-library-missing",
        "A CUDA library is missing",
        r"(?P<library_file>lib(?:cudart|cublas|cublasLt|cudnn\w*|cufft|curand|cusolver|cusparse\w*|nccl|nvrtc"
        r"|nvJitLink|"
        r"cupti|nvToolsExt|cufile|nvshmem_host)\.so(?:\.\d+)*): cannot open shared object file",
        (
            "The library was built against {library_file}, which is not here; the number at its end is its major "
            "version.",
            "torch is built for CUDA {torch_cuda}.",
        ),
        (
            "If it is of another major version than torch's, build the library again with the CUDA of this torch. "
            "Otherwise `import torch` first, which loads torch's own CUDA libraries.",
            "`pip install {package}` brings it.",
        ),
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
    ),
    Entry(
        "python-library-missing",
        "libpython is missing",
        r"(?P<library_file>libpython3[\w.]*): cannot open shared object file",
        ("The library was linked with {library_file}; an extension module must not be, and this Python has none.",),
        (
            "Build it again without -lpython. For a program that embeds Python: `apt-get install libpython3-dev`, or "
            "add the folder of `python -c \"import sysconfig; print(sysconfig.get_config_var('LIBDIR'))\"` to "
            "LD_LIBRARY_PATH.",
        ),
        "ImportError: libpython3.10.so.1.0: cannot open shared object file: No such file or directory",
    ),
    Entry(
        "library-missing",
        "A shared library is missing",
        r"(?P<library_file>lib[\w.+-]+\.so[\w.]*): cannot open shared object file",
        ("{library_file} is in no folder that the loader searches.",),
        (
            "Find it with `find / -name '{library_file}' 2>/dev/null`, and add its folder at link time: "
            "`extra_ldflags=['-Wl,-rpath,FOLDER']`. If it is nowhere, install its package (`apt-file search "
            "{library_file}`).",
        ),
        "ImportError: libopencv_core.so.4.5: cannot open shared object file: No such file or directory",
    ),
    Entry(
        "libstdcxx-old",
        "libstdc++ is older than the compiler",
        r"(?<!\S)(?P<found>\S*libstdc\+\+\S*): version `(?P<version>(?:GLIBCXX|CXXABI)_[\d.]+)' not found"
        r"(?: \(required by (?P<needed_by>[^)]+)\))?",
        (
            "The library was built by a newer gcc than the libstdc++ that this process loads: {found} does not have "
            "{version}.",
            "{needed_by} needs it.",
        ),
        (
            "Where {found} is conda's: `conda install -c conda-forge libstdcxx-ng`. Otherwise use the system's with "
            "`export LD_PRELOAD=$(g++ -print-file-name=libstdc++.so.6)`, or build with an older compiler (`export "
            "CXX=g++-11`).",
        ),
        "/opt/conda/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /x/k.so)",
    ),
    Entry(
        "glibc-old",
        "The system is older than the one of the build",
        r"version `(?P<version>GLIBC_[\d.]+)' not found(?: \(required by (?P<needed_by>[^)]+)\))?",
        (
            "The library was built on a newer Linux distribution: it needs {version}, and this system's C library is "
            "older.",
            "{needed_by} needs it.",
        ),
        (
            "Build it on this machine, or in an older container (quay.io/pypa/manylinux_2_28_x86_64) for many "
            "machines; `ldd --version` tells what is here.",
        ),
        "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by /x/k.so)",
    ),
    Entry(
        "no-init-function",
        "The library is no Python module, or of another name",
        r"dynamic module does not define module export function \((?P<symbol>PyInit_\w+)\)",
        (
            "Python looks for {symbol} in the library. Either the sources have no PYBIND11_MODULE (they register "
            "operators with TORCH_LIBRARY), or it has another name.",
        ),
        (
            "Write `PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)`; for TORCH_LIBRARY load it with "
            "`is_python_module=False` or `torch.ops.load_library(PATH)`.",
        ),
        "ImportError: dynamic module does not define module export function (PyInit_k)",
    ),
    Entry(
        "python-version",
        "Built for another Python",
        r"Python version mismatch: (?:this )?module was compiled for Python (?P<built>[\d.]+)"
        r"|module (?:was )?compiled for Python (?P<compiled>[\d.]+)",
        (
            "The module was compiled for Python {built}.",
            "The module was compiled for Python {compiled}.",
            "This is Python {python}.",
        ),
        ("Build it with this Python: `python -m pip install --force-reinstall --no-deps --no-cache-dir PACKAGE`.",),
        "ImportError: Python version mismatch: module was compiled for Python 3.10, but the interpreter version is "
        "incompatible: 3.11.2",
    ),
    Entry(
        "numpy-abi",
        "Built for another NumPy",
        r"numpy\.dtype size changed, may indicate binary incompatibility"
        r"|A module that was compiled using NumPy 1\.x cannot be run in"
        r"|module compiled against (?:ABI|API) version \S+ but this version of numpy is",
        ("The module was compiled against another major version of NumPy than the one that is here.",),
        ("Build the module again, or install the older one: `pip install 'numpy<2'`.",),
        "A module that was compiled using NumPy 1.x cannot be run in NumPy 2.1.0 as it may crash.",
    ),
    Entry(
        "wrong-elf-class",
        "A library for another processor",
        r"wrong ELF class: (?P<kind>ELFCLASS\d+)|incompatible architecture \(have '(?P<have>\w+)', need "
        r"'(?P<need>[\w' or]+)'\)",
        (
            "The library is of {kind}: 32 bits and 64 bits cannot share a process.",
            "The library is for {have}, and this process needs {need}: Python itself may run translated.",
        ),
        (
            "Build it on this machine with this Python; `file LIBRARY` and `python -c 'import platform; "
            "print(platform.machine())'` must agree.",
        ),
        "ImportError: /x/k.so: wrong ELF class: ELFCLASS32",
    ),
    Entry(
        "invalid-elf",
        "The file is no library, or not whole",
        r"invalid ELF header|file too short|ELF load command past end of file|not a mach-o file",
        (
            "The file is truncated (a full disk, an interrupted copy or download), or it is something else, such as "
            "the small text file that Git LFS leaves.",
        ),
        (
            "Look with `file LIBRARY` and `ls -l LIBRARY`; delete it and build or install it again. `git lfs pull` "
            "fetches a file of Git LFS.",
        ),
        "ImportError: /x/k.so: file too short",
    ),
    Entry(
        "noexec",
        "Nothing may be executed on that disk",
        r"failed to map segment from shared object|cannot enable executable stack as shared object requires",
        (
            "The folder lies on a file system that is mounted with noexec (often /tmp or /dev/shm), or the system's "
            "security policy forbids code there.",
        ),
        (
            "Put it elsewhere: `export OPSMITH_CACHE_DIR=~/.cache/opsmith` (torch: TORCH_EXTENSIONS_DIR), or mount "
            "again with `mount -o remount,exec /tmp`. `findmnt -T FOLDER -o OPTIONS` shows it.",
        ),
        "ImportError: /tmp/k.so: failed to map segment from shared object",
    ),
    Entry(
        "static-tls",
        "No room in the static TLS block",
        r"(?:(?<!\S)(?P<library_file>\S+): )?cannot allocate memory in static TLS block",
        ("Libraries that were loaded before (often libgomp) took all of a small table for thread-local variables.",),
        (
            "Import this library before the others, or start with `LD_PRELOAD={library_file} python ...`.",
            "`export GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384` makes the table larger.",
        ),
        "OSError: /x/libgomp.so.1: cannot allocate memory in static TLS block",
    ),
)
