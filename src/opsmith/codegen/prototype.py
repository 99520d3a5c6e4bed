"""Writes the prototype that a kernel must have for its definition, and a skeleton file to start from."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

from opsmith.codegen.cpp import SCALARS, comment, kernel_parameters
from opsmith.codegen.structs import struct_definition
from opsmith.spec.cpp_names import identifier
from opsmith.spec.cuda import cuda_prototype
from opsmith.spec.cute import cute_prototype
from opsmith.spec.definition import Definition, Device, Kernel
from opsmith.spec.signature import Kind, Parameter, Signature, Struct
from opsmith.spec.triton import triton_prototype

__all__ = ["find_prototype", "native_prototype", "prototype", "skeleton", "struct_definitions", "view_prototype"]

_COLUMNS = 120  # of a skeleton's lines; the .clang-format of `opsmith new` has as many


def prototype(definition: Definition, device: Device) -> str:
    """Return the declaration that the kernel of a definition for a device must have, on one line."""
    kernel = definition.kernels[device]
    if kernel.style == "triton":
        return triton_prototype(definition)
    if kernel.style == "nvrtc":
        return cuda_prototype(definition)
    if kernel.style == "cute":
        return cute_prototype(definition)
    if kernel.style == "native":
        return native_prototype(definition.signature, kernel)
    return view_prototype(definition.signature, kernel, device)


def struct_definitions(definitions: Iterable[Definition], device: Device) -> list[str]:
    """Return the structs that the kernels of some definitions take, each once."""
    found = [
        struct_definition(definition.signature, struct, definition.kernels[device])
        for definition in definitions
        for struct in definition.signature.structs
    ]
    return list(dict.fromkeys(found))


def view_prototype(signature: Signature, kernel: Kernel, device: Device) -> str:
    """Return a view kernel's declaration."""
    words = [f"{kind} {name}" for kind, name in kernel_parameters(signature, {"T": "T", "I": "I"})]
    if device == "cuda":
        words.append("Stream stream")
    template = (
        f"template <{', '.join(f'class {letter}' for letter in signature.letters)}> " if signature.letters else ""
    )
    return f"{template}void {kernel.entry}({', '.join(words)})"


def native_prototype(signature: Signature, kernel: Kernel) -> str:
    """Return a native kernel's declaration."""
    words = [f"{_native_type(parameter)} {identifier(parameter.name)}" for parameter in signature.declared]
    return f"{native_result(signature)} {kernel.entry}({', '.join(words)})"


def native_result(signature: Signature) -> str:
    """Return what a native kernel returns."""
    if not signature.outputs:
        return "void"
    if len(signature.outputs) == 1:
        return "Tensor"
    return f"std::tuple<{', '.join('Tensor' for _ in signature.outputs)}>"


_NATIVE_TENSORS = {
    Kind.TENSOR: "const Tensor&",
    Kind.OPTIONAL_TENSOR: "const std::optional<Tensor>&",
    Kind.TENSOR_LIST: "const std::vector<Tensor>&",
}


def _native_type(parameter: Parameter | Struct) -> str:
    if isinstance(parameter, Struct):
        return f"const {parameter.cpp_name}&"
    return _NATIVE_TENSORS.get(parameter.kind) or SCALARS[parameter.kind].native


def find_prototype(source: str, entry: str) -> tuple[int, str] | None:
    """Find where a source file declares a function: its line and its declaration on one line, as a person would read it.

    The name in it has its namespaces, as an entry is written. This only serves error messages; whether a kernel fits is
    decided by the compiler. Comments are blanked first.
    """
    name = entry.rpartition("::")[2]
    text = re.sub(r"//[^\n]*|/\*.*?\*/", lambda match: re.sub(r"[^\n]", " ", match.group()), source, flags=re.DOTALL)
    head = r"(?P<head>(template\s*<[^;{}]*?>\s*)?[\w:<>,&*\s]+?[\s&*>])"
    match = re.search(rf"{head}\b{re.escape(name)}\s*\((?P<args>[^;{{}}()]*)\)\s*\{{", text)
    if match is None:
        return None
    line = text.count("\n", 0, match.start("args")) + 1
    qualified = "".join(f"{namespace}::" for namespace in _namespaces_at(text, match.start("args"))) + name
    declaration = f"{match.group('head').strip()} {qualified}({match.group('args').strip()})"
    return line, re.sub(r"\s+", " ", declaration).replace("< ", "<").replace("( ", "(")


def _namespaces_at(text: str, position: int) -> list[str]:
    """Return the named namespaces that are open at a position of a source without comments, the outermost first."""
    open_: list[str] = []  # a name for each brace; "" for those of other things
    for match in re.finditer(
        r"(?P<inline>inline\s+)?\bnamespace\s+(?P<name>[\w:]+)\s*\{|(?P<brace>[{}])", text[:position]
    ):
        if match["brace"] != "}":
            # Names of an inline namespace are found without it.
            open_.append("" if match["inline"] else match["name"] or "")
        elif open_:
            open_.pop()
    return [name for name in open_ if name]


def skeleton(definitions: list[Definition], device: Device) -> str:
    """Return a source file with an empty kernel for each definition, ready to be filled in."""
    if definitions[0].kernels[device].style == "triton":
        return _triton_skeleton(definitions)
    if definitions[0].kernels[device].style == "nvrtc":
        return _cuda_skeleton(definitions)
    if definitions[0].kernels[device].style == "cute":
        return _cute_skeleton(definitions)
    native = any(definition.kernels[device].style == "native" for definition in definitions)
    lines = [f"#include <opsmith/{'native' if native else 'kernel'}.h>", "", "using namespace opsmith;", ""]
    defined: set[tuple[str, str]] = set()
    for definition in definitions:
        namespace, _, name = definition.kernels[device].entry.rpartition("::")
        declaration = prototype(definition, device).replace(f"{namespace}::{name}(", f"{name}(", 1)
        if namespace:
            lines += [f"namespace {namespace} {{", ""]
        for struct in struct_definitions([definition], device):
            if (namespace, struct) not in defined:
                defined.add((namespace, struct))
                lines += [struct, ""]
        if (first := definition.doc.strip().partition("\n")[0]) != "":
            lines.append(comment(first))
        template, separator, rest = declaration.partition("> void ")
        lines += [f"{template}>"] if separator else []
        lines += [*_head(f"void {rest}" if separator else declaration)]
        lines += [
            *textwrap.wrap(
                comment(definition.signature.schema),
                _COLUMNS,
                initial_indent="  ",
                subsequent_indent="  // ",
                break_on_hyphens=False,
            ),
            f'  fail("{definition.name} is not written yet");',
            "}",
            "",
        ]
        if namespace:
            lines += [f"}}  // namespace {namespace}", ""]
    return "\n".join(lines)


def _head(declaration: str) -> Iterator[str]:
    """Yield the first line of a function, or several with its parameters below one another, as clang-format has them."""
    line, _, rest = declaration.partition("(")
    line, column = f"{line}(", len(line) + 1
    for index, word in enumerate(re.split(r"(?<=,) (?![^<]*>)", f"{rest} {{")):
        if index == 0:
            line += word
        elif len(line) + 1 + len(word) <= _COLUMNS:
            line += f" {word}"
        else:
            yield line
            line = " " * column + word
    yield line


def _triton_skeleton(definitions: list[Definition]) -> str:
    lines = ["import triton", "import triton.language as tl"]
    for definition in definitions:
        lines += ["", "", "@triton.jit", f"{triton_prototype(definition)}:"]
        lines.append(f'    tl.static_assert(False, "{definition.name} is not written yet")')
    return "\n".join([*lines, ""])


def _cute_skeleton(definitions: list[Definition]) -> str:
    lines = ["import cuda.bindings.driver as cuda", "import cutlass", "from cutlass import cute"]
    for definition in definitions:
        lines += ["", "", "@cute.jit", f"{cute_prototype(definition)}:"]
        lines.append(f'    raise NotImplementedError("{definition.name} is not written yet")')
    return "\n".join([*lines, ""])


def _cuda_skeleton(definitions: list[Definition]) -> str:
    lines = ["#include <opsmith/types.h>", "", "using namespace opsmith;", ""]
    for definition in definitions:
        namespace = definition.kernels["cuda"].entry.rpartition("::")[0]
        head, _, rest = cuda_prototype(definition).partition("> __global__ ")
        lines += [f"namespace {namespace} {{", ""] if namespace else []
        lines += [f"{head}>", f"__global__ {rest} {{"]
        lines += [f'  static_assert(sizeof(Index) == 0, "{definition.name} is not written yet");', "}", ""]
        lines += [f"}}  // namespace {namespace}", ""] if namespace else []
    return "\n".join(lines)
