// Measures the errors of math.h's float functions on the host against double, and holds them to the documented bounds.
//
// `math_test [STEP]` takes every STEP-th float; 1 takes all 2^32, in some minutes: that made the table in math.h.
#include <opsmith/math.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "check.h"

using namespace opsmith;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr int block = 4096;

// |got - exact| in units of the last place a float near `exact` has.
double error_in_ulp(float got, double exact) {
  if (std::isnan(exact)) return std::isnan(got) ? 0.0 : HUGE_VAL;
  const float rounded = static_cast<float>(exact);
  if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0.0 : HUGE_VAL;
  int exponent;
  std::frexp(exact, &exponent);
  return std::fabs(got - exact) * std::ldexp(1.0, 24 - (exponent < -125 ? -125 : exponent));
}

struct Worst {
  double error = 0;
  float at = 0;
  void add(double found, float x) {
    if (found > error) *this = {found, x};
  }
};

struct Exp {
  static constexpr const char* name = "exp";
  static constexpr double bound = 1.0;
  OPSMITH_HOST_DEVICE float operator()(float x) const { return math::exp(x); }
  static double exact(double x) { return std::exp(x); }
};
struct Expm1 {
  static constexpr const char* name = "expm1";
  static constexpr double bound = 1.5;
  OPSMITH_HOST_DEVICE float operator()(float x) const { return math::expm1(x); }
  static double exact(double x) { return std::expm1(x); }
};
struct Log {
  static constexpr const char* name = "log";
  static constexpr double bound = 1.0;
  OPSMITH_HOST_DEVICE float operator()(float x) const { return math::log(x); }
  static double exact(double x) { return std::log(x); }
};
struct Log1p {
  static constexpr const char* name = "log1p";
  static constexpr double bound = 1.6;
  OPSMITH_HOST_DEVICE float operator()(float x) const { return math::log1p(x); }
  static double exact(double x) { return std::log1p(x); }
};
struct Tanh {
  static constexpr const char* name = "tanh";
  static constexpr double bound = 2.55;
  OPSMITH_HOST_DEVICE float operator()(float x) const { return math::tanh(x); }
  static double exact(double x) { return std::tanh(x); }
};
struct Sigmoid {
  static constexpr const char* name = "sigmoid";
  static constexpr double bound = 2.45;
  OPSMITH_HOST_DEVICE float operator()(float x) const { return math::sigmoid(x); }
  static double exact(double x) { return 1.0 / (1.0 + std::exp(-x)); }
};
struct Elu {
  static constexpr const char* name = "elu";
  static constexpr double bound = 0.9;
  OPSMITH_HOST_DEVICE float operator()(float x) const { return math::elu(x); }
  static double exact(double x) { return x > 0 ? x : std::expm1(x); }
};

template <class F>
struct Loop {
  OPSMITH_HOST_DEVICE void operator()(int n, const float* __restrict__ x, float* __restrict__ y) const {
    for (int k = 0; k < n; ++k) y[k] = F{}(x[k]);
  }
};

template <class F>
void test_sweep(uint64_t step) {
  static float x[block], plain[block], best[block];
  Worst plain_worst, best_worst;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32;) {
    int n = 0;
    for (; n < block && bits < uint64_t{1} << 32; bits += step) x[n++] = bit_cast<float>(static_cast<uint32_t>(bits));
    Loop<F>{}(n, x, plain);
    with_best_isa(Loop<F>{}, n, x, best);
    for (int k = 0; k < n; ++k) {
      const double exact = F::exact(x[k]);
      plain_worst.add(error_in_ulp(plain[k], exact), x[k]);
      best_worst.add(error_in_ulp(best[k], exact), x[k]);
    }
  }
  std::printf("  %-8s %6.2f ulp at %-14a  best instruction set %6.2f ulp at %a\n", F::name, plain_worst.error,
              plain_worst.at, best_worst.error, best_worst.at);
  check(plain_worst.error <= F::bound && best_worst.error <= F::bound, "%s is further off than %g ulp", F::name,
        F::bound);
}

// The only function that is written here for double. The exact value is a long double's.
void test_sigmoid_in_double() {
  static double x[block], plain[block], best[block];
  const auto loop = [](int n, const double* __restrict__ x, double* __restrict__ y) {
    for (int k = 0; k < n; ++k) y[k] = math::sigmoid(x[k]);
  };
  double worst = 0;
  for (int part = 0; part < 200; ++part) {
    // From where the result is 0 to where it is 1, in steps that share no factor with what is rounded.
    for (int k = 0; k < block; ++k) x[k] = -750.0 + 800.0 * (k * 200 + part + 0.123) / (block * 200);
    loop(block, x, plain);
    with_best_isa(loop, block, x, best);
    for (int k = 0; k < block; ++k) {
      const long double e = expl(-std::fabs(static_cast<long double>(x[k])));
      const long double exact = (x[k] < 0 ? e : 1) / (1 + e);
      int exponent;
      std::frexp(exact, &exponent);
      const long double scale = std::ldexp(1.0L, 53 - (exponent < -1021 ? -1021 : exponent));
      for (const double got : {plain[k], best[k]}) {
        const double error = static_cast<double>(std::fabs(got - exact) * scale);
        if (!(error <= worst)) worst = error;
      }
    }
  }
  std::printf("  sigmoid in double %6.2f ulp\n", worst);
  check(worst <= 2.5, "sigmoid in double is further off than 2.5 ulp");
  const auto is = [](double x, double expected) {
    const double got = math::sigmoid(x);
    check(std::memcmp(&got, &expected, 8) == 0, "sigmoid(%g) is %g, expected %g", x, got, expected);
  };
  is(0.0, 0.5), is(-0.0, 0.5), is(HUGE_VAL, 1.0), is(-HUGE_VAL, 0.0), is(-1e300, 0.0), is(1e300, 1.0);
  is(-745.13, 0x1p-1074), is(-745.14, 0.0);
  check(std::isnan(math::sigmoid(std::nan(""))), "sigmoid of NaN in double is a number");
}

template <class F>
void test_value(float x, float expected) {
  const float got = F{}(x);
  check(std::memcmp(&got, &expected, 4) == 0, "%s(%g) is %g, expected %g", F::name, x, got, expected);
}

// Bit for bit, so that the signs of zeros count.
void test_special_values() {
  test_value<Exp>(0.0f, 1.0f);
  test_value<Exp>(-0.0f, 1.0f);
  test_value<Exp>(infinity, infinity);
  test_value<Exp>(-infinity, 0.0f);
  test_value<Exp>(88.7228394f, std::exp(88.7228394f));
  test_value<Exp>(88.7228470f, infinity);
  test_value<Exp>(-103.9720764f, 1e-45f);
  test_value<Exp>(-103.972084f, 0.0f);
  test_value<Expm1>(0.0f, 0.0f);
  test_value<Expm1>(-0.0f, -0.0f);
  test_value<Expm1>(1e-45f, 1e-45f);
  test_value<Expm1>(-1e-40f, -1e-40f);
  test_value<Expm1>(infinity, infinity);
  test_value<Expm1>(-infinity, -1.0f);
  test_value<Expm1>(88.7228470f, infinity);
  test_value<Log>(1.0f, 0.0f);
  test_value<Log>(0.0f, -infinity);
  test_value<Log>(-0.0f, -infinity);
  test_value<Log>(infinity, infinity);
  test_value<Log>(1e-45f, std::log(1e-45f));
  test_value<Log1p>(0.0f, 0.0f);
  test_value<Log1p>(-0.0f, -0.0f);
  test_value<Log1p>(-1e-40f, -1e-40f);
  test_value<Log1p>(1e-45f, 1e-45f);
  test_value<Log1p>(-1.0f, -infinity);
  test_value<Log1p>(infinity, infinity);
  test_value<Log1p>(3e38f, std::log(3e38f));
  test_value<Tanh>(0.0f, 0.0f);
  test_value<Tanh>(-0.0f, -0.0f);
  test_value<Tanh>(-1e-40f, -1e-40f);
  test_value<Tanh>(infinity, 1.0f);
  test_value<Tanh>(-infinity, -1.0f);
  test_value<Tanh>(3e38f, 1.0f);
  test_value<Sigmoid>(0.0f, 0.5f);
  test_value<Sigmoid>(-0.0f, 0.5f);
  test_value<Sigmoid>(infinity, 1.0f);
  test_value<Sigmoid>(-infinity, 0.0f);
  test_value<Sigmoid>(-3e38f, 0.0f);
  test_value<Elu>(0.0f, 0.0f);
  test_value<Elu>(-0.0f, -0.0f);
  test_value<Elu>(infinity, infinity);
  test_value<Elu>(-infinity, -1.0f);
}

}  // namespace

int main(int count, char** arguments) {
  const uint64_t step = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 1009;
  test_sweep<Exp>(step);
  test_sweep<Expm1>(step);
  test_sweep<Log>(step);
  test_sweep<Log1p>(step);
  test_sweep<Tanh>(step);
  test_sweep<Sigmoid>(step);
  test_sweep<Elu>(step);
  test_special_values();
  test_sigmoid_in_double();
  return report("math_test");
}
