// Tests of kernel.h: conversions of 16-bit types, views, lists, error texts, parallel_for.
//
// `header_test conversions FILE` writes the results of all conversions instead, for comparison with PyTorch's.
#include <opsmith/block.h>

#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

#include "check.h"

using namespace opsmith;

namespace {

// The value of a 16-bit pattern by definition: sign, exponent, mantissa.
double value_of(uint16_t bits, int mantissa_bits, int bias) {
  const int exponent_bits = 15 - mantissa_bits;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = bits >> 15 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) return mantissa ? NAN : sign * INFINITY;
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  return sign * (exponent ? std::ldexp(1.0 + fraction, exponent - bias) : std::ldexp(fraction, 1 - bias));
}

template <class T>
T from_bits(int bits) {
  T value;
  value.bits = static_cast<uint16_t>(bits);
  return value;
}

// The neighbours of every tie, every value itself, and the same with the sign: rounding to nearest even by definition.
template <class T>
void test_conversions(const char* name, int mantissa_bits, int bias, uint16_t infinity) {
  for (int bits = 0; bits < 65536; ++bits) {
    const T stored = from_bits<T>(bits);
    const double exact = value_of(stored.bits, mantissa_bits, bias);
    const float widened = stored;
    const bool nan = std::isnan(exact);
    check(nan ? std::isnan(widened) : widened == exact && std::signbit(widened) == std::signbit(exact),
          "%s 0x%04x widens to %g", name, bits, widened);
    const T back(widened);
    check(nan ? std::isnan(static_cast<float>(back)) : back.bits == stored.bits, "%s 0x%04x comes back as 0x%04x", name,
          bits, back.bits);
  }
  for (int bits = 0; bits < infinity; ++bits) {
    const double low = value_of(bits, mantissa_bits, bias);
    // Above the largest number the next step of the same size stands for infinity.
    const double high = bits + 1 == infinity ? 2 * low - value_of(bits - 1, mantissa_bits, bias)
                                             : value_of(bits + 1, mantissa_bits, bias);
    const double middle = (low + high) / 2;
    const float tie = static_cast<float>(middle);
    if (static_cast<double>(tie) != middle) continue;  // the lowest bfloat16 subnormals' ties are no floats
    const int even = bits % 2 == 0 ? bits : bits + 1;
    for (const int sign : {0, 0x8000}) {
      const float signed_tie = sign ? -tie : tie;
      check(T(signed_tie).bits == (even | sign), "%s tie %g", name, signed_tie);
      const float below = std::nextafter(signed_tie, 0.0f),
                  above = std::nextafter(signed_tie, sign ? -INFINITY : INFINITY);
      check(T(below).bits == (bits | sign), "%s below tie %g", name, signed_tie);
      check(T(above).bits == ((bits + 1) | sign), "%s above tie %g", name, signed_tie);
    }
  }
  check(T(3e38f * 10.0f).bits == infinity && T(-3e38f * 10.0f).bits == (infinity | 0x8000), "%s infinity", name);
  check(T(1e-45f).bits == 0 && T(-1e-45f).bits == 0x8000, "%s smallest float", name);
}

// The vectorised conversions, through blocks, must give what one element at a time does; the odd length has a tail.
template <class T>
void test_block_conversions(const char* name) {
  constexpr int64_t n = block_size - 3;
  std::vector<T> stored(n), back(n);
  for (int start = 0; start < 65536; start += n) {
    for (int64_t k = 0; k < n; ++k) stored[k] = from_bits<T>(static_cast<int>(start + k));
    const InputBlock<T> in(stored.data(), 1, n);
    OutputBlock<T> out(back.data(), 1, n);
    for (int64_t k = 0; k < n; ++k) {
      const float alone = stored[k];
      check(std::memcmp(&alone, &in.data[k], 4) == 0, "%s 0x%04x widens differently in a block", name, stored[k].bits);
      out.data[k] = in.data[k] * 1.0003f;  // not representable, so that it rounds
    }
    out.store();
    for (int64_t k = 0; k < n; ++k) {
      check(back[k].bits == T(in.data[k] * 1.0003f).bits, "%s %g narrows differently in a block", name, in.data[k]);
    }
  }
}

// A machine with AVX-512 does not take the conversions for AVX2 by itself.
void test_half_conversions_for_avx2() {
#if OPSMITH_CHOOSES_ISA
  if (!detail::has_avx2()) return;
  constexpr int64_t n = 65536;
  std::vector<float16> stored(n), back(n);
  std::vector<float> wide(n);
  for (int64_t k = 0; k < n; ++k) stored[k] = from_bits<float16>(static_cast<int>(k));
  check(detail::widen_avx2(stored.data(), n, wide.data()) == n, "widen_avx2 leaves some of a multiple of 8 out");
  for (int64_t k = 0; k < n; ++k) {
    const float alone = stored[k];
    check(std::memcmp(&alone, &wide[k], 4) == 0, "float16 0x%04x widens differently with AVX2", stored[k].bits);
    wide[k] *= 1.0003f;
  }
  check(detail::narrow_avx2(wide.data(), n, back.data()) == n, "narrow_avx2 leaves some of a multiple of 8 out");
  for (int64_t k = 0; k < n; ++k) {
    check(back[k].bits == float16(wide[k]).bits, "%g narrows differently with AVX2", wide[k]);
  }
#endif
}

void test_views() {
  float data[24];
  for (int k = 0; k < 24; ++k) data[k] = static_cast<float>(k);
  const View<float, 3> view{data, {2, 3, 4}, {12, 4, 1}};
  const View<float, 2> transposed{data, {4, 3}, {1, 4}};
  const View<const float, 3> reading = view;
  check(view(1, 2, 3) == 23 && reading(1, 0, 2) == 14 && transposed(3, 2) == 11, "indexing");
  check(view.numel() == 24 && view.is_contiguous() && !transposed.is_contiguous(), "contiguity");
  check(View<float, 2>{data, {1, 4}, {99, 1}}.is_contiguous(), "the stride of a dimension of size 1 does not matter");
  check(View<float, 2>{data, {0, 4}, {7, 3}}.is_contiguous(), "an empty tensor is contiguous");
  const View<float, 0> scalar{data + 5, {}, {}};
  check(scalar() == 5 && scalar.numel() == 1 && scalar.is_contiguous(), "a view without dimensions");
  check(static_cast<bool>(view) && !View<float, 1>{nullptr, {0}, {1}}, "an absent tensor's view is false");
  static_assert(std::is_trivially_copyable_v<View<float, 3>> && std::is_trivially_copyable_v<ViewPack<float, 3, 4>>);
  static_assert(std::is_convertible_v<View<float, 2>, View<const float, 2>>);
  static_assert(!std::is_convertible_v<View<const float, 2>, View<float, 2>>);
  static_assert(!std::is_convertible_v<View<float, 2>, View<const double, 2>>);
  static_assert(sizeof(float16) == 2 && sizeof(bfloat16) == 2);
  static_assert(std::is_same_v<compute_t<float16>, float> && std::is_same_v<compute_t<double>, double> &&
                std::is_same_v<compute_t<int64_t>, int64_t>);
}

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

void test_lists_and_errors() {
  const int64_t numbers[] = {3, 4, 5};
  int64_t sum = 0;
  for (const int64_t number : List<int64_t>{numbers, 3}) sum += number;
  check(sum == 12, "a list is a range");
  float data[2] = {1, 2};
  const View<float, 1> views[] = {{data, {1}, {1}}, {data + 1, {1}, {1}}};
  const ViewList<float, 1> list{views, 2};
  const auto pack = list.pack<4>();
  check(pack.size == 2 && pack[1](0) == 2 && list[0](0) == 1 && list.end() - list.begin() == 2, "a list of views");
  check(error_of([&] { list.pack<1>(); }) == "this kernel takes at most 1 tensors in a list, got 2", "pack's error");
  check(error_of([] { fail("k is ", int64_t{1} << 40, ", x ", -0.5, ", on ", "cpu"); }) ==
            "k is 1099511627776, x -0.5, on cpu",
        "an error's text");
  const std::string lengthy(5000, 'x');
  check(error_of([] { fail("how is ", "me", std::string("dian"), std::string_view("s!", 1)); }) == "how is medians",
        "strings of every kind");
  check(error_of([&] { fail(lengthy, 1); }) == lengthy.substr(0, 1023), "a long string is cut");
  check(error_of([&] { fail(lengthy.c_str(), 1, lengthy.c_str()); }) == lengthy.substr(0, 1023), "a long text is cut");
}

void test_parallel_for() {
  std::vector<int> visits(1000);
  parallel_for(0, 1000, 10, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++visits[i];
  });
  for (const int count : visits) check(count == 1, "an index was visited %d times", count);
  int calls = 0;
  parallel_for(5, 5, 10, [&](int64_t, int64_t) { ++calls; });
  check(calls == 0, "an empty range makes no call");
  const auto caller = std::this_thread::get_id();
  parallel_for(0, 10, 10, [&](int64_t begin, int64_t end) {
    calls += begin == 0 && end == 10 && std::this_thread::get_id() == caller;
  });
  check(calls == 1, "a small range is one call on the calling thread");
  for (const int64_t thrower : {0, 500, 999}) {
    const std::string text = error_of([&] {
      parallel_for(0, 1000, 10, [&](int64_t begin, int64_t end) {
        if (begin <= thrower && thrower < end) fail("element ", thrower, " is bad");
      });
    });
    check(text == "element " + std::to_string(thrower) + " is bad", "the chunk's error arrives: %s", text.c_str());
  }
}

// Both directions for PyTorch to compare: 65,536 floats from each type, then the two types' bits from a sweep of
// floats.
int write_conversions(const char* path) {
  std::FILE* file = std::fopen(path, "wb");
  if (!file) return 1;
  const auto write = [&](auto value) { std::fwrite(&value, sizeof(value), 1, file); };
  for (int bits = 0; bits < 65536; ++bits) write(static_cast<float>(from_bits<float16>(bits)));
  for (int bits = 0; bits < 65536; ++bits) write(static_cast<float>(from_bits<bfloat16>(bits)));
  for (uint32_t k = 0; k < 1u << 20; ++k) write(float16(bit_cast<float>(k * 4096u + k % 4096u)));
  for (uint32_t k = 0; k < 1u << 20; ++k) write(bfloat16(bit_cast<float>(k * 4096u + k % 4096u)));
  return std::fclose(file);
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 3 && std::strcmp(arguments[1], "conversions") == 0) return write_conversions(arguments[2]);
  test_conversions<float16>("float16", 10, 15, 0x7c00);
  test_conversions<bfloat16>("bfloat16", 7, 127, 0x7f80);
  test_block_conversions<float16>("float16");
  test_block_conversions<bfloat16>("bfloat16");
  test_half_conversions_for_avx2();
  test_views();
  test_lists_and_errors();
  test_parallel_for();
  return report("header_test");
}
