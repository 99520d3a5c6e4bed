"""Each kind of mutation finds its places, applies to them, and makes something that compiles."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from opsmith.checker.mutate.kinds import KINDS
from opsmith.checker.mutate.mutants import find_mutants, sampled
from opsmith.spec.definition import Kernel
from opsmith.toolchain import find_toolchain

# It has a place for each kind, needs no header, and compiles.
SOURCE = """
using int64_t = long;
namespace opsmith {
template <class T> using compute_t = double;
template <class T, int n>
struct View {
  T* data; int64_t size[n]; int64_t stride[n];
  T& operator()(int64_t i, int64_t j) const { return data[i * stride[0] + j * stride[1]]; }
};
template <class F> void parallel_for(int64_t, int64_t, int64_t, const F&) {}
double log1p(double); double log(double); double abs(double);
template <class T> T min(T a, T b) { return a < b ? a : b; }
template <class T> T max(T a, T b) { return a > b ? a : b; }
void atomic_add(double*, double); void flush(); double mix(double, double);
}
using namespace opsmith;
template <class T>
void kernel(View<const T, 2> x, double a, double b, View<T, 2> y, double* sums) {
  parallel_for(0, x.size[0], 1 + 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      compute_t<T> sum = 0;
      for (int64_t j = 0; j < x.size[1]; ++j) {
        if (x(i, j) > 0.5 && !(a == 0)) sum += opsmith::log1p(x(i, j)) - min(a, b);
        y(i, j) = T(-mix(a, b) / (sum * 2));
      }
      atomic_add(&sums[i * y.stride[0]], sum);
      flush();
    }
  });
}
"""
KERNEL = Kernel("view", (Path("k.cpp"),), "kernel")


def edits(source: str) -> set[tuple[str, str, str]]:
    found = find_mutants([KERNEL], {Path("k.cpp"): source}, [Path("k.cpp")])
    return {(mutant.kind, source[mutant.start : mutant.end], mutant.after) for mutant in found}


EXPECTED = {
    ("bound", "0", "1"),
    ("bound", "<", "<="),
    ("bound", "begin", "begin + 1"),
    ("bound", "x.size[1]", "(x.size[1]) - 1"),
    ("comparison", ">", ">="),
    ("comparison", ">", "<="),
    ("comparison", "==", "!="),
    ("arithmetic", "-", "+"),
    ("arithmetic", "*", "/"),
    ("arithmetic", "/", "*"),
    ("arithmetic", "+=", "-="),
    ("sign", "!", ""),
    ("sign", "-", ""),
    ("logic", "&&", "||"),
    ("constant", "0.5", "0.505"),
    ("constant", "2", "3"),
    ("guard", "x(i, j) > 0.5 && !(a == 0)", "true"),
    ("guard", "x(i, j) > 0.5 && !(a == 0)", "false"),
    ("type", "compute_t<T>", "T"),
    ("type", "int64_t", "int16_t"),
    ("extreme", "min", "max"),
    ("assignment", "sum += opsmith::log1p(x(i, j)) - min(a, b)", ""),
    ("assignment", "y(i, j) = T(-mix(a, b) / (sum * 2))", ""),
    ("call", "flush()", ""),
    ("index", "i, j", "j, i"),
    ("argument", "a, b", "b, a"),
    ("function", "opsmith::log1p(x(i, j))", "opsmith::log(1 + (x(i, j)))"),
    ("stride", "y.stride[0]", "1"),
    ("stride", "stride", "size"),
    ("atomic", "atomic_add(&sums[i * y.stride[0]], sum)", "*(&sums[i * y.stride[0]]) += sum"),
}


def test_each_kind_finds_its_places():
    assert edits(SOURCE) >= EXPECTED
    assert {kind for kind, _, _ in EXPECTED} == {kind.name for kind in KINDS}


def test_what_decides_no_result_is_left_alone():
    found = edits(SOURCE)
    assert not [edit for edit in found if "4096" in edit[1]]
    outside = {Path("k.cpp"): "constexpr int n = 1 + 2;" + SOURCE}
    assert not [mutant for mutant in find_mutants([KERNEL], outside, list(outside)) if mutant.line == 1]
    grain = SOURCE.replace("1 + 4096", "grain").replace(
        "  parallel_for(", "  const int64_t grain = 1 + 4096;\n  parallel_for("
    )
    assert not [edit for edit in edits(grain) if "4096" in edit[1]]


def test_a_choice_of_the_larger_has_no_other_bound():
    source = "void kernel(double a, double b, double* y) { *y = a < b ? a : b; if (a < b) *y = 0; }"
    comparisons = [
        edit for edit in find_mutants([KERNEL], {Path("k.cpp"): source}, [Path("k.cpp")]) if edit.kind == "comparison"
    ]
    assert [(edit.start < source.index("if"), edit.after) for edit in comparisons] == [
        (True, ">="),
        (False, "<="),
        (False, ">="),
    ]


def test_pragmas_of_atomics_are_dropped():
    source = "void kernel(double* y) {\n#pragma omp atomic\n  *y += 1;\n#pragma omp parallel\n  *y = 2;\n}"
    assert ("atomic", "#pragma omp atomic", "") in edits(source)
    assert not [edit for edit in edits(source) if "parallel" in edit[1]]


def test_no_mutant_is_there_twice_or_changes_nothing():
    mutants = find_mutants([KERNEL], {Path("k.cpp"): SOURCE}, [Path("k.cpp")])
    results = [mutant.applied(SOURCE) for mutant in mutants]
    assert SOURCE not in results
    assert len({(mutant.start, mutant.end, mutant.after) for mutant in mutants}) == len(mutants)


def test_a_line_is_shown_before_and_after():
    (mutant,) = [
        one for one in find_mutants([KERNEL], {Path("k.cpp"): SOURCE}, [Path("k.cpp")]) if one.kind == "extreme"
    ]
    assert mutant.before_line.strip() == "if (x(i, j) > 0.5 && !(a == 0)) sum += opsmith::log1p(x(i, j)) - min(a, b);"
    assert mutant.after_line == mutant.before_line.replace("min(", "max(")
    assert SOURCE.splitlines()[mutant.line - 1] == mutant.before_line


def test_a_sample_has_every_kind_and_is_the_same_for_a_seed():
    mutants = find_mutants([KERNEL], {Path("k.cpp"): SOURCE}, [Path("k.cpp")])
    sample = sampled(mutants, len(KINDS), seed=1)
    assert {mutant.kind for mutant in sample} == {kind.name for kind in KINDS}
    assert sample == sampled(mutants, len(KINDS), seed=1)
    assert sample != sampled(mutants, len(KINDS), seed=2)
    assert sampled(mutants, None, seed=1) == mutants


@pytest.mark.compile
def test_each_kind_makes_something_that_compiles(tmp_path: Path):
    mutants = find_mutants([KERNEL], {Path("k.cpp"): SOURCE}, [Path("k.cpp")])
    chosen = sampled(mutants, len(KINDS), seed=0)
    assert {mutant.kind for mutant in chosen} == {kind.name for kind in KINDS}
    calls = "template void kernel<float>(View<const float, 2>, double, double, View<float, 2>, double*);\n"
    parts = ["using int16_t = short;\n"]
    for number, mutant in enumerate(chosen):
        text = mutant.applied(SOURCE).replace("using namespace opsmith;", f"using namespace m{number}::opsmith;")
        parts.append(f"namespace m{number} {{\n{text}{calls}}}\n")
    file = tmp_path / "all.cpp"
    file.write_text("".join(parts))
    compiler = find_toolchain(cuda=False, rocm=False).host.command
    done = subprocess.run([*compiler, "-std=c++20", "-fsyntax-only", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
