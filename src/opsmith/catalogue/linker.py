"""Lists failures of the linker with a known cause."""

from __future__ import annotations

from opsmith.catalogue.entry import Entry

__all__ = ["ENTRIES"]

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "not-position-independent",
        "An object was compiled without -fPIC",
        r"(?:ld: (?P<file>\S+): )?relocation R_\w+ against [^\n]*(?:can ?not be used when making a shared object"
        r"|recompile with "
        r"-fPIC)",
        (
            "{file} is linked into a shared library but was not compiled for one.",
            "Distributions' static libraries (.a) often are not.",
        ),
        (
            "Compile it with -fPIC (CMake: `set(CMAKE_POSITION_INDEPENDENT_CODE ON)`), or link the shared version of "
            "that library.",
        ),
        "/usr/bin/ld: part.o: relocation R_X86_64_PC32 against symbol `counter' can not be used when making a shared "
        "object; recompile with -fPIC",
        words=("relocation R_",),
    ),
    Entry(
        "no-cudart-library",
        "The linker does not find a CUDA library",
        r"cannot find -l(?P<name>cudart(?:_static)?|cublas\w*|cudnn\w*|cusparse\w*|cufft|curand|cusolver|nccl|nvrtc"
        r"|nvToolsExt|"
        r"cuda|cudadevrt|c10_cuda|torch_cuda)\b",
        (
            "No folder on the linker's path has lib{name}.so: the toolkit's lib64 is missing from the path, or the "
            "file comes from a PyPI wheel and has a version suffix.",
            "(Only CUDA builds of torch have c10_cuda and torch_cuda; the installed torch is {torch}.)",
        ),
        (
            "Add the folder: `extra_ldflags=['-L/usr/local/cuda/lib64', '-l{name}']` (libcuda.so: "
            ".../lib64/stubs), or set CUDA_HOME to a complete toolkit.",
        ),
        "/usr/bin/ld: cannot find -lcudart: No such file or directory",
        words=("cannot find -l",),
    ),
    Entry(
        "no-python-library",
        "The linker does not find libpython",
        r"cannot find -l(?P<name>python3[\w.]*)",
        ("Extension modules are not linked with libpython, and this Python does not have a shared one.",),
        (
            "Remove -l{name} from the flags. A program that embeds Python needs `apt-get install lib{name}-dev` and "
            "`python3-config --embed --ldflags`.",
        ),
        "/usr/bin/ld: cannot find -lpython3.11: No such file or directory",
        words=("cannot find -l",),
    ),
    Entry(
        "no-library",
        "The linker does not find a library",
        r"cannot find -l(?P<name>[\w+.-]+)(?![\w+.-]|: (?!No such))|library not found for -l(?P<mac>[\w+.-]+)"
        r"|library '(?P<mac2>[\w+.-]+)' not found",
        ("No folder on the linker's path has lib{name}.so or lib{name}.a.",),
        (
            "Install it with its headers (`apt-get install lib{name}-dev`), or add its folder: "
            "`extra_ldflags=['-L/folder', '-l{name}']`.",
            "Add its folder: `extra_ldflags=['-L/folder', '-l{mac}']`.",
        ),
        "/usr/bin/ld: cannot find -lpng: No such file or directory",
        words=(
            "cannot find -l",
            "library not found for -l",
            "library '",
        ),
    ),
    Entry(
        "wrong-format",
        "An object or library is for another processor",
        r"(?<!\S)(?P<file>\S+): file (?:in wrong format|format not recognized)|skipping incompatible (?P<skipped>\S+) "
        r"when "
        r"searching"
        r"|(?<!\S)(?P<other>\S+) is incompatible with \S+ output|Relocations in generic ELF",
        (
            "{file} is for another processor, from another compiler (LTO), or damaged.",
            "{skipped} is for another processor.",
            "{other} is for another processor.",
        ),
        (
            "`file` tells what it is. Remove leftovers of earlier builds (`rm -r build`), and remove folders with "
            "libraries of another kind (lib32, a cross toolkit's targets) from -L.",
        ),
        "/usr/bin/ld: part.o: file in wrong format",
        words=(
            ": file in wrong format",
            ": file format not recognized",
            "skipping incompatible ",
            "is incompatible with ",
            "Relocations in generic ELF",
        ),
    ),
    Entry(
        "dso-missing",
        "A library is used but not linked",
        r"(?P<library_file>lib[\w.+-]+): error adding symbols: DSO missing from command line",
        ("The symbol is in {library_file}, which another library depends on but the command line does not name.",),
        ("Link it: `extra_ldflags=['-l...']`, with the name between lib and .so.",),
        "/usr/bin/ld: /lib/x86_64-linux-gnu/libm.so.6: error adding symbols: DSO missing from command line",
        words=("DSO missing from command line",),
    ),
    Entry(
        "defined-twice",
        "Two files define the same thing",
        r"multiple definition of [`'](?P<name>[^'\n]+)'",
        (
            "{name} is defined in two files, most often by a header without `inline`, a .cu file that another "
            "includes, or a file listed twice.",
        ),
        ("Write `inline` before the definition in the header, or move it into one of the files.",),
        "/usr/bin/ld: b.o: in function `twice(int)': multiple definition of `twice(int)'; a.o: first defined here",
        words=("multiple definition of ",),
    ),
    Entry(
        "torch-reference",
        "The linker does not find PyTorch's functions",
        r"undefined reference to [`'](?P<name>(?:c10|at|torch|caffe2)::[^\n`]+?)'$",
        (
            "{name} is PyTorch's. The command does not link the library that has it (libc10, libtorch_cpu, "
            "libtorch_python, libc10_cuda), or headers and libraries belong to different versions of torch.",
            "The installed torch is {torch}.",
        ),
        (
            "Link `-L$(python -c 'import torch; print(torch.__path__[0])')/lib -lc10 -ltorch_cpu -ltorch "
            "-ltorch_python`, and make sure that no other torch's include folder comes first.",
            "If the name contains std::string, remove -D_GLIBCXX_USE_CXX11_ABI=0 from the flags.",
        ),
        "/usr/bin/ld: k.cpp:(.text+0x1f): undefined reference to `c10::detail::torchCheckFail(char const*, char "
        "const*, unsigned int, char const*)'",
        words=("undefined reference to ",),
    ),
    Entry(
        "python-reference",
        "The linker does not find Python's functions",
        r"undefined reference to [`'](?P<symbol>_?Py[\w]+)'",
        (
            "{symbol} is Python's. An extension module may leave it undefined, but this link may not: it makes a "
            "program, or has --no-undefined.",
        ),
        (
            "Remove -Wl,--no-undefined (-Wl,-z,defs) from the flags; for a program add `$(python3-config --embed "
            "--ldflags)`.",
        ),
        "/usr/bin/ld: k.cpp:(.text+0x5): undefined reference to `PyList_New'",
        words=("undefined reference to ",),
    ),
    Entry(
        "undefined-reference",
        "Nothing defines a function",
        r"undefined reference to [`'](?P<name>[^'\n]+)'",
        ("{name} is declared and used, but no source or library of the link defines it.",),
        (
            "Add the source that defines it: `opsmith.view('kernel.cpp', 'helper.cpp')`, or `sources` of the extension.",
            "Or link its library: `extra_ldflags=['-l...']`.",
            "If a source does define it, compare the two: another type of a parameter, another namespace or `static` makes "
            'another function, and a C function needs `extern "C"` where C++ declares it.',
        ),
        "/usr/bin/ld: k.cpp:(.text+0x1f): undefined reference to `helper(int)'",
        words=("undefined reference to ",),
    ),
    Entry(
        "ninja-twice",
        "Two sources compile to the same object file",
        r"ninja: error: (?P<where>\S+): multiple rules generate (?P<object>\S+)",
        (
            "Two sources of the extension differ only in folder or suffix (k.cpp and k.cu), and torch's "
            "BuildExtension compiles both to {object}.",
        ),
        ("Rename one of them, or build with `opsmith.cpp_extension`, which keeps them apart.",),
        "ninja: error: build.ninja:29: multiple rules generate /b/k.o",
        words=("multiple rules generate",),
    ),
)
