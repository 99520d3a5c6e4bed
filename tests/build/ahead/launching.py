"""Builds the launcher of a kernel compiled ahead beside a driver that only records, and calls it without a GPU."""

from __future__ import annotations

import ctypes
import functools
import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsmith.build.ninja import write_files
from opsmith.build.plan import INCLUDE_DIR
from opsmith.build.prepare import prepare
from opsmith.spec.definition import Definition, Group

HERE = Path(__file__).parent

# Calls a launcher's function with views made of numbers: address, sizes, strides.
_HARNESS = """
#include <opsmith/{header}.h>
#include <opsmith/kernel.h>

{includes}
namespace opsmith {{
namespace embedded {{ extern {type} {table}[{count}]; }}
namespace kernels {{ {declarations} }}
template <class T, int N>
View<T, N> made(const int64_t* numbers) {{
  View<T, N> view{{}};
  view.data = reinterpret_cast<T*>(numbers[0]);
  for (int dim = 0; dim < N; ++dim) view.size[dim] = numbers[1 + dim], view.stride[dim] = numbers[1 + N + dim];
  return view;
}}
}}

using namespace opsmith;

static char message[2048];

extern "C" {{
// The place in the table of a kernel's image, by its address and the kernel's name: several may share an image.
int place(unsigned long long data, int image, [[maybe_unused]] const char* name) {{
  for (int index = 0; index < {count}; ++index) {{
    [[maybe_unused]] const auto& found = embedded::{table}[index].images[image];
    if ({is_found}) return index;
  }}
  return -1;
}}
{calls}
}}
"""
_CALL = """
const char* call_{index}(const int64_t* numbers, void* stream) {{
  try {{
    kernels::{symbol}({values}, stream);
    return "";
  }} catch (const Error& error) {{
    std::snprintf(message, sizeof message, "%s", error.what());
    return message;
  }}
}}
"""


# How the harness knows an image: of a hosted one, the driver's handle is the address of its code.
_FOUND = "reinterpret_cast<unsigned long long>(found.data) == data && std::strcmp(found.name, name) == 0"
_HOSTED_FOUND = "reinterpret_cast<unsigned long long>(found.library) == data"


@dataclass(frozen=True)
class Launched:
    """What a launcher asked the driver for: the kernel as the compile step was told of it, and the numbers of the launch."""

    kernel: dict[str, Any]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    stream: int
    arguments: tuple[int, ...]
    records: str


class Launcher:
    """A definition's launcher with the driver that records; `parameters` are the views' C++ types, or a number's."""

    def __init__(
        self, definition: Definition, folder: Path, parameters: dict[str, list[str]], archs: str = "9.0"
    ) -> None:
        group = Group(definition.module, definition.file, (definition,))
        plan = prepare(group, ("cuda",), archs=archs, strict=True).plan
        write_files(plan, folder)
        for step in plan.steps:
            if step.output != "binding.cpp.o" and step.output != plan.library:
                subprocess.run(step.argv, cwd=folder, check=True)
        self.folder = folder
        self._style = definition.kernels["cuda"].style
        self.request = json.loads(plan.files[f"{definition.name}.{self._style}.json"])
        self.images = sum(word == "--image" for step in plan.steps for word in step.argv)
        self._symbols = list(parameters)
        self._is_hip = archs.startswith("gfx")
        self._library = self._link(definition, folder, parameters)
        self._library.place.argtypes = [ctypes.c_ulonglong, ctypes.c_int, ctypes.c_char_p]
        self.driver = load_hip() if self._is_hip else load_driver()
        self.extra = 2 if self._style == "triton" else 0  # pointers to scratch memory

    def call(self, symbol: str, numbers: list[int], *, stream: int = 0, arguments: int) -> Launched | str:
        """Call an instantiation; return what was launched, or the message of what was thrown. Earlier records go."""
        self.driver.fake_clear(arguments + self.extra)
        return self.call_again(symbol, numbers, stream=stream, arguments=arguments)

    def call_again(self, symbol: str, numbers: list[int], *, stream: int = 0, arguments: int) -> Launched | str:
        """Call as `call` does, and keep what was recorded and is to fail."""
        function = getattr(self._library, f"call_{self._symbols.index(symbol)}")
        function.restype = ctypes.c_char_p
        values = (ctypes.c_int64 * len(numbers))(*numbers)
        if text := function(values, ctypes.c_void_p(stream)).decode():
            return str(text)
        records = self.driver.fake_records().decode()
        launches = [line.split() for line in records.splitlines() if line.startswith("launch ")]
        if not launches:
            return ""
        words = launches[-1]
        name = records.rpartition("launched ")[2].split()[0]
        data, found = int(words[1]), -1
        for image in range(self.images):
            found = max(found, self._library.place(data, image, name.encode()))
        assert found >= 0
        given = tuple(map(int, words[words.index("arguments") + 1 :]))
        assert self._style != "triton" or given[arguments:] == (0,) * self.extra
        grid_x, grid_y, grid_z = map(int, words[3:6])
        block_x, block_y, block_z = map(int, words[7:10])
        return Launched(
            self.request["kernels"][found],
            (grid_x, grid_y, grid_z),
            (block_x, block_y, block_z),
            int(words[11]),
            int(words[13]),
            given if self._style == "cute" else given[:arguments],
            records,
        )

    def _link(self, definition: Definition, folder: Path, parameters: dict[str, list[str]]) -> ctypes.CDLL:
        table, count = f"{self._style}_{definition.name}", len(self.request["kernels"])
        declarations, calls = [], []
        for index, (symbol, kinds) in enumerate(parameters.items()):
            declarations.append(f"void {symbol}({', '.join([*kinds, 'void*'])});")
            values, at = [], 0
            for kind in kinds:
                if kind.startswith("View"):
                    inner = kind.partition("<")[2].removesuffix(">")
                    values.append(f"made<{inner}>(numbers + {at})")
                    at += 1 + 2 * int(inner.rpartition(",")[2])
                elif kind == "const char*":
                    values.append(f"reinterpret_cast<const char*>(numbers[{at}])")
                    at += 1
                else:
                    values.append(f"static_cast<{kind}>(numbers[{at}])")
                    at += 1
            calls.append(_CALL.format(index=index, symbol=symbol, values=", ".join(values)))
        text = _HARNESS.format(
            header="hosted" if self._style == "cute" else "embedded",
            type="HostedKernel" if self._style == "cute" else "const Kernel",
            is_found=_HOSTED_FOUND if self._style == "cute" else _FOUND,
            includes="#include <cstdio>\n#include <cstring>",
            table=table,
            count=count,
            declarations=" ".join(declarations),
            calls="".join(calls),
        )
        (folder / "harness.cpp").write_text(text)
        objects = [f"{definition.name}.launch.cpp.o", f"{definition.name}.{self._style}.json.o"]
        library = folder / "harness.so"
        define = ["-DOPSMITH_HIP"] if self._is_hip else []
        command = ["g++", "-std=c++17", "-shared", "-fPIC", *define, f"-I{INCLUDE_DIR}", "harness.cpp", *objects]
        subprocess.run([*command, "-o", str(library), "-ldl"], cwd=folder, check=True)
        return ctypes.CDLL(str(library))


@functools.cache
def load_driver() -> ctypes.CDLL:
    """Load the driver that records under CUDA's own name, which is then what every launcher of this process finds."""
    driver = _load("fake_driver.c", "libcuda.so.1")
    driver.fake_static_shared.argtypes = [ctypes.c_int]
    return driver


@functools.cache
def load_hip() -> ctypes.CDLL:
    """Load likewise the HIP runtime that records."""
    runtime = _load("fake_hip.c", "libamdhip64.so.7")
    runtime.fake_gpu.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int]
    return runtime


def _load(source: str, name: str) -> ctypes.CDLL:
    library = Path(tempfile.mkdtemp(prefix="opsmith-driver-")) / name
    command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", str(HERE / source), "-o", str(library)]
    subprocess.run(command, check=True)
    driver = ctypes.CDLL(str(library))
    shutil.rmtree(library.parent)
    driver.fake_records.restype = ctypes.c_char_p
    driver.fake_words.argtypes = [ctypes.c_int]
    driver.fake_fail.argtypes = [ctypes.c_char_p, ctypes.c_int]
    return driver
