"""Whatever the dispatcher hands to a binding is freed once: after a call, after a refusal, and when a kernel throws."""

from __future__ import annotations

import importlib
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

pytestmark = pytest.mark.compile

MODULE = """
from jaxtyping import Float
from torch import Tensor
import opsmith

def body(x, levels, w, mode, pads, scales, count, limit, on):
    return x + sum(levels) + (0 if w is None else w)

@opsmith.op(cpu="every.cpp", contiguous=("x", "levels"), dtypes={"T": (__import__("torch").float32,)})
def every_view(
    x: Float[Tensor, "A B"], levels: list[Float[Tensor, "A B"]], w: Float[Tensor, "A B"] | None, mode: str,
    pads: list[int], scales: list[float], count: int | None, limit: float | None, on: bool | None,
) -> Float[Tensor, "A B"]:
    return body(x, levels, w, mode, pads, scales, count, limit, on)

@opsmith.op(cpu="twice.cpp")
def twice(x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    return x * 2

@opsmith.op(cpu=opsmith.native("every_native.cpp"))
def every_native(
    x: Float[Tensor, "A B"], levels: list[Float[Tensor, "A B"]], w: Float[Tensor, "A B"] | None, mode: str,
    pads: list[int], scales: list[float], count: int | None, limit: float | None, on: bool | None,
) -> Float[Tensor, "A B"]:
    return body(x, levels, w, mode, pads, scales, count, limit, on)
"""
VIEW = """
#include <opsmith/kernel.h>
using namespace opsmith;

template <class T>
void every_view(View<const T, 2> x, ViewList<const T, 2> levels, View<const T, 2> w, const char* mode,
                List<int64_t> pads, List<double> scales, Optional<int64_t> count, Optional<double> limit,
                Optional<bool> on, View<T, 2> out) {
  if (mode[0] == '!') fail("told to fail, with ", pads.size, " pads and ", scales.size, " scales");
  if (count.value_or(7) != 7 || limit.value_or(0.5) != 0.5 || !on.value_or(true)) fail("an optional came wrong");
  for (int64_t i = 0; i < pads.size; ++i) {
    if (pads[i] != i || scales[i] != i / 2.0) fail("a list came wrong at ", i);
  }
  for (int64_t a = 0; a < x.size[0]; ++a) {
    for (int64_t b = 0; b < x.size[1]; ++b) {
      T sum = x(a, b) + (w ? w(a, b) : 0);
      for (const auto& level : levels) sum += level(a, b);
      out(a, b) = sum;
    }
  }
}
"""
TWICE = """
#include <opsmith/kernel.h>
using namespace opsmith;

template <class T>
void twice(View<const T, 1> x, View<T, 1> out) {
  for (int64_t i = 0; i < x.size[0]; ++i) out(i) = static_cast<T>(2 * static_cast<compute_t<T>>(x(i)));
}
"""
NATIVE = """
#include <opsmith/native.h>
using namespace opsmith;

Tensor every_native(const Tensor& x, const std::vector<Tensor>& levels, const std::optional<Tensor>& w,
                    const std::string& mode, const std::vector<int64_t>& pads, const std::vector<double>& scales,
                    std::optional<int64_t> count, std::optional<double> limit, std::optional<bool> on) {
  if (mode[0] == '!') fail("told to fail, with ", pads.size(), " pads and ", scales.size(), " scales");
  if (count.value_or(7) != 7 || limit.value_or(0.5) != 0.5 || !on.value_or(true)) fail("an optional came wrong");
  for (size_t i = 0; i < pads.size(); ++i) {
    if (pads[i] != static_cast<int64_t>(i) || scales[i] != i / 2.0) fail("a list came wrong at ", i);
  }
  Tensor out = empty_like(x, {x.size(0), x.size(1)});
  const auto sum = view<float, 2>(out);
  for (int64_t a = 0; a < x.size(0); ++a) {
    for (int64_t b = 0; b < x.size(1); ++b) {
      sum(a, b) = view<const float, 2>(x)(a, b) + (w ? view<const float, 2>(*w)(a, b) : 0);
      for (const auto& level : levels) sum(a, b) += view<const float, 2>(level)(a, b);
    }
  }
  return out;
}
"""


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """A module with an operator of every kind of argument, for each style of kernel."""
    folder = tmp_path_factory.mktemp("ownership")
    for name, text in {
        "every_kind.py": MODULE,
        "every.cpp": VIEW,
        "twice.cpp": TWICE,
        "every_native.cpp": NATIVE,
    }.items():
        Path(folder, name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield importlib.import_module("every_kind")
        del sys.modules["every_kind"]


@pytest.fixture(params=["every_view", "every_native"])
def operator(request: pytest.FixtureRequest, every: ModuleType) -> Any:
    return getattr(every, request.param)


def arguments(length: int = 3, **changes: Any) -> dict[str, Any]:
    """Return arguments that fit, some of them changed; `length` is that of the lists of tensors and of numbers."""
    given: dict[str, Any] = {
        "x": torch.randn(2, 3),
        "levels": [torch.randn(3, 2).t() for _ in range(length)],
        "w": torch.randn(2, 3),
        "mode": "mean",
        "pads": list(range(length)),
        "scales": [index / 2 for index in range(length)],
        "count": 7,
        "limit": 0.5,
        "on": True,
    }
    return given | changes


def tensors(given: dict[str, Any]) -> list[Tensor]:
    return [given["x"], *given["levels"], *([] if given["w"] is None else [given["w"]])]


@pytest.mark.parametrize("length", [0, 1, 8, 9, 40])
@pytest.mark.parametrize("absent", [False, True])
def test_every_kind_of_argument_arrives(operator: Any, length: int, absent: bool) -> None:
    changes = dict.fromkeys(("w", "count", "limit", "on")) if absent else {}
    given = arguments(length, **changes)
    torch.testing.assert_close(operator(**given), operator.reference(**given))


FAILURES = {
    "fits": ({}, None),
    "a kernel throws": ({"mode": "!"}, "told to fail, with 3 pads and 3 scales"),
    "a size": ({"w": torch.randn(2, 4)}, "w has size 4 in dimension 1, expected B = 3"),
    "a rank": ({"levels": [torch.randn(2, 3), torch.randn(3)]}, "levels has 1 dimension, expected 2"),
    "an element type": ({"w": torch.randn(2, 3).double()}, "w is float64, expected float32 as x"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_tensors_are_given_back(operator: Any, case: str) -> None:
    changes, words = FAILURES[case]
    given = arguments(**changes)
    before = [tensor._use_count() for tensor in tensors(given)]
    call = operator.torch_op  # not through the explanation of errors, which is in Python
    for _ in range(3):
        if words is None:
            result = call(*given.values())
            assert result._use_count() == 1
        else:
            with pytest.raises(RuntimeError, match=words):
                call(*given.values())
    assert [tensor._use_count() for tensor in tensors(given)] == before


def test_more_than_64_dimensions_are_refused(every: ModuleType) -> None:
    most = torch.ones((2, *[1] * 63))
    torch.testing.assert_close(every.twice(most), most * 2)
    with pytest.raises(RuntimeError, match="a tensor has more than 64 dimensions"):
        every.twice(torch.ones((2, *[1] * 64)))


@pytest.mark.parametrize("mode", ["m", "!"])
def test_texts_and_lists_are_freed(operator: Any, mode: str) -> None:
    given = arguments(0, mode=mode * 1_000_000)
    call = operator.torch_op

    def grown_after(times: int) -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(times):
            try:
                call(*given.values())
            except RuntimeError:
                assert mode == "!"
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024

    grown_after(5)
    assert grown_after(100) < 40  # MiB; each leak of a text would be 95

    given = arguments(0, mode=mode, pads=list(range(20_000)), scales=[index / 2 for index in range(20_000)])
    grown_after(5)
    assert grown_after(200) < 30  # MiB; each leak of a list would be 30
