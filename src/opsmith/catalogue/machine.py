"""Lists failures of a machine that is out of memory or disk, or that lacks a compiler."""

from __future__ import annotations

from opsmith.catalogue.entry import Entry

__all__ = ["ENTRIES"]

_FEWER = (
    "Run fewer compilers at once: `export OPSMITH_JOBS=1` (opsmith) or `export MAX_JOBS=1` (torch), and rebuild.",
    "For a .cu file, fewer architectures also help: `export TORCH_CUDA_ARCH_LIST=9.0`.",
)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "compiler-killed",
        "A compiler was killed for lack of memory",
        r"Killed signal terminated program (?P<program>\w+)"
        r"|'(?P<tool>\w+)' died due to signal 9"
        r"|(?:compilation|assembler|linker) terminated by signal 9"
        r"|clang.*error: unable to execute command: Killed"
        r"|^(?:.*: )?(?:line \d+: +\d+ )?Killed\b.*(?:cc1plus|g\+\+|c\+\+|cicc|nvcc|ptxas)",
        (
            "The machine, container or batch job ran out of memory, and the kernel killed the compiler.",
            "A file that includes torch/extension.h needs 1.5 GB, one with CUDA kernels more.",
        ),
        _FEWER,
        "g++: fatal error: Killed signal terminated program cc1plus",
        words=(
            "Killed",
            "signal 9",
        ),
    ),
    Entry(
        "out-of-memory",
        "A compiler ran out of memory",
        r"(?:virtual memory exhausted|out of memory allocating \d+ bytes|"
        r"LLVM ERROR: out of memory|std::bad_alloc)",
        ("The compiler could not allocate memory: the machine has none left, or a limit (`ulimit -v`) is reached.",),
        _FEWER,
        "cc1plus: out of memory allocating 65536 bytes after a total of 12345678 bytes",
        words=(
            "virtual memory exhausted",
            "out of memory",
            "std::bad_alloc",
        ),
    ),
    Entry(
        "disk-full",
        "The disk is full",
        r"No space left on device|Disk quota exceeded|final link failed: No space",
        ("The disk or your quota is full, for the cache, the temporary folder or the library's folder.",),
        (
            'Compare `df -h "${{TMPDIR:-/tmp}}" ~/.cache .`; then free space, or move the cache with '
            "`export OPSMITH_CACHE_DIR=/path/on/another/disk` and the temporary files with `export TMPDIR=...`.",
        ),
        "/usr/bin/ld: final link failed: No space left on device",
        words=(
            "No space left on device",
            "Disk quota exceeded",
            "final link failed: No space",
        ),
    ),
    Entry(
        "no-compiler",
        "No compiler is installed",
        r"(?:error: command ['\"](?P<program>[^'\"]*?(?:gcc|g\+\+|cc|c\+\+|clang(?:\+\+)?|nvcc|hipcc)(?:-\d+)?)['\"] "
        r"failed"
        r": No such file or directory"
        r"|(?:sh: \d+: |: )(?P<missing>[\w./+-]*(?:g\+\+|c\+\+|clang\+\+|gcc|nvcc|hipcc)(?:-\d+)?): (?:command )?not "
        r"found)",
        ("The build runs a compiler that is not installed or not on PATH.",),
        (
            "Install one with `apt-get install g++`, `dnf install gcc-c++` or `conda install -c conda-forge gxx`, or "
            "name "
            "another with `export CXX=clang++`; `opsmith doctor` shows what is installed.",
        ),
        "/bin/sh: 1: g++: not found",
        words=(
            "No such file or directory",
            "not found",
        ),
    ),
    Entry(
        "text-file-busy",
        "A program or library is overwritten while it runs",
        r"Text file busy",
        ("A file that a process executes was opened for writing, which Linux rejects.",),
        (
            "Stop the process (`fuser -v FILE` names it), and replace a library by renaming a new file over it, not "
            "by overwriting it.",
        ),
        "cp: cannot create regular file 'prog': Text file busy",
        words=("Text file busy",),
    ),
    Entry(
        "cannot-write",
        "The build cannot write to its cache",
        r"(?:Permission denied|Read-only file system)(?=: '(?P<place>[^'\n]*(?:torch_extensions|opsmith"
        r"|\.cache)[^'\n]*)')",
        ("The cache is in {place}, where you cannot write.",),
        (
            "Use a folder where you can write: `export OPSMITH_CACHE_DIR=/path` (opsmith) or `export "
            "TORCH_EXTENSIONS_DIR=/path` (torch).",
        ),
        "PermissionError: [Errno 13] Permission denied: '/root/.cache/torch_extensions/py311_cpu/demo/lock'",
        words=(
            "Permission denied",
            "Read-only file system",
        ),
    ),
)
