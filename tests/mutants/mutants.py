"""The mutants: faults of the kinds that people make, each one replacement in a file of src/opsmith.

`before` stands exactly once in its file; test_mutants.py fails where a change to the source has moved it, and the row is
then rewritten, not dropped. `tests` are where the fault should show first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["MUTANTS", "ROOT", "Mutant", "mutated"]

ROOT = Path(__file__).parents[2]

Kind = Literal["comparison", "key", "guard", "stride", "lost error", "arithmetic", "order", "wrong value"]


@dataclass(frozen=True)
class Mutant:
    """One fault: in `file`, below src/opsmith, `before` becomes `after`."""

    name: str
    kind: Kind
    file: str
    before: str
    after: str
    tests: tuple[str, ...]


def mutated(mutant: Mutant) -> str:
    """Return the text of the mutant's file with the fault in it; raises ValueError where it does not apply."""
    text = (ROOT / "src" / "opsmith" / mutant.file).read_text()
    if (count := text.count(mutant.before)) != 1:
        raise ValueError(f"{mutant.name}: {mutant.before!r} stands {count} times in {mutant.file}")
    return text.replace(mutant.before, mutant.after)


_BUILD = ("tests/build", "tests/failure_modes", "tests/runtime/test_existing.py", "tests/toolchain")
_STORE, _RUNTIME = ("tests/store",), ("tests/runtime", "tests/compose")
_SPEC, _CODEGEN = ("tests/spec",), ("tests/codegen", "tests/runtime")
_CHECK, _BENCH = ("tests/subject", "tests/checker"), ("tests/benchmark",)

MUTANTS: tuple[Mutant, ...] = (
    # What a build is found by --------------------------------------------------------------------------------------
    Mutant(
        "key without flags",
        "key",
        "build/key.py",
        'inputs[f"command {step.output}"] = digest(*_portable_command(step.argv, plan.roots, toolchain))',
        'inputs[f"command {step.output}"] = digest(step.output)',
        _BUILD,
    ),
    Mutant(
        "key without compilers",
        "key",
        "build/key.py",
        'inputs[f"compiler {role}"] = digest(identity)',
        'inputs[f"compiler {role}"] = digest(role)',
        _BUILD,
    ),
    Mutant(
        "key without environment",
        "key",
        "build/key.py",
        'inputs["environment"] = digest(*variables)',
        'inputs["environment"] = digest("")',
        _BUILD,
    ),
    Mutant(
        "key without torch's version",
        "key",
        "build/key.py",
        'inputs["torch"] = digest(toolchain.torch.version, toolchain.torch.git_version)',
        'inputs["torch"] = digest("")',
        _BUILD,
    ),
    Mutant(
        "key without linked files",
        "key",
        "build/key.py",
        'inputs[f"linked {_portable(str(file), plan.roots)}"] = digest_file(file)',
        "pass",
        _BUILD,
    ),
    Mutant(
        "key parts run together",
        "key",
        "store/keys.py",
        'state.update(len(data).to_bytes(8, "big"))',
        "pass",
        _STORE,
    ),
    Mutant(
        "artefact key without headers",
        "key",
        "store/keys.py",
        "str(KEY_SCHEMA_VERSION), source, *_flat(headers))",
        "str(KEY_SCHEMA_VERSION), source)",
        _STORE,
    ),
    Mutant(
        "any header is current",
        "comparison",
        "store/index.py",
        "return all(digests.is_as_then(name, digest) for name, digest in record.headers.items())",
        "return all(digests.now(name) is not None for name in record.headers)",
        _STORE,
    ),
    Mutant(
        "fewest headers first",
        "order",
        "store/index.py",
        "key=lambda record: -len(record.headers)",
        "key=lambda record: len(record.headers)",
        _STORE,
    ),
    # The store -----------------------------------------------------------------------------------------------------
    Mutant(
        "the world may write",
        "guard",
        "store/safety.py",
        "if status.st_mode & stat.S_IWOTH:",
        "if status.st_mode & stat.S_IWOTH and False:",
        _STORE,
    ),
    Mutant(
        "a manifest leads elsewhere",
        "guard",
        "store/manifest.py",
        'path.is_absolute() or not path.parts or ".." in path.parts',
        "path.is_absolute() or not path.parts",
        _STORE,
    ),
    Mutant(
        "damage is published",
        "lost error",
        "store/artifact_store.py",
        "if damage is not None:",
        "if damage is not None and manifest is None:",
        _STORE,
    ),
    Mutant(
        "no folder is taken",
        "lost error",
        "store/artifact_store.py",
        "_TAKEN = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR})",
        "_TAKEN = frozenset({errno.ENOTDIR})",
        _STORE,
    ),
    Mutant(
        "edits during a build are missed",
        "comparison",
        "store/edits.py",
        "if status.st_ctime_ns >= earliest_ns:",
        "if status.st_ctime_ns < earliest_ns:",
        _STORE,
    ),
    Mutant(
        "a blank ends a file name",
        "comparison",
        "store/depfile.py",
        "if slashes % 2:",
        "if slashes % 2 and slashes > 2:",
        _STORE,
    ),
    # What a definition says ----------------------------------------------------------------------------------------
    Mutant(
        "a size that nothing determines",
        "lost error",
        "spec/sizes.py",
        "if missing := sorted(expression.names - known.keys()):",
        "if missing := sorted(expression.names - known.keys())[1:]:",
        _SPEC,
    ),
    Mutant(
        "groups are not compared",
        "guard",
        "spec/sizes.py",
        "yield (CheckGroup if group in groups else BindGroup)(parameter, index, group)",
        "yield BindGroup(parameter, index, group)",
        _SPEC,
    ),
    Mutant(
        "a local size leaks",
        "guard",
        "spec/sizes.py",
        "if clash := sorted(local & elsewhere):",
        "if clash := sorted(local & elsewhere)[1:]:",
        _SPEC,
    ),
    # Bindings ------------------------------------------------------------------------------------------------------
    Mutant(
        "ranks are not checked",
        "guard",
        "codegen/checks.py",
        "return f\"{text}.rank {'<' if variadic else '!='} {rank}\", refusal",
        'return f"{text}.rank < {rank}", refusal',
        _CODEGEN,
    ),
    Mutant(
        "negative outputs are allocated",
        "guard",
        "codegen/checks.py",
        "size < 0) {refusal}",
        "size < -1) {refusal}",
        _CODEGEN,
    ),
    Mutant(
        "devices are not compared",
        "guard",
        "codegen/checks.py",
        'return f"{text}.device != device_id"',
        'return "false"',
        _CODEGEN,
    ),
    Mutant(
        "a remainder is dropped",
        "arithmetic",
        "include/opsmith/checks.h",
        "scale == 0 || rest % scale != 0 ||",
        "scale == 0 ||",
        _CODEGEN,
    ),
    Mutant(
        "an expanded output is written",
        "guard",
        "include/opsmith/checks.h",
        "if (tensor.strides[dim] == 0 && tensor.sizes[dim] > 1) return true;",
        "if (tensor.strides[dim] == 0 && tensor.sizes[dim] < 1) return true;",
        _CODEGEN,
    ),
    Mutant(
        "gaps count as dense",
        "stride",
        "include/opsmith/layout.h",
        "if (tensor.strides[order[index]] != next) return false;",
        "if (tensor.strides[order[index]] < next) return false;",
        ("tests/runtime", "tests/cpp", "tests/ops"),
    ),
    Mutant(
        "different layouts count as equal",
        "stride",
        "include/opsmith/layout.h",
        "if (a.sizes[dim] != 1 && a.strides[dim] != b.strides[dim]) return false;",
        "if (a.sizes[dim] == 1 && a.strides[dim] != b.strides[dim]) return false;",
        ("tests/runtime", "tests/ops"),
    ),
    Mutant(
        "a group is merged across a gap",
        "stride",
        "include/opsmith/layout.h",
        "if (expected >= 0 && tensor.strides[dim] != expected) return tensor.make_contiguous();",
        "if (expected >= 0 && tensor.strides[dim] < expected) return tensor.make_contiguous();",
        ("tests/runtime", "tests/ops"),
    ),
    Mutant(
        "a contiguous copy is not written back",
        "guard",
        "include/opsmith/layout.h",
        "if (original_ != nullptr && aoti_torch_copy_(original_, handle_, 0) != 0) {",
        "if (original_ == nullptr && aoti_torch_copy_(original_, handle_, 0) != 0) {",
        _RUNTIME,
    ),
    # Calls in Python -----------------------------------------------------------------------------------------------
    Mutant(
        "the fake kernel takes any size",
        "comparison",
        "runtime/arguments.py",
        "if not _holds(tensor.shape[axis] == expected):",
        "if not _holds(tensor.shape[axis] >= expected):",
        _RUNTIME,
    ),
    Mutant(
        "any rank above is taken",
        "comparison",
        "runtime/arguments.py",
        "if found < expected if variadic else found != expected:",
        "if found < expected:",
        _RUNTIME,
    ),
    Mutant(
        "element types are mixed",
        "guard",
        "runtime/arguments.py",
        "if tensor.dtype != dtype:",
        "if tensor.dtype != dtype and not tensor.is_floating_point():",
        _RUNTIME,
    ),
    Mutant(
        "fake strides in the wrong order",
        "stride",
        "runtime/outputs.py",
        "return tuple(first.stride())",
        "return tuple(sorted(first.stride()))",
        _RUNTIME,
    ),
    Mutant(
        "a body's size is not looked at",
        "guard",
        "runtime/body_results.py",
        "if found != sizes and all(",
        "if len(found) != len(sizes) and all(",
        _RUNTIME,
    ),
    # Gradients -----------------------------------------------------------------------------------------------------
    Mutant(
        "a body's gradient replaces another",
        "arithmetic",
        "bridge/node.h",
        "if (found[slot].defined()) sum = sum.defined() ? sum + found[slot] : found[slot];",
        "if (found[slot].defined()) sum = found[slot];",
        _RUNTIME,
    ),
    Mutant(
        "unneeded gradients are asked for",
        "guard",
        "bridge/node.h",
        "return tensor >= 0 && is_wanted(tensor);",
        "return tensor >= 0;",
        _RUNTIME,
    ),
    Mutant(
        "versions are not counted",
        "guard",
        "runtime/python_gradient.py",
        "for index in plan.mutated:",
        "for index in plan.mutated[1:]:",
        _RUNTIME,
    ),
    Mutant(
        "a refusal of gradients is lost",
        "lost error",
        "runtime/python_gradient.py",
        "if plan.refusal:",
        "if plan.refusal and tangents:",
        _RUNTIME,
    ),
    # The check -----------------------------------------------------------------------------------------------------
    Mutant(
        "tolerances ten times as wide",
        "wrong value",
        "subject/tolerance.py",
        "OF_RESULT = {torch.float64: 64.0, torch.float32: 16.0, torch.float16: 2.0, torch.bfloat16: 2.0}",
        "OF_RESULT = {torch.float64: 640.0, torch.float32: 160.0, torch.float16: 20.0, torch.bfloat16: 20.0}",
        _CHECK,
    ),
    Mutant(
        "NaN is always right",
        "comparison",
        "subject/disagreement.py",
        "| (got.isnan() & want.isnan())",
        "| got.isnan()",
        _CHECK,
    ),
    Mutant(
        "a count of results is not compared",
        "lost error",
        "subject/disagreement.py",
        "if len(found) != len(expected.values):",
        "if len(found) < len(expected.values):",
        _CHECK,
    ),
    Mutant(
        "a signal counts as an end",
        "lost error",
        "checker/process/child.py",
        "if os.WIFSIGNALED(status):",
        "if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSEGV:",
        _CHECK,
    ),
    # The bench -----------------------------------------------------------------------------------------------------
    Mutant(
        "noise makes a difference",
        "comparison",
        "benchmark/statistics.py",
        "if ratio.low > 1 + band:",
        "if ratio.low > 1 - band:",
        _BENCH,
    ),
    Mutant(
        "ratios upside down",
        "arithmetic",
        "benchmark/statistics.py",
        "return median_interval([other / own for own, other in zip(ours, theirs, strict=True)], seed=seed)",
        "return median_interval([own / other for own, other in zip(ours, theirs, strict=True)], seed=seed)",
        _BENCH,
    ),
)
