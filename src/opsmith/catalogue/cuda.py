"""Lists failures of nvcc, and those of a CUDA version that does not fit."""

from __future__ import annotations

from opsmith.catalogue.entry import Entry

__all__ = ["ENTRIES"]

_OTHER_CUDA = (
    "`export CUDA_HOME=/usr/local/cuda-{torch_cuda}` if that toolkit is installed, or `{toolkit_command}` to install "
    "it; or install a torch for the CUDA that you have (https://pytorch.org/get-started/locally).",
    "Rebuild with a toolkit of torch's CUDA major version, or `export OPSMITH_SKIP_CUDA_CHECK=1` to build anyway.",
)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "cuda-mismatch",
        "nvcc and torch have different CUDA versions",
        r"The detected CUDA version \((?P<nvcc_cuda>[\d.%s]+)\) mismatches the version that was used to "
        r"compile\s*PyTorch "
        r"\((?P<compiled_cuda>[\d.%s]+)\)"
        r"|torch (?P<torch_version>\S+) is built for CUDA (?P<built_cuda>[\d.]+), but nvcc is (?P<found_cuda>[\d.]+)",
        (
            "CUDA's binary interface is stable within a major version: 12.4 and 12.8 are compatible, 12.8 and 13.0 "
            "are not.",
            "torch is built for CUDA {torch_cuda}.",
            "nvcc is {nvcc}.",
        ),
        _OTHER_CUDA,
        "RuntimeError: ('The detected CUDA version (%s) mismatches the version that was used to compile PyTorch "
        "(%s)...', '13.0', '12.8')",
        words=(
            "PyTorch (",
            ", but nvcc is ",
        ),
        lines=2,
    ),
    Entry(
        "gcc-too-new",
        "The host compiler is newer than nvcc accepts",
        r"unsupported GNU version! gcc versions later than (?P<newest>\d+) are not supported"
        r"|unsupported clang version! clang version must be less than (?P<below>\d+)",
        (
            "nvcc accepts gcc up to {newest}, but the host compiler is newer.",
            "nvcc accepts clang below {below}, but the host compiler is newer.",
        ),
        (
            "`apt-get install g++-{newest}` and `export NVCC_CCBIN=g++-{newest}` (torch: `export CC=gcc-{newest} "
            "CXX=g++-{newest}`), or `conda install -c conda-forge gxx={newest}`. A newer CUDA toolkit accepts newer "
            "compilers.",
            "Install an older clang or use g++: `export NVCC_CCBIN=g++`.",
        ),
        "/usr/local/cuda/include/crt/host_config.h:143:2: error: #error -- unsupported GNU version! gcc versions "
        "later than 12 are not supported!",
        words=(
            "unsupported GNU version!",
            "unsupported clang version!",
        ),
    ),
    Entry(
        "unknown-gpu-arch",
        "nvcc does not support the GPU architecture",
        r"nvcc fatal\s*: Unsupported gpu architecture '(?P<arch>[\w,]+)'"
        r"|nvcc fatal\s*: Value '(?P<value>sm_\w+|compute_\w+)' is not defined for option 'gpu-"
        r"|CUDA architecture (?P<asked>\S+) is requested, but this nvcc only compiles for",
        (
            "This nvcc does not compile for {arch}: it is older than that GPU, or so new that it has dropped it (CUDA "
            "13 dropped everything before sm_75).",
            "This nvcc does not compile for {value}.",
            "This nvcc does not compile for {asked}.",
            "It is nvcc {nvcc}.",
        ),
        (
            "`nvcc --list-gpu-arch` shows what it supports; choose from those: `export "
            "TORCH_CUDA_ARCH_LIST='8.0;9.0+PTX'`. For a newer GPU install a newer CUDA, or build PTX for the newest "
            "supported one, which the driver translates.",
        ),
        "nvcc fatal   : Unsupported gpu architecture 'compute_200'",
        words=(
            "Unsupported gpu architecture",
            "is not defined for option 'gpu-",
            "but this nvcc only compiles for",
        ),
    ),
    Entry(
        "cccl-mismatch",
        "nvcc and the CUDA headers have different versions",
        r"CUDA compiler and CUDA toolkit headers are incompatible",
        (
            "The headers next to this nvcc belong to another CUDA version: of the wheels from PyPI, only some were "
            "upgraded.",
        ),
        (
            "Install all parts in the version of torch's CUDA: `{toolkit_command}`.",
            "`pip install --upgrade 'cuda-toolkit[nvcc,crt,nvvm,cudart,cccl]'` installs all parts in one version; if "
            "torch ships CUDA too, add its version, such as `'cuda-toolkit==13.0.*'`.",
        ),
        '/nvidia/cu13/include/cccl/cuda/std/__internal/features.h:57:4: error: #error "CUDA compiler and CUDA toolkit '
        "headers "
        'are incompatible, please check your include paths"',
        words=("CUDA compiler and CUDA toolkit headers are incompatible",),
    ),
    Entry(
        "half-operators",
        "Operators of half are disabled",
        r"(?:no operator \"[^\"]+\" matches these operands|more than one (?:conversion function|instance of)|no "
        r"suitable "
        r"(?:conversion function|constructor))[^\n]*(?:\n[^\n]*){0,3}?(?:__half|__nv_bfloat16|half)\b[^\n]*",
        (
            "PyTorch extensions are compiled with __CUDA_NO_HALF_OPERATORS__ and similar macros, like PyTorch itself, "
            "so __half and __nv_bfloat16 have no operators or conversions.",
        ),
        (
            "Pass nvcc `-U__CUDA_NO_HALF_OPERATORS__ -U__CUDA_NO_HALF_CONVERSIONS__ -U__CUDA_NO_HALF2_OPERATORS__ "
            "-U__CUDA_NO_BFLOAT16_CONVERSIONS__` (extra_cuda_cflags), or compute in c10::Half or float.",
        ),
        'k.cu(4): error: no operator "+" matches these operands\n            operand types are: __half + __half',
        words=(
            "half",
            "__nv_bfloat16",
        ),
        lines=4,
    ),
    Entry(
        "extended-lambda",
        "Device lambdas need a flag",
        r"__(?:host__ __)?device__ extended lambda|extended __(?:host|device)\w*__ lambda|--extended-lambda"
        r"|lambda[^\n]*is only allowed[^\n]*--extended-lambda|cannot be (?:called|used) "
        r"[^\n]*unless[^\n]*extended-lambda",
        ("nvcc compiles device lambdas only with a flag.",),
        ("Pass nvcc `--extended-lambda` (extra_cuda_cflags).",),
        "error: __host__ or __device__ annotation on lambda requires --extended-lambda nvcc flag",
        words=(
            "extended lambda",
            "__ lambda",
            "extended-lambda",
        ),
    ),
    Entry(
        "host-from-device",
        "A kernel calls a host function",
        r"calling a (?P<constexpr>constexpr )?__host__ function(?:\(\"(?P<function>[^\"]+)\"\))?[^\n]* from a "
        r"__(?P<space>device|global)__ function",
        ("{function} is compiled for the host only, but a kernel calls it.",),
        (
            "Mark it `__host__ __device__`, or use CUDA's or cuda::std's function of that name. For a {constexpr} "
            "function, `--expt-relaxed-constexpr` (extra_cuda_cflags) is enough.",
            "Mark it `__host__ __device__`, or use CUDA's or cuda::std's function of that name.",
        ),
        'k.cu(3): error: calling a __host__ function("twice(float)") from a __global__ function("kernel") is not '
        "allowed",
        words=("__host__ function",),
    ),
    Entry(
        "nvcc-flag",
        "nvcc does not know that flag",
        r"nvcc fatal\s*: Unknown option '(?P<flag>[^']+)'",
        ("{flag} is a flag of the host compiler, which nvcc does not forward by itself.",),
        (
            "Write `-Xcompiler {flag}` in extra_cuda_cflags, or pass it to the C++ files only: {{'cxx': [...], "
            "'nvcc': [...]}}.",
        ),
        "nvcc fatal   : Unknown option '-fopenmp'",
        words=("Unknown option '",),
    ),
    Entry(
        "shared-memory",
        "A kernel uses too much static shared memory",
        r"ptxas error\s*: Entry function '(?P<symbol>\w+)' uses too much shared data \((?P<used>0x\w+) bytes, "
        r"(?P<most>0x\w+) max\)",
        ("{symbol} declares {used} bytes of static __shared__ memory; the limit is {most}.",),
        (
            "Use `extern __shared__` memory and pass its size at launch, after cudaFuncSetAttribute(kernel, "
            "cudaFuncAttributeMaxDynamicSharedMemorySize, bytes).",
        ),
        "ptxas error   : Entry function '_Z1kPf' uses too much shared data (0x18000 bytes, 0xc000 max)",
        words=("uses too much shared data",),
    ),
    Entry(
        "device-link",
        "Device code calls another file's device code",
        r"ptxas fatal\s*: Unresolved extern function '(?P<symbol>\w+)'"
        r"|undefined reference to `(?P<registration>__cudaRegisterLinkedBinary\w*|__fatbinwrap\w*)'",
        (
            "{symbol} is device code of another file, and each .cu file is compiled separately.",
            "The files were compiled with -rdc=true, but device code was not linked.",
        ),
        (
            "Put the function into a header, or compile with `-rdc=true` (nvcc) and link device code: "
            "`CUDAExtension(..., dlink=True)`.",
        ),
        "ptxas fatal   : Unresolved extern function '_Z6helperf'",
        words=(
            "Unresolved extern function",
            "__cudaRegisterLinkedBinary",
            "__fatbinwrap",
        ),
    ),
    Entry(
        "no-nvcc",
        "No CUDA compiler",
        r"CUDA_HOME environment variable is not set\. Please set it to your CUDA install root"
        r"|No CUDA compiler was found|Could not find (?:nvcc|CUDA_TOOLKIT_ROOT_DIR)|nvcc: (?:command )?not found"
        r"|Failed to find nvcc",
        ("A CUDA source needs nvcc, which was not found through CUDA_HOME, on PATH or in /usr/local/cuda.",),
        (
            "`pip install 'opsmith[cuda]'` installs one from PyPI, which opsmith finds by itself (torch also needs "
            "`export CUDA_HOME=...`); `conda install -c nvidia cuda-nvcc` or "
            "https://developer.nvidia.com/cuda-downloads install one for the system. `opsmith doctor` shows what is "
            "installed.",
        ),
        "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",
        words=(
            "CUDA_HOME environment variable is not set",
            "No CUDA compiler was found",
            "Could not find ",
            "nvcc: ",
            "Failed to find nvcc",
        ),
    ),
    Entry(
        "toolkit-part-missing",
        "A part of the CUDA toolkit is missing",
        r"(?:sh: \d+: |: )?(?P<part>cicc|ptxas|fatbinary|nvlink|cudafe\+\+|bin2c): (?:command )?not found"
        r"|Failed to initialize build of libdevice|libdevice\.10\.bc",
        ("nvcc is installed, but {part}, which it runs, is not: some packages contain only nvcc.",),
        (
            "`pip install 'cuda-toolkit[nvcc,crt,nvvm,cudart,cccl]'` in nvcc's version (`==13.0.*`), or install the "
            "complete toolkit.",
        ),
        "sh: 1: cicc: not found",
        words=(
            "not found",
            "libdevice",
        ),
    ),
)
