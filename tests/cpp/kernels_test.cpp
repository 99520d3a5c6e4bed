// Tests of the CPU kernels of add2, sigmoid and lltm against the same formulas in double.
#include <opsmith/reduce.h>
#include <opsmith/two_results.h>
#include <add2/add2.cpp>
#include <lltm/gates.cpp>
#include <sigmoid/sigmoid.cpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <random>
#include <type_traits>
#include <vector>

#include "check.h"

namespace {

template <class T>
constexpr const char* type_name = "integer";
template <>
constexpr const char* type_name<float> = "float";
template <>
constexpr const char* type_name<double> = "double";
template <>
constexpr const char* type_name<float16> = "float16";
template <>
constexpr const char* type_name<bfloat16> = "bfloat16";

// The spacing of T's numbers around 1, and the smallest normal number, below which the spacing stays the same.
struct Precision {
  double epsilon;
  double smallest;
};
template <class T>
constexpr Precision precision = {std::numeric_limits<T>::epsilon(), static_cast<double>(std::numeric_limits<T>::min())};
template <>
constexpr Precision precision<float16> = {0x1p-10, 0x1p-14};
template <>
constexpr Precision precision<bfloat16> = {0x1p-7, 0x1p-126};

template <class T>
double to_double(T value) {
  return static_cast<double>(static_cast<compute_t<T>>(value));
}

// `got` rounds `exact` up to `ulps` units in the last place. `scale` is the size of the terms that a sum cancels.
template <class T>
void check_close(const char* what, T got, double exact, double ulps, double scale = 0) {
  const double value = to_double(got);
  if (std::isnan(exact)) return check(std::isnan(value), "%s<%s>: %g, expected NaN", what, type_name<T>, value);
  if (value == exact) return;
  const double size = std::fmax(std::fmax(std::fabs(exact), scale), precision<T>.smallest);
  check(std::fabs(value - exact) <= ulps * precision<T>.epsilon * size, "%s<%s>: %.9g, expected %.9g", what,
        type_name<T>, value, exact);
}

std::mt19937 generator(20261121);

// A matrix with any strides in a larger array, whose other elements must keep their value.
template <class T>
class Matrix {
 public:
  Matrix(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride, int64_t offset)
      : storage_(static_cast<size_t>(offset + rows * row_stride + columns * column_stride + 16), T(77)),
        view_{storage_.data() + offset, {rows, columns}, {row_stride, column_stride}} {}

  void fill(float spread) {
    std::normal_distribution<float> normal(0.0f, spread);
    for (int64_t row = 0; row < view_.size[0]; ++row) {
      for (int64_t column = 0; column < view_.size[1]; ++column) view_(row, column) = static_cast<T>(normal(generator));
    }
  }

  const View<T, 2>& view() const { return view_; }
  View<const T, 2> read() const { return view_; }
  View<T, 1> flat() const { return {view_.data, {view_.size[1]}, {view_.stride[1]}}; }
  View<const T, 1> read_flat() const { return flat(); }
  T& operator()(int64_t row, int64_t column) const { return view_(row, column); }

  // Overwrites the elements with the marker: then nothing else in the storage may differ from it.
  void check_surroundings(const char* what) {
    for (int64_t row = 0; row < view_.size[0]; ++row) {
      for (int64_t column = 0; column < view_.size[1]; ++column) view_(row, column) = T(77);
    }
    for (const T& element : storage_) check(to_double(element) == 77.0, "%s wrote outside its output", what);
  }

 private:
  std::vector<T> storage_;
  View<T, 2> view_;
};

double exact_sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

struct Same {
  template <class C>
  OPSMITH_HOST_DEVICE C operator()(C x) const {
    return x;
  }
};

struct SumAndDifference {
  template <class C>
  OPSMITH_HOST_DEVICE Two<C> operator()(C a, C b) const {
    return {a + b, a - b};
  }
};

template <class T>
void test_elementwise(int64_t n, int64_t stride, int64_t offset) {
  Matrix<T> a(1, n, 0, stride, offset), b(1, n, 0, 1, 0), out(1, n, 0, stride, offset + 1);
  a.fill(4.0f);
  b.fill(4.0f);
  add2<T>(a.read_flat(), b.read_flat(), out.flat());
  for (int64_t k = 0; k < n; ++k) check_close("add2", out(0, k), to_double(a(0, k)) + to_double(b(0, k)), 0.5);
  out.check_surroundings("add2");
  if constexpr (!std::is_integral_v<T>) {
    sigmoid<T>(a.read_flat(), out.flat());
    for (int64_t k = 0; k < n; ++k) check_close("sigmoid", out(0, k), exact_sigmoid(to_double(a(0, k))), 2.5);
    out.check_surroundings("sigmoid");
    sigmoid_backward<T>(b.read_flat(), a.read_flat(), out.flat());
    for (int64_t k = 0; k < n; ++k) {
      const double grad = to_double(b(0, k)), y = to_double(a(0, k));
      check_close("sigmoid_backward", out(0, k), grad * (1 - y) * y, 2.0);
    }
    out.check_surroundings("sigmoid_backward");
    Matrix<T> second(1, n, 0, 1, 1);
    elementwise(SumAndDifference{}, out.flat(), second.flat(), a.read_flat(), b.read_flat());
    for (int64_t k = 0; k < n; ++k) {
      const double left = to_double(a(0, k)), right = to_double(b(0, k));
      check_close("the first of two results", out(0, k), left + right, 0.5);
      check_close("the second of two results", second(0, k), left - right, 0.5);
    }
    out.check_surroundings("the first of two results");
    second.check_surroundings("the second of two results");
  }
}

void test_integers_wrap() {
  const int32_t a = std::numeric_limits<int32_t>::max(), b = 2;
  int32_t sum = 0;
  add2<int32_t>({&a, {1}, {1}}, {&b, {1}, {1}}, {&sum, {1}, {1}});
  check(sum == std::numeric_limits<int32_t>::min() + 1, "add2 wraps around");
}

// `column_stride` 1 is the fast path; a row stride of 0 is an expanded input, as gradients often are.
template <class T>
void test_lltm(int64_t rows, int64_t columns, int64_t column_stride, float spread) {
  const int64_t row = columns * column_stride + 3;
  Matrix<T> gates(rows, 3 * columns, 3 * row, column_stride, 1), cell(rows, columns, row, column_stride, 2);
  Matrix<T> grad_hidden(rows, columns, 0, 0, 0), grad_new_cell(rows, columns, row, column_stride, 0);
  Matrix<T> hidden(rows, columns, row, column_stride, 1), new_cell(rows, columns, row, column_stride, 0);
  Matrix<T> grad_gates(rows, 3 * columns, 3 * row, column_stride, 1), grad_cell(rows, columns, row, column_stride, 3);
  gates.fill(spread);
  cell.fill(1.0f);
  grad_hidden.fill(1.0f);
  grad_new_cell.fill(1.0f);
  lltm_gates<T>(gates.read(), cell.read(), hidden.view(), new_cell.view());
  lltm_gates_backward<T>(grad_hidden.read(), grad_new_cell.read(), gates.read(), new_cell.read(), grad_gates.view(),
                         grad_cell.view());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < columns; ++k) {
      const double i = to_double(gates(r, k)), o = to_double(gates(r, k + columns));
      const double c = to_double(gates(r, k + 2 * columns)), old = to_double(cell(r, k));
      const double elu = c > 0 ? c : std::expm1(c), si = exact_sigmoid(i), so = exact_sigmoid(o);
      const double next = old + elu * si;
      check_close("lltm new_cell", new_cell(r, k), next, 5, std::fabs(old) + std::fabs(elu * si));
      check_close("lltm hidden", hidden(r, k), std::tanh(next) * so, 8, so * (std::fabs(old) + std::fabs(elu * si)));

      // The backward kernel sees the rounded cell.
      const double t = std::tanh(to_double(new_cell(r, k)));
      const double from_hidden = to_double(grad_hidden(r, k)), from_cell = to_double(grad_new_cell(r, k));
      const double grad = from_hidden * so * (1 - t * t) + from_cell;
      const double scale = std::fabs(from_hidden) * so + std::fabs(from_cell);
      const double slope = c > 0 ? 1.0 : std::exp(c);
      check_close("lltm grad_cell", grad_cell(r, k), grad, 8, scale);
      check_close("lltm grad_i", grad_gates(r, k), grad * elu * si * exact_sigmoid(-i), 12,
                  scale * std::fabs(elu) * si * exact_sigmoid(-i));
      check_close("lltm grad_o", grad_gates(r, k + columns), from_hidden * t * so * exact_sigmoid(-o), 12);
      check_close("lltm grad_c", grad_gates(r, k + 2 * columns), grad * si * slope, 12, scale * si * slope);
    }
  }
  hidden.check_surroundings("lltm_gates");
  new_cell.check_surroundings("lltm_gates");
  grad_gates.check_surroundings("lltm_gates_backward");
  grad_cell.check_surroundings("lltm_gates_backward");
}

// One unit with the given candidate and gates; the gradients to come in are 10 each.
template <class T>
struct Unit {
  T gates[3];
  T cell = T(0.25f), hidden, new_cell, grad = T(10.0f), grad_gates[3], grad_cell;

  Unit(float i, float o, float c) : gates{T(i), T(o), T(c)} {
    lltm_gates<T>({gates, {1, 3}, {3, 1}}, one(cell), one(hidden), one(new_cell));
    lltm_gates_backward<T>(one(grad), one(grad), {gates, {1, 3}, {3, 1}}, one(new_cell), {grad_gates, {1, 3}, {3, 1}},
                           one(grad_cell));
  }
  static View<T, 2> one(T& element) { return {&element, {1, 1}, {1, 1}}; }
};

template <class T>
void test_lltm_extremes() {
  const float largest = std::is_same_v<T, float16> ? 65504.0f : 3e38f;
  for (const float i : {-largest, -200.0f, -1.0f, 0.0f, 200.0f, largest}) {
    for (const float o : {-largest, -200.0f, 0.0f, 200.0f, largest}) {
      for (const float c : {-largest, -89.0f, -0.0f, 0.0f, 89.0f, largest}) {
        const Unit<T> unit(i, o, c);
        for (const T value :
             {unit.hidden, unit.new_cell, unit.grad_gates[0], unit.grad_gates[1], unit.grad_gates[2], unit.grad_cell}) {
          check(!std::isnan(to_double(value)), "lltm<%s> at %g, %g, %g is NaN", type_name<T>, i, o, c);
        }
      }
    }
  }
  // elu's slope at 0 is 1, so with an open input gate the candidate's gradient is the cell's.
  const Unit<T> at_zero(200.0f, 0.0f, 0.0f);
  check(to_double(at_zero.grad_gates[2]) == to_double(at_zero.grad_cell), "elu's slope at 0 is 1");
  for (int gate = 0; gate < 3; ++gate) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Unit<T> unit(gate == 0 ? nan : 0.5f, gate == 1 ? nan : 0.5f, gate == 2 ? nan : 0.5f);
    check(std::isnan(to_double(unit.hidden)), "lltm<%s>: NaN in gate %d is lost", type_name<T>, gate);
    check(std::isnan(to_double(unit.grad_gates[gate])), "lltm<%s>: NaN in gate %d's gradient is lost", type_name<T>,
          gate);
  }
}

// One element alone, in a vector, at its end, and at the end of a chunk must give the same bits.
template <class T>
void test_position_does_not_matter() {
  const int64_t n = 100003;
  Matrix<T> x(1, n, 0, 1, 0), y(1, n, 0, 1, 0);
  x.fill(3.0f);
  sigmoid<T>(x.read_flat(), y.flat());
  for (int64_t k = 0; k < n; k += 17) {
    T alone;
    sigmoid<T>({&x(0, k), {1}, {1}}, {&alone, {1}, {1}});
    check(std::memcmp(&alone, &y(0, k), sizeof(T)) == 0, "sigmoid<%s> depends on the position", type_name<T>);
  }
}

// Powers of two and their negatives: every sum of them is exact, in whatever order.
void test_sums() {
  for (const int64_t n : {0, 1, 15, 512, 513, 100003, 40000000}) {
    std::vector<float> x(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) x[i] = i % 3 == 0 ? -0.5f : 1.0f;
    const double exact = static_cast<double>(n - (n + 2) / 3) - 0.5 * static_cast<double>((n + 2) / 3);
    float total = -1;
    sum_elementwise(Same{}, 1.0, View<float, 0>{&total, {1}, {1}}, View<const float, 1>{x.data(), {n}, {1}});
    check(total == static_cast<float>(exact), "sum_elementwise of %lld: %g, expected %g", static_cast<long long>(n),
          total, exact);
    if (n == 0) continue;
    sum_elementwise(Same{}, 4.0, View<float, 0>{&total, {1}, {1}}, View<const float, 1>{x.data(), {(n + 2) / 3}, {3}});
    check(total == static_cast<float>(-0.125 * static_cast<double>((n + 2) / 3)), "sum_elementwise of every third: %g",
          total);
  }
  int64_t covered = 0;
  std::mutex mutex;
  sum_parts(1234567, [&](int64_t begin, int64_t end) {
    const std::lock_guard<std::mutex> lock(mutex);
    check(begin % block_size == 0 && begin < end, "a part begins at %lld", static_cast<long long>(begin));
    covered += end - begin;
    return 0.0;
  });
  check(covered == 1234567, "parts cover %lld", static_cast<long long>(covered));
}

template <class T>
void test_type() {
  for (const int64_t n : {0, 1, 7, 64, 513, 2000}) {
    test_elementwise<T>(n, 1, 0);
    test_elementwise<T>(n, 1, 3);
    test_elementwise<T>(n, 3, 1);
  }
  test_elementwise<T>(100001, 1, 0);  // several threads
  if constexpr (!std::is_integral_v<T>) {
    for (const int64_t columns : {0, 1, 5, 128, 600}) {
      test_lltm<T>(3, columns, 1, 2.0f);
      test_lltm<T>(3, columns, 2, 2.0f);
      test_lltm<T>(0, columns, 1, 2.0f);
    }
    test_lltm<T>(200, 128, 1, 20.0f);  // several threads, saturated gates
    test_lltm_extremes<T>();
    test_position_does_not_matter<T>();
  }
}

}  // namespace

int main() {
  test_sums();
  test_type<float>();
  test_type<double>();
  test_type<float16>();
  test_type<bfloat16>();
  test_type<int32_t>();
  test_type<int64_t>();
  test_integers_wrap();
  return report("kernels_test");
}
