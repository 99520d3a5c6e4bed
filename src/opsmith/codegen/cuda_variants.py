"""Writes what a `__global__` function is compiled for, as the step that compiles it with NVRTC reads it."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator

from opsmith.codegen.instantiate import SIGNATURE_MARK
from opsmith.codegen.variants import Variants, make_variants
from opsmith.spec.cuda import INDEX, match_cuda_arguments, takes_index
from opsmith.spec.cuda_function import CudaFunction
from opsmith.spec.definition import Definition
from opsmith.spec.launch import Constant

__all__ = ["cuda_request_text", "find_cuda_variants"]

# Of the five specialisations, numbers of 32 bits and of 64.
_WIDTHS = (0, 0, 0, 1, 1)


def find_cuda_variants(definition: Definition, function: CudaFunction) -> Variants:
    """Return what a kernel is compiled for; raises SignatureError if it does not fit, or if that is too much."""
    arguments = match_cuda_arguments(definition, function)
    places = _WIDTHS if takes_index(function) else (0,) * len(_WIDTHS)
    return make_variants(definition, arguments, places, advice="as parameters in place of template parameters")


def cuda_request_text(variants: Variants, function: CudaFunction) -> str:
    """Return what the compile step (build/ahead/compile_kernels) reads: a line for each kernel.

    `declared` follows the user's file: what was read of the function, which is held against what the compiler sees of it.
    Messages about that are at the place `mark`.
    """
    definition = variants.definition
    kernel = definition.kernels["cuda"]
    head = {
        "operator": definition.name,
        "file": os.path.relpath(kernel.sources[0], definition.root),
        "flags": list(kernel.flags),
        "mark": f"{SIGNATURE_MARK}{definition.name}",
        "declared": _declared(definition, function),
    }
    lines = [json.dumps(line) for line in _kernels(variants, function)]
    return json.dumps(head)[:-1] + ',\n"kernels": [\n' + ",\n".join(lines) + "\n]}\n"


def _kernels(variants: Variants, function: CudaFunction) -> Iterator[dict[str, object]]:
    """Yield the C++ name of each kernel, and that of its type as it was read."""
    definition = variants.definition
    entry = f"::{definition.kernels['cuda'].entry.removeprefix('::')}"
    for dtypes, choice, config, special in itertools.product(
        variants.dtypes, variants.choices, variants.configs, variants.specialisations
    ):
        types = dict(zip(definition.signature.letters, (dtype.cpp for dtype in dtypes), strict=True))
        types[INDEX] = "int64_t" if special.is_wide else "int32_t"
        chosen = {argument.name: value for argument, value in zip(variants.choosing, choice, strict=True)}
        values = {name: _value(value) for name, value in {**dict(config.constants), **chosen}.items()}
        given = {**types, **values}
        names = [parameter.name for parameter in function.template]
        # A parameter whose name is a word of C++ has an underscore behind it.
        words = [given.get(name) or given[name.removesuffix("_")] for name in names]
        classes = [types[each.name] for each in function.template if each.type == "class"]
        yield {
            "name": f"{entry}{_template_arguments(words)}",
            "type": f"{_namespace(entry)}opsmith_declared{_template_arguments(classes)}",
        }


def _declared(definition: Definition, function: CudaFunction) -> str:
    """Return the declaration of `opsmith_declared`, the function's type as it was read, in the function's namespace."""
    classes = [f"class {each.name}" for each in function.template if each.type == "class"]
    head = f"template <{', '.join(classes)}> " if classes else ""
    namespace = definition.kernels["cuda"].entry.removeprefix("::").rpartition("::")[0]
    declared = f"{head}using opsmith_declared = void (*)({function.list});"
    return f"namespace {namespace} {{ {declared} }}" if namespace else declared


def _namespace(entry: str) -> str:
    return f"{entry.rpartition('::')[0]}::"


def _template_arguments(words: list[str]) -> str:
    return f"<{', '.join(words)}>" if words else ""


def _value(value: Constant | None) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
