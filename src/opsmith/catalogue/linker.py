"""Lists failures of the linker with a known cause."""

from __future__ import annotations

from opsmith.catalogue.entry import Entry

__all__ = ["ENTRIES"]

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "not-position-independent",
        "A part was compiled without -fPIC",
        r"(?:ld: (?P<file>\S+): )?relocation R_\w+ against [^\n]*(?:can ?not be used when making a shared object"
        r"|recompile with "
        r"-fPIC)",
        (
            "{file} goes into a shared library, and was not compiled for that.",
            "Static libraries (.a) of distributions often are not.",
        ),
        (
            "Compile it with -fPIC (CMake: `set(CMAKE_POSITION_INDEPENDENT_CODE ON)`), or link the shared version of "
            "that library.",
        ),
        "/usr/bin/ld: part.o: relocation R_X86_64_PC32 against symbol `counter' can not be used when making a shared "
        "object; recompile with -fPIC",
    ),
    Entry(
        "no-cudart-library",
        "The linker does not find a CUDA library",
        r"cannot find -l(?P<name>cudart(?:_static)?|cublas\w*|cudnn\w*|cusparse\w*|cufft|curand|cusolver|nccl|nvrtc"
        r"|nvToolsExt|"
        r"cuda|cudadevrt|c10_cuda|torch_cuda)\b",
        (
            "No folder that the linker was given has lib{name}.so: the toolkit's lib64 is missing from it, or the "
            "wheels from PyPI have the file with a number at its end only.",
            "(c10_cuda and torch_cuda are in CUDA builds of torch alone; the torch that is here is {torch}.)",
        ),
        (
            "Give it the folder: `extra_ldflags=['-L/usr/local/cuda/lib64', '-l{name}']` (libcuda.so: "
            ".../lib64/stubs), or set CUDA_HOME to a whole toolkit.",
        ),
        "/usr/bin/ld: cannot find -lcudart: No such file or directory",
    ),
    Entry(
        "no-python-library",
        "The linker does not find libpython",
        r"cannot find -l(?P<name>python3[\w.]*)",
        ("An extension module is not linked with libpython, and this Python has no shared one to link.",),
        (
            "Take -l{name} out of the flags. A program that embeds Python needs `apt-get install lib{name}-dev` and "
            "`python3-config --embed --ldflags`.",
        ),
        "/usr/bin/ld: cannot find -lpython3.11: No such file or directory",
    ),
    Entry(
        "no-library",
        "The linker does not find a library",
        r"cannot find -l(?P<name>[\w+.-]+)|library not found for -l(?P<mac>[\w+.-]+)|library '(?P<mac2>[\w+.-]+)' not "
        r"found",
        ("No folder that the linker was given has lib{name}.so or lib{name}.a.",),
        (
            "Install it with its headers (`apt-get install lib{name}-dev`), or give the linker its folder: "
            "`extra_ldflags=['-L/folder', '-l{name}']`.",
            "Give the linker its folder: `extra_ldflags=['-L/folder', '-l{mac}']`.",
        ),
        "/usr/bin/ld: cannot find -lpng: No such file or directory",
    ),
    Entry(
        "wrong-format",
        "An object or library is for another processor",
        r"(?<!\S)(?P<file>\S+): file (?:in wrong format|format not recognized)|skipping incompatible (?P<skipped>\S+) "
        r"when "
        r"searching"
        r"|(?<!\S)(?P<other>\S+) is incompatible with \S+ output|Relocations in generic ELF",
        (
            "{file} was made for another processor, by another compiler (LTO), or is damaged.",
            "{skipped} was made for another processor.",
            "{other} was made for another processor.",
        ),
        (
            "`file` tells what it is. Remove what an earlier build left (`rm -r build`), and take a folder with "
            "libraries of another kind (lib32, a cross toolkit's targets) out of -L.",
        ),
        "/usr/bin/ld: part.o: file in wrong format",
    ),
    Entry(
        "dso-missing",
        "A library is used that the command does not name",
        r"(?P<library_file>lib[\w.+-]+): error adding symbols: DSO missing from command line",
        ("The symbol is in {library_file}, which another library brings in, but the command line does not.",),
        ("Name it: `extra_ldflags=['-l...']` with the name between lib and .so.",),
        "/usr/bin/ld: /lib/x86_64-linux-gnu/libm.so.6: error adding symbols: DSO missing from command line",
    ),
    Entry(
        "defined-twice",
        "Two files define the same thing",
        r"multiple definition of [`'](?P<name>[^'\n]+)'",
        (
            "{name} is defined in two files, most often by a header without `inline`, a .cu file that is included by "
            "another, or one file given twice.",
        ),
        ("Write `inline` before the definition in the header, or put it into one of the files alone.",),
        "/usr/bin/ld: b.o: in function `twice(int)': multiple definition of `twice(int)'; a.o: first defined here",
    ),
    Entry(
        "torch-reference",
        "The linker does not find PyTorch's functions",
        r"undefined reference to [`'](?P<name>(?:c10|at|torch|caffe2)::[^\n]+?)'$",
        (
            "{name} is PyTorch's. The command does not name the library that has it (libc10, libtorch_cpu, "
            "libtorch_python, libc10_cuda), or the headers and the libraries are of different versions of torch.",
            "The torch that is here is {torch}.",
        ),
        (
            "Link `-L$(python -c 'import torch; print(torch.__path__[0])')/lib -lc10 -ltorch_cpu -ltorch "
            "-ltorch_python`, and let no other torch's include folder come first.",
            "Where the name has std::string in it, look for -D_GLIBCXX_USE_CXX11_ABI=0 in the flags and take it out.",
        ),
        "/usr/bin/ld: k.cpp:(.text+0x1f): undefined reference to `c10::detail::torchCheckFail(char const*, char "
        "const*, unsigned int, char const*)'",
    ),
    Entry(
        "python-reference",
        "The linker does not find Python's functions",
        r"undefined reference to [`'](?P<symbol>_?Py[\w]+)'",
        (
            "{symbol} is Python's. An extension module may leave it open, but this link must not: it makes a program, "
            "or has --no-undefined.",
        ),
        (
            "Take -Wl,--no-undefined (-Wl,-z,defs) out of the flags; for a program add `$(python3-config --embed "
            "--ldflags)`.",
        ),
        "/usr/bin/ld: k.cpp:(.text+0x5): undefined reference to `PyList_New'",
    ),
    Entry(
        "ninja-twice",
        "Two sources make one object file",
        r"ninja: error: (?P<where>\S+): multiple rules generate (?P<object>\S+)",
        (
            "Two sources of the extension have the same name but for their folder or ending (k.cpp and k.cu), and "
            "torch's BuildExtension gives both the object {object}.",
        ),
        ("Rename one of them, or build with `opsmith.cpp_extension`, which keeps them apart.",),
        "ninja: error: build.ninja:29: multiple rules generate /b/k.o",
    ),
)
