"""Lists failures of the loader, other than undefined symbols, on another machine than the build's."""

from __future__ import annotations

from opsmith.catalogue.entry import Entry

__all__ = ["ENTRIES"]

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "torch-library-missing",
        "torch was not imported first",
        r"(?P<library_file>lib(?:torch|c10|shm|torch_\w+|c10_\w+)\.(?:so|dylib)): "
        r"cannot open shared object file(?!: (?!No such))"
        r"|Library not loaded: @rpath/(?P<dylib>lib(?:torch|c10)\w*\.dylib)",
        (
            "The library needs torch's own libraries, which are not in a system folder: `import torch` loads them.",
            "If torch was imported, the installed one does not have that library: {torch} (a CPU build has neither "
            "libc10_cuda nor libtorch_cuda).",
        ),
        (
            "`import torch` before the library; link a C++ program with `-Wl,-rpath,$(python -c 'import torch, "
            "os; print(os.path.dirname(torch.__file__))')/lib`.",
        ),
        "ImportError: libc10.so: cannot open shared object file: No such file or directory",
        words=(
            "cannot open shared object file",
            "Library not loaded: @rpath/",
        ),
    ),
    Entry(
        "driver-missing",
        "No GPU driver",
        r"(?P<library_file>libcuda\.so\.1|libnvidia-ml\.so\.1): cannot open shared object file(?!: (?!No such))",
        ("{library_file} comes with NVIDIA's driver, which this machine or container does not have.",),
        (
            "Install the driver, or start the container with the GPU: `docker run --gpus all ...`; `nvidia-smi` tells "
            "whether it is available.",
        ),
        "OSError: libcuda.so.1: cannot open shared object file: No such file or directory",
        words=("cannot open shared object file",),
    ),
    Entry(
        "cuda-library-missing",
        "A CUDA library is missing",
        r"(?P<library_file>lib(?:cudart|cublas|cublasLt|cudnn\w*|cufft|curand|cusolver|cusparse\w*|nccl|nvrtc"
        r"|nvJitLink|"
        r"cupti|nvToolsExt|cufile|nvshmem_host)\.so(?:\.\d+)*): cannot open shared object file(?!: (?!No such))",
        (
            "The library was built against {library_file}, which is not installed; the number at its end is its major "
            "version.",
            "torch is built for CUDA {torch_cuda}.",
        ),
        (
            "If that is not torch's major version, install the package's wheel for CUDA {torch_cuda}, or build it with this "
            "torch: `pip install --no-binary PACKAGE --no-build-isolation --force-reinstall --no-deps PACKAGE`.",
            "Otherwise `import torch` first, which loads torch's own CUDA libraries.",
            "`pip install {package}` installs it.",
        ),
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
        words=("cannot open shared object file",),
    ),
    Entry(
        "rocm-library-missing",
        "A ROCm library is missing",
        r"(?P<library_file>lib(?:amdhip64|hiprtc|rocblas|hipblas\w*|MIOpen)\.so(?:\.\d+)*): "
        r"cannot open shared object file(?!: (?!No such))",
        (
            "The library was built for AMD's GPUs against {library_file}, which is not here; the number at its end is the "
            "major version of ROCm (of HIP for libamdhip64).",
            "torch is built for CUDA {torch_cuda}.",
        ),
        (
            "Install the package's wheel for this torch, or build it with it: `pip install --no-binary PACKAGE "
            "--no-build-isolation --force-reinstall --no-deps PACKAGE`.",
            "For this wheel, install that ROCm (https://rocm.docs.amd.com) and a torch for it "
            "(https://pytorch.org/get-started/locally).",
        ),
        "OSError: libamdhip64.so.6: cannot open shared object file: No such file or directory",
        words=("cannot open shared object file",),
    ),
    Entry(
        "python-library-missing",
        "libpython is missing",
        r"(?P<library_file>libpython3[\w.]*): cannot open shared object file(?!: (?!No such))",
        ("The library was linked with {library_file}; an extension module should not be.",),
        (
            "Rebuild it without -lpython. For a program that embeds Python: `apt-get install libpython3-dev`, or "
            "add the folder of `python -c \"import sysconfig; print(sysconfig.get_config_var('LIBDIR'))\"` to "
            "LD_LIBRARY_PATH.",
        ),
        "ImportError: libpython3.10.so.1.0: cannot open shared object file: No such file or directory",
        words=("cannot open shared object file",),
    ),
    Entry(
        "library-missing",
        "A shared library is missing",
        r"(?P<library_file>lib[\w.+-]+\.so[\w.]*): cannot open shared object file(?!: (?!No such))",
        ("{library_file} is not in any folder that the loader searches.",),
        (
            "Find it with `find / -name '{library_file}' 2>/dev/null`, and add its folder at link time: "
            "`extra_ldflags=['-Wl,-rpath,FOLDER']`. If it does not exist, install its package (`apt-file search "
            "{library_file}`).",
        ),
        "ImportError: libopencv_core.so.4.5: cannot open shared object file: No such file or directory",
        words=("cannot open shared object file",),
    ),
    Entry(
        "libstdcxx-old",
        "libstdc++ is older than the compiler",
        r"(?<!\S)(?P<found>\S*libstdc\+\+\S*): version `(?P<version>(?:GLIBCXX|CXXABI)_[\d.]+)' not found"
        r"(?: \(required by (?P<needed_by>[^)]+)\))?",
        (
            "The library was built by a gcc newer than this process's libstdc++: {found} does not have {version}.",
            "{needed_by} needs it.",
        ),
        (
            "If {found} is conda's: `conda install -c conda-forge libstdcxx-ng`. Otherwise use the system's with "
            "`export LD_PRELOAD=$(g++ -print-file-name=libstdc++.so.6)`, or build with an older compiler (`export "
            "CXX=g++-11`).",
        ),
        "/opt/conda/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /x/k.so)",
        words=("version `",),
    ),
    Entry(
        "glibc-old",
        "The system is older than the build machine's",
        r"version `(?P<version>GLIBC_[\d.]+)' not found(?: \(required by (?P<needed_by>[^)]+)\))?",
        (
            "The library was built on a newer Linux distribution: it needs {version}, but this system's C library is "
            "older.",
            "{needed_by} needs it.",
        ),
        (
            "Build it on this machine (`pip install --no-binary PACKAGE --no-build-isolation PACKAGE`), or in an older "
            "container (quay.io/pypa/manylinux_2_28_x86_64) for many machines; `ldd --version` shows this system's version.",
        ),
        "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by /x/k.so)",
        words=("version `",),
    ),
    Entry(
        "no-init-function",
        "The library is not a Python module, or has another name",
        r"dynamic module does not define module export function \((?P<symbol>PyInit_\w+)\)",
        (
            "Python looks for {symbol} in the library. The sources have no PYBIND11_MODULE (they register operators "
            "with TORCH_LIBRARY), or it has another name.",
        ),
        (
            "Write `PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)`; for TORCH_LIBRARY load it with "
            "`is_python_module=False` or `torch.ops.load_library(PATH)`.",
        ),
        "ImportError: dynamic module does not define module export function (PyInit_k)",
        words=("dynamic module does not define module export function",),
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
        words=("compiled for Python",),
    ),
    Entry(
        "numpy-abi",
        "Built for another NumPy",
        r"numpy\.dtype size changed, may indicate binary incompatibility"
        r"|A module that was compiled using NumPy 1\.x cannot be run in"
        r"|module compiled against (?:ABI|API) version \S+ but this version of numpy is",
        ("The module was compiled against another major version of NumPy than the installed one.",),
        ("Rebuild the module, or install the older NumPy: `pip install 'numpy<2'`.",),
        "A module that was compiled using NumPy 1.x cannot be run in NumPy 2.1.0 as it may crash.",
        words=(
            "numpy.dtype size changed",
            "compiled using NumPy 1.x",
            "but this version of numpy is",
        ),
    ),
    Entry(
        "wrong-elf-class",
        "A library for another processor",
        r"wrong ELF class: (?P<kind>ELFCLASS\d+)|incompatible architecture \(have '(?P<have>\w+)', need "
        r"'(?P<need>[\w' or]+)'\)",
        (
            "The library is {kind}: 32-bit and 64-bit code cannot share a process.",
            "The library is for {have}, but this process needs {need}: Python itself may run translated.",
        ),
        (
            "Build it on this machine with this Python; `file LIBRARY` and `python -c 'import platform; "
            "print(platform.machine())'` must agree.",
        ),
        "ImportError: /x/k.so: wrong ELF class: ELFCLASS32",
        words=(
            "wrong ELF class: ",
            "incompatible architecture (have",
        ),
    ),
    Entry(
        "invalid-elf",
        "The file is not a library, or is incomplete",
        r"invalid ELF header|file too short|ELF load command past end of file|not a mach-o file",
        (
            "The file is truncated (a full disk, an interrupted copy or download), or is something else, such as a "
            "Git LFS pointer.",
        ),
        (
            "Inspect it with `file LIBRARY` and `ls -l LIBRARY`; delete it and build or install it again. `git lfs "
            "pull` fetches files of Git LFS.",
        ),
        "ImportError: /x/k.so: file too short",
        words=(
            "invalid ELF header",
            "file too short",
            "ELF load command past end of file",
            "not a mach-o file",
        ),
    ),
    Entry(
        "noexec",
        "The disk does not allow execution",
        r"failed to map segment from shared object|cannot enable executable stack as shared object requires",
        (
            "The folder is on a file system mounted with noexec (often /tmp or /dev/shm), or a security policy "
            "forbids code there.",
        ),
        (
            "Use another folder: `export OPSMITH_CACHE_DIR=~/.cache/opsmith` (torch: TORCH_EXTENSIONS_DIR), or "
            "remount it with `mount -o remount,exec /tmp`. `findmnt -T FOLDER -o OPTIONS` shows it.",
        ),
        "ImportError: /tmp/k.so: failed to map segment from shared object",
        words=(
            "failed to map segment from shared object",
            "cannot enable executable stack",
        ),
    ),
    Entry(
        "static-tls",
        "The static TLS block is full",
        r"(?:(?<!\S)(?P<library_file>\S+): )?cannot allocate memory in static TLS block",
        ("Libraries loaded earlier (often libgomp) used up a small table for thread-local variables.",),
        (
            "Import this library before the others, or start with `LD_PRELOAD={library_file} python ...`.",
            "`export GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384` makes the table larger.",
        ),
        "OSError: /x/libgomp.so.1: cannot allocate memory in static TLS block",
        words=("cannot allocate memory in static TLS block",),
    ),
)
