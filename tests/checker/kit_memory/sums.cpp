#include <opsmith/kernel.h>

#include <atomic>
#include <thread>
#include <vector>

using namespace opsmith;

namespace {

template <class T>
T sum_of(View<const T, 1> x, int64_t begin, int64_t end) {
  compute_t<T> sum = 0;
  for (int64_t n = begin; n < end; ++n) sum += compute_t<T>(x(n));
  return T(sum);
}

}  // namespace

// Blocks of one size, whatever the number of threads.
template <class T>
void total(View<const T, 1> x, View<T, 1> y) {
  constexpr int64_t kBlock = 4096;
  const int64_t size = x.size[0], blocks = (size + kBlock - 1) / kBlock;
  std::vector<T> parts(blocks);
  parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) parts[b] = sum_of(x, b * kBlock, std::min(size, (b + 1) * kBlock));
  });
  compute_t<T> sum = 0;
  for (const T& part : parts) sum += compute_t<T>(part);
  y(0) = T(sum);
}

// Whoever comes last wins.
template <class T>
void racing_total(View<const T, 1> x, View<T, 1> y) {
  compute_t<T> sum = 0;
  auto* shared = static_cast<volatile compute_t<T>*>(&sum);
  parallel_for(0, x.size[0], 64, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) *shared = *shared + compute_t<T>(x(n));
  });
  y(0) = T(sum);
}

template <class T>
void racing_on_own_threads(View<const T, 1> x, View<T, 1> y) {
  compute_t<T> sum = 0;
  auto* shared = static_cast<volatile compute_t<T>*>(&sum);
  std::vector<std::thread> threads;
  std::atomic<int> ready = 0;
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (++ready; ready < 4;) std::this_thread::yield();
      for (int64_t n = t; n < x.size[0]; n += 4) *shared = *shared + compute_t<T>(x(n));
    });
  }
  for (auto& thread : threads) thread.join();
  y(0) = T(sum);
}

template <class T>
void total_by_threads(View<const T, 1> x, View<T, 1> y) {
  // As many parts as there are chunks: another sum for another number of threads, but always the same one.
  std::vector<double> at(x.size[0], 0.0);
  parallel_for(0, x.size[0], 64, [&](int64_t begin, int64_t end) {
    at[begin] = static_cast<double>(compute_t<T>(sum_of(x, begin, end)));
  });
  double sum = 0;
  for (double part : at) sum += part;
  y(0) = T(compute_t<T>(sum));
}

template <class T>
void counting(View<const T, 1> x, View<T, 1> y) {
  static std::atomic<int> calls = 0;
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(compute_t<T>(x(n)) + compute_t<T>(calls * 1e-2));
  ++calls;
}

template <class T>
void unset_scratch(View<const T, 1> x, View<T, 1> y) {
  if (x.size[0] == 0) return;
  auto* scratch = static_cast<unsigned char*>(std::malloc(1000));
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(compute_t<T>(x(n)) + compute_t<T>(scratch[n % 1000]));
  std::free(scratch);
}

template <class T>
void leaking(View<const T, 1> x, View<T, 1> y) {
  static void* volatile kept;
  kept = std::malloc(16);
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = x(n);
}

template <class T>
void remembering(View<const T, 1> x, View<T, 1> y) {
  static std::vector<int64_t> sizes;
  sizes.push_back(x.size[0]);
  sizes.push_back(y.size[0]);
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = x(n);
}

template <class T>
void tidy(View<const T, 1> x, View<T, 1> y) {
  std::vector<T> copy(x.size[0]);
  for (int64_t n = 0; n < x.size[0]; ++n) copy[n] = x(n);
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = copy[n];
}

template <class T>
void leaking_slope(View<const T, 1> grad_y, View<T, 1> grad_x) {
  leaking(grad_y, grad_x);
}
