"""The declaration of a `__global__` function is read from its file, however it is written."""

from __future__ import annotations

import pytest

from opsmith.spec.cuda_function import CudaFunction, CudaParameter, find_cuda_function


def _find(text: str, name: str = "scale") -> CudaFunction:
    found = find_cuda_function(text, name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("declared", "type_", "name"),
    [
        ("const T* x", "const T*", "x"),
        ("T const *x", "const T*", "x"),
        ("const T* __restrict__ x", "const T*", "x"),
        ("T *const __restrict x", "T*", "x"),
        ("const opsmith::float16 *x", "const float16*", "x"),
        ("::opsmith::bfloat16* x", "bfloat16*", "x"),
        ("std::int64_t n", "int64_t", "n"),
        ("const unsigned long long n", "unsigned long long", "n"),
        ("opsmith::compute_t<T> f", "compute_t<T>", "f"),
        ("mine::half* x", "mine::half*", "x"),
        ("const __grid_constant__ int n", "int", "n"),
        ("int n = 3", "int", "n"),
        ("T** x", "T**", "x"),
        ("const T& x", "T&", "x"),
        ("int", "int", ""),
    ],
)
def test_parameters(declared: str, type_: str, name: str) -> None:
    found = _find(f"template <class T> __global__ void scale({declared}) {{}}")
    assert found.parameters == (CudaParameter(name, type_),)


@pytest.mark.parametrize(
    "head",
    [
        "template <class T, int BLOCK>\n__global__ void ",
        "template<typename T,int BLOCK = (1 << 3)> static __global__ void\n",
        "template <class T, int BLOCK> __global__ __launch_bounds__(BLOCK, (2 > 1) ? 1 : 2) void ",
        "template <class T, int BLOCK> __global__ void __launch_bounds__(256) ",
        'template <class T, int BLOCK> __global__ [[deprecated("x")]] void ',
        "template <class T> struct Other { T x; };\ntemplate <class T, int BLOCK> // a comment\n__global__ void ",
    ],
)
def test_heads(head: str) -> None:
    found = _find(f"{head}scale(const T* x, int n) {{}}")
    assert found.template == (CudaParameter("T", "class"), CudaParameter("BLOCK", "int"))
    assert [parameter.name for parameter in found.parameters] == ["x", "n"]


def test_the_function_of_the_name_among_others() -> None:
    text = """
    /* __global__ void scale(int wrong); */
    // __global__ void scale(int wrong)
    constexpr const char* text = "__global__ void scale(int wrong)";
    constexpr int large = 1'000'000;
    template <class T> __device__ T scale(T x) { return x; }
    template <class T> __global__ void scaled(T* x) {}
    namespace inner {
    __global__ void scale(float* y, int n) { scaled<float>(y); }
    }
    """
    for name in ("scale", "inner::scale"):
        found = _find(text, name)
        assert found.template == ()
        assert found.line == 9
        assert found.declaration == "__global__ void scale(float* y, int n)"
    assert find_cuda_function(text, "missing") is None
    assert find_cuda_function("__global__ void scale(", "scale") is None
