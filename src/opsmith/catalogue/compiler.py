"""Lists failures of host compilers for the code or the flags that they are given."""

from __future__ import annotations

from opsmith.catalogue.entry import Entry

__all__ = ["ENTRIES"]

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "kernel-names",
        "A kernel's file does not know opsmith's names",
        r"error: (?:['\u2018]opsmith['\u2019] (?:is not a namespace-name|has not been declared)"
        r"|use of undeclared identifier 'opsmith'"
        r"|(?:expected namespace name|name must be a namespace name)\n[^\n]*using namespace opsmith;"
        r"|(?:['\u2018]View['\u2019] was not declared in this scope|no template named 'View'"
        r"|identifier \"View\" is undefined)[^\n]*\n[^\n]*\bView<[^<>\n]*, ?\d+>)"
        r"|did you mean ['\u2018]opsmith::(?P<name>\w+)['\u2019]",
        (
            "The file uses names that opsmith's header declares in the namespace `opsmith`, without including the "
            "header or without `using namespace opsmith;`.",
        ),
        (
            "Begin the file with `#include <opsmith/kernel.h>` (`#include <opsmith/native.h>` for a native kernel) and "
            "`using namespace opsmith;`, or write `opsmith::` before its names. `opsmith stub MODULE --write` writes "
            "such a file.",
        ),
        "k.cpp:1:17: error: 'opsmith' is not a namespace-name",
        words=("opsmith", "View<"),
        lines=2,
    ),
    Entry(
        "standard-too-old",
        "Compiled for an older C++ than PyTorch needs",
        r"#error:? \"?C\+\+(?P<standard>\d+) or later compatible compiler is required to use (?:PyTorch|ATen)"
        r"|You need C\+\+(?P<needed>\d+) to compile PyTorch",
        (
            "PyTorch's headers need C++{standard}, but the file is compiled for an older standard: by a -std flag of "
            "the project, or by the compiler's default.",
            "PyTorch's headers need C++{needed}, but the file is compiled for an older standard.",
        ),
        (
            "Remove the -std flag from `extra_compile_args` (opsmith adds the right one), or use -std=c++{standard}, "
            "for nvcc too.",
            "Write -std=c++{needed}.",
        ),
        '/torch/include/c10/util/C++20.h:4:2: error: #error "C++20 or later compatible compiler is required to use '
        'PyTorch."',
        words=(
            "or later compatible compiler is required",
            "to compile PyTorch",
        ),
    ),
    Entry(
        "standard-unknown",
        "The compiler does not support that C++ standard",
        r"(?:unrecognized command[- ]line option|invalid value"
        r"|Value)[^\n]*?['\u2018\"]?-?-?(?:std=)?(?P<standard>c\+\+\w+)"
        r"['\u2019\"]?[^\n]*(?:in '-std=|is not defined for option|;|$)",
        ("The compiler is older than {standard}, which PyTorch's headers need.",),
        (
            "Install gcc 10, clang 10 or newer (`apt-get install g++-12`, `conda install -c conda-forge gxx`) and "
            "select it: `export CXX=g++-12`.",
        ),
        "g++: error: unrecognized command line option '-std=c++20'; did you mean '-std=c++2a'?",
        words=(
            "unrecognized command",
            "invalid value",
            "Value",
        ),
    ),
    Entry(
        "deprecated-type",
        "Sources for an older PyTorch: tensor.type()",
        r"DeprecatedTypeProperties['\u2019\"]? (?:&['\u2019\"]? )?to ['\u2018\"]?(?:c10::|at::)?ScalarType"
        r"|no suitable conversion function from \"const at::DeprecatedTypeProperties\" to \"c10::ScalarType\"",
        ("AT_DISPATCH_... gets x.type(), which only older versions of PyTorch accept.",),
        ("Use x.scalar_type() instead: `sed -i 's/\\.type(), \"/.scalar_type(), \"/' FILE` replaces the usual form.",),
        "k.cpp:4:3: error: cannot convert 'at::DeprecatedTypeProperties' to 'c10::ScalarType' in initialization",
        words=("DeprecatedTypeProperties",),
    ),
    Entry(
        "removed-torch-macro",
        "Sources for an older PyTorch: a removed macro or type",
        r"(?:error: )?['\u2018\"](?P<name>AT_CHECK|AT_ASSERTM|THCudaCheck|THCState|THCCeilDiv|THArgCheck|THError"
        r"|THCudaMalloc|"
        r"THCudaFree)['\u2019\"]? (?:was not declared|is undefined|has not been declared)"
        r"|(?:identifier|undeclared identifier) ['\u2018\"](?P<name2>AT_CHECK|AT_ASSERTM|THCudaCheck|THCState"
        r"|THCCeilDiv)['\u2019\"]",
        (
            "PyTorch has removed {name}, and the sources still use it.",
            "PyTorch has removed {name2}, and the sources still use it.",
        ),
        (
            "Look for a newer version of the project. In the sources: `sed -i 's/AT_CHECK/TORCH_CHECK/; "
            "s/THCudaCheck/C10_CUDA_CHECK/; s/THCCeilDiv/at::ceil_div/' FILES`, and an at::empty tensor in place of "
            "THCudaMalloc.",
        ),
        "k.cpp:3:3: error: 'AT_CHECK' was not declared in this scope",
        words=(
            "AT_CHECK",
            "AT_ASSERTM",
            "THC",
            "THArgCheck",
            "THError",
        ),
    ),
    Entry(
        "stable-header",
        "A header that a stable-ABI library must not include",
        r"should not be included when [^\n]*(?:TORCH_STABLE_ONLY|TORCH_TARGET_VERSION)[^\n]*",
        (
            "The file is compiled against torch's stable ABI (TORCH_STABLE_ONLY or TORCH_TARGET_VERSION), but "
            "includes a header of the full C++ API.",
        ),
        (
            "Include only headers of `torch/csrc/stable/` and `torch/headeronly/`. Sources that need the full API "
            "build through opsmith.cpp_extension.",
        ),
        '/torch/include/ATen/ATen.h:3:2: error: #error "This file should not be included when either '
        "TORCH_STABLE_ONLY or "
        'TORCH_TARGET_VERSION is defined."',
        words=(
            "TORCH_STABLE_ONLY",
            "TORCH_TARGET_VERSION",
        ),
    ),
    Entry(
        "macos-target",
        "The macOS deployment target is too old",
        r"'(?P<name>[\w:<>]+)' is unavailable: introduced in macOS (?P<version>[\d.]+)"
        r"|was built for newer ['\u2018]?macOS['\u2019]? version \(?(?P<newer>[\d.]+)\)? than being linked",
        (
            "{name} needs macOS {version}, but the build targets an older one (the default is Python's own deployment "
            "target).",
            "A linked library was built for macOS {newer}, but this one targets an older version.",
        ),
        (
            "`export MACOSX_DEPLOYMENT_TARGET={version}` and rebuild.",
            "`export MACOSX_DEPLOYMENT_TARGET={newer}` and rebuild.",
        ),
        "k.cpp:5:3: error: 'path' is unavailable: introduced in macOS 10.15",
        words=(
            "is unavailable: introduced in macOS",
            "was built for newer ",
        ),
    ),
    Entry(
        "no-openmp-flag",
        "The compiler does not support -fopenmp",
        r"clang.*error: unsupported option '-fopenmp'",
        ("Apple's clang does not include OpenMP.",),
        (
            "`brew install libomp`, then `-Xpreprocessor -fopenmp` with `-I$(brew --prefix libomp)/include` to "
            "compile and `-L$(brew --prefix libomp)/lib -lomp` to link.",
        ),
        "clang: error: unsupported option '-fopenmp'",
        words=("unsupported option '-fopenmp'",),
    ),
)
