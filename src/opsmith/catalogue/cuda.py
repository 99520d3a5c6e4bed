"""Lists failures of nvcc, and those of a CUDA version that does not fit."""

from __future__ import annotations

from opsmith.catalogue.entry import Entry

__all__ = ["ENTRIES"]

_OTHER_CUDA = (
    "`export CUDA_HOME=/usr/local/cuda-{torch_cuda}` if that toolkit is installed, or `{toolkit_command}` for one of "
    "your own; or install a torch for the CUDA that is here (https://pytorch.org/get-started/locally).",
    "Build again with a toolkit of torch's major version of CUDA, or `export OPSMITH_SKIP_CUDA_CHECK=1` to build all "
    "the same.",
)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "cuda-mismatch",
        "nvcc and torch are of different CUDA versions",
        r"The detected CUDA version \((?P<nvcc_cuda>[\d.%s]+)\) mismatches the version that was used to "
        r"compile\s*PyTorch "
        r"\((?P<compiled_cuda>[\d.%s]+)\)"
        r"|torch (?P<torch_version>\S+) is built for CUDA (?P<built_cuda>[\d.]+), but nvcc is (?P<found_cuda>[\d.]+)",
        (
            "CUDA keeps its binary interface within a major version: 12.4 and 12.8 go together, 12.8 and 13.0 do not.",
            "torch is built for CUDA {torch_cuda}.",
            "nvcc is {nvcc}.",
        ),
        _OTHER_CUDA,
        "RuntimeError: ('The detected CUDA version (%s) mismatches the version that was used to compile PyTorch "
        "(%s)...', '13.0', '12.8')",
    ),
    Entry(
        "gcc-too-new",
        "The host compiler is newer than nvcc accepts",
        r"unsupported GNU version! gcc versions later than (?P<newest>\d+) are not supported"
        r"|unsupported clang version! clang version must be less than (?P<below>\d+)",
        (
            "nvcc accepts gcc up to {newest}, and was given a newer one.",
            "nvcc accepts clang below {below}, and was given a newer one.",
        ),
        (
            "`apt-get install g++-{newest}` and `export NVCC_CCBIN=g++-{newest}` (torch: `export CC=gcc-{newest} "
            "CXX=g++-{newest}`), or `conda install -c conda-forge gxx={newest}`. A newer CUDA toolkit accepts newer "
            "compilers.",
            "Install an older clang or use g++: `export NVCC_CCBIN=g++`.",
        ),
        "/usr/local/cuda/include/crt/host_config.h:143:2: error: #error -- unsupported GNU version! gcc versions "
        "later than 12 are not supported!",
    ),
    Entry(
        "unknown-gpu-arch",
        "nvcc does not know the GPU architecture",
        r"nvcc fatal\s*: Unsupported gpu architecture '(?P<arch>[\w,]+)'"
        r"|nvcc fatal\s*: Value '(?P<value>sm_\w+|compute_\w+)' is not defined for option 'gpu-"
        r"|CUDA architecture (?P<asked>\S+) is asked for, but this nvcc compiles for",
        (
            "This nvcc does not compile for {arch}: it is older than that GPU, or so new that it has given it up "
            "(CUDA 13 dropped everything before sm_75).",
            "This nvcc does not compile for {value}.",
            "This nvcc does not compile for {asked}.",
            "It is nvcc {nvcc}.",
        ),
        (
            "`nvcc --list-gpu-arch` shows what it knows; name some of those: `export "
            "TORCH_CUDA_ARCH_LIST='8.0;9.0+PTX'`. For a newer GPU install a newer CUDA, or build PTX of the newest "
            "known, which the driver translates.",
        ),
        "nvcc fatal   : Unsupported gpu architecture 'compute_200'",
    ),
    Entry(
        "cccl-mismatch",
        "nvcc and the CUDA headers are of different versions",
        r"CUDA compiler and CUDA toolkit headers are incompatible",
        (
            "The headers beside this nvcc are of another CUDA version: with wheels from PyPI, one of the parts was "
            "upgraded alone.",
        ),
        (
            "Bring all parts to the version of torch's CUDA: `{toolkit_command}`.",
            "`pip install --upgrade 'cuda-toolkit[nvcc,crt,nvvm,cudart,cccl]'` brings all parts to one version; where "
            "torch brings CUDA too, add its version, such as `'cuda-toolkit==13.0.*'`.",
        ),
        '/nvidia/cu13/include/cccl/cuda/std/__internal/features.h:57:4: error: #error "CUDA compiler and CUDA toolkit '
        "headers "
        'are incompatible, please check your include paths"',
    ),
    Entry(
        "half-operators",
        "Operators of half are switched off",
        r"(?:no operator \"[^\"]+\" matches these operands|more than one (?:conversion function|instance of)|no "
        r"suitable "
        r"(?:conversion function|constructor))[^\n]*(?:\n[^\n]*){0,3}?(?:__half|__nv_bfloat16|half)\b[^\n]*",
        (
            "Sources of PyTorch extensions are compiled with __CUDA_NO_HALF_OPERATORS__ and its like, as PyTorch's "
            "own are, so __half and __nv_bfloat16 have no operators and no conversions.",
        ),
        (
            "Give nvcc `-U__CUDA_NO_HALF_OPERATORS__ -U__CUDA_NO_HALF_CONVERSIONS__ -U__CUDA_NO_HALF2_OPERATORS__ "
            "-U__CUDA_NO_BFLOAT16_CONVERSIONS__` (extra_cuda_cflags), or compute in c10::Half or float.",
        ),
        'k.cu(4): error: no operator "+" matches these operands\n            operand types are: __half + __half',
    ),
    Entry(
        "extended-lambda",
        "Device lambdas need a flag",
        r"__(?:host__ __)?device__ extended lambda|extended __(?:host|device)\w*__ lambda|--extended-lambda"
        r"|lambda[^\n]*is only allowed[^\n]*--extended-lambda|cannot be (?:called|used) "
        r"[^\n]*unless[^\n]*extended-lambda",
        ("nvcc compiles lambdas for the device only when it is told to.",),
        ("Give nvcc `--extended-lambda` (extra_cuda_cflags).",),
        "error: __host__ or __device__ annotation on lambda requires --extended-lambda nvcc flag",
    ),
    Entry(
        "host-from-device",
        "A host function is called on the device",
        r"calling a (?P<constexpr>constexpr )?__host__ function(?:\(\"(?P<function>[^\"]+)\"\))?[^\n]* from a "
        r"__(?P<space>device|global)__ function",
        ("{function} is compiled for the host only, and a kernel calls it.",),
        (
            "Mark it `__host__ __device__`, or use CUDA's or cuda::std's function of that name. Where it is a "
            "{constexpr} function, `--expt-relaxed-constexpr` (extra_cuda_cflags) is enough.",
            "Mark it `__host__ __device__`, or use CUDA's or cuda::std's function of that name.",
        ),
        'k.cu(3): error: calling a __host__ function("twice(float)") from a __global__ function("kernel") is not '
        "allowed",
    ),
    Entry(
        "nvcc-flag",
        "nvcc does not know that flag",
        r"nvcc fatal\s*: Unknown option '(?P<flag>[^']+)'",
        ("{flag} is a flag of the host compiler, and nvcc passes on only what it is told to.",),
        (
            "Write `-Xcompiler {flag}` in extra_cuda_cflags, or give it to the C++ files alone: {{'cxx': [...], "
            "'nvcc': [...]}}.",
        ),
        "nvcc fatal   : Unknown option '-fopenmp'",
    ),
    Entry(
        "shared-memory",
        "A kernel has more shared memory than may be static",
        r"ptxas error\s*: Entry function '(?P<symbol>\w+)' uses too much shared data \((?P<used>0x\w+) bytes, "
        r"(?P<most>0x\w+) max\)",
        ("{symbol} declares {used} bytes of __shared__ memory; static arrays may have {most} together.",),
        (
            "Use `extern __shared__` memory with the size at launch, after cudaFuncSetAttribute(kernel, "
            "cudaFuncAttributeMaxDynamicSharedMemorySize, bytes).",
        ),
        "ptxas error   : Entry function '_Z1kPf' uses too much shared data (0x18000 bytes, 0xc000 max)",
    ),
    Entry(
        "device-link",
        "Device code calls another file's device code",
        r"ptxas fatal\s*: Unresolved extern function '(?P<symbol>\w+)'"
        r"|undefined reference to `(?P<registration>__cudaRegisterLinkedBinary\w*|__fatbinwrap\w*)'",
        (
            "{symbol} is device code of another file, and each .cu file is compiled for itself.",
            "The files were compiled with -rdc=true, and the step that links device code is missing.",
        ),
        (
            "Put the function into a header, or compile with `-rdc=true` (nvcc) and link device code: "
            "`CUDAExtension(..., dlink=True)`.",
        ),
        "ptxas fatal   : Unresolved extern function '_Z6helperf'",
    ),
    Entry(
        "no-nvcc",
        "There is no CUDA compiler",
        r"CUDA_HOME environment variable is not set\. Please set it to your CUDA install root"
        r"|No CUDA compiler was found|Could not find (?:nvcc|CUDA_TOOLKIT_ROOT_DIR)|nvcc: (?:command )?not found"
        r"|Failed to find nvcc",
        ("A CUDA source needs nvcc, and none was found: neither by CUDA_HOME, nor on PATH, nor in /usr/local/cuda.",),
        (
            "`pip install 'opsmith[cuda]'` brings one from PyPI that opsmith finds by itself (torch: `export "
            "CUDA_HOME=...` as well), `conda install -c nvidia cuda-nvcc` or "
            "https://developer.nvidia.com/cuda-downloads a system's. `opsmith doctor` shows what is here.",
        ),
        "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",
    ),
    Entry(
        "toolkit-part-missing",
        "A part of the CUDA toolkit is missing",
        r"(?:sh: \d+: |: )?(?P<part>cicc|ptxas|fatbinary|nvlink|cudafe\+\+|bin2c): (?:command )?not found"
        r"|nvcc fatal\s*: Could not open output file|nvcc fatal\s*: Failed to preprocess host compiler properties"
        r"|Failed to initialize build of libdevice|libdevice\.10\.bc",
        ("nvcc is there, and {part}, which it starts, is not: some packages bring nvcc alone.",),
        (
            "`pip install 'cuda-toolkit[nvcc,crt,nvvm,cudart,cccl]'` with nvcc's version (`==13.0.*`), or install the "
            "whole toolkit.",
        ),
        "sh: 1: cicc: not found",
    ),
)
