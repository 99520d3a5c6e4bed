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
        (
            "The disk or your quota is full, or the file system has no inodes left: that of the cache, of the "
            "temporary folder or of the library's folder.",
        ),
        (
            'Compare `df -h "${{TMPDIR:-/tmp}}" ~/.cache .` and, for inodes, `df -i` of the same folders; then free '
            "space, or move the cache with `export OPSMITH_CACHE_DIR=/path/on/another/disk` and the temporary files with "
            "`export TMPDIR=...`.",
        ),
        "/usr/bin/ld: final link failed: No space left on device",
        words=(
            "No space left on device",
            "Disk quota exceeded",
            "final link failed: No space",
        ),
    ),
    Entry(
        "nvcc-temporary-files",
        "nvcc cannot write its temporary files, or run the host compiler",
        r"nvcc fatal\s*: Could not open output file '(?P<file>[^'\n]*)'"
        r"|nvcc fatal\s*: Failed to preprocess (?P<what>host compiler properties)",
        (
            "nvcc cannot create {file}: the temporary folder does not exist, is full, has no inodes left or is not "
            "writable.",
            "nvcc could not preprocess the {what}: either the temporary folder is full, or the host compiler does not "
            "run and says why in the line above.",
        ),
        (
            'Look at `df -h "${{TMPDIR:-/tmp}}"` and `df -i "${{TMPDIR:-/tmp}}"`; use another folder with `export '
            "TMPDIR=/path/on/another/disk`.",
            "If the disk is not full, try the host compiler alone: `g++ -c file.cpp`.",
        ),
        "nvcc fatal   : Could not open output file '/tmp/tmpxft_0000015e_0000000a'",
        words=("nvcc fatal",),
    ),
    Entry(
        "open-files",
        "Too many files are open",
        r"Too many open files|cannot open shared object file: Error (?:23|24)\b",
        (
            "A process may not open another file: the limit of open files (RLIMIT_NOFILE) is reached. The file that "
            "the message names is not missing.",
        ),
        (
            "Raise the limit before you start Python: `ulimit -n 4096` (`ulimit -Hn` shows how far you may go). If the "
            "limit is not small, the program leaks descriptors: `ls -l /proc/PID/fd` shows which.",
        ),
        "/usr/bin/ld: cannot find -lm: Too many open files",
        words=(
            "Too many open files",
            "cannot open shared object file: Error ",
        ),
    ),
    Entry(
        "file-size-limit",
        "A file is larger than the limit allows",
        r"File size limit exceeded|File too large",
        (
            "A limit of the size of files (`ulimit -f`), or of the file system, is reached. An internal "
            "compiler error in the same line is its consequence.",
        ),
        ("Raise the limit in the shell or batch job that builds: `ulimit -f unlimited`.",),
        "g++: internal compiler error: File size limit exceeded signal terminated program cc1plus",
        words=(
            "File size limit exceeded",
            "File too large",
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
