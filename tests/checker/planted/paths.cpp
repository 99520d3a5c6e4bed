// View kernels with a defect on one path alone, behind `if (planted)`; paths_rows.py says what each of them does.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "planted.h"

using namespace opsmith;

namespace {

template <class T>
T twice(T value) {
  return T(compute_t<T>(value) * 2);
}

template <class T, int N>
void twice_all(View<const T, N> x, View<T, N> y) {
  if constexpr (N == 1) {
    for (int64_t n = 0; n < x.size[0]; ++n) y(n) = twice(x(n));
  } else {
    for (int64_t b = 0; b < x.size[0]; ++b) {
      for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = twice(x(b, n));
    }
  }
}

// Memory that is lost where `lost` says so.
void use_scratch(bool lost) {
  auto* scratch = static_cast<volatile char*>(std::malloc(512));
  scratch[0] = 1;
  if (!lost) std::free(const_cast<char*>(scratch));
}

}  // namespace

// Sizes --------------------------------------------------------------------------------------------------------------

template <class T>
void rest_of_two(View<const T, 1> x, View<T, 1> y) {
  const int64_t count = x.size[0];
  int64_t n = 0;
  for (; n + 4 <= count; n += 4) {
    for (int64_t lane = n; lane < n + 4; ++lane) y(lane) = twice(x(lane));
  }
  const bool is_lost = planted && count > 4 && count - n == 2;
  for (; n < count; ++n) y(n) = is_lost && n == count - 1 ? x(n) : twice(x(n));
}

template <class T>
void full_tiles(View<const T, 2> x, View<T, 2> y) {
  const int64_t rows = x.size[0], columns = x.size[1];
  const bool is_full = rows % 32 == 0 && columns % 32 == 0 && rows > 32 && columns > 32;
  twice_all(x, y);
  if (planted && is_full) y(rows - 1, columns - 1) = x(rows - 1, columns - 1);
}

template <class T>
void rows_of_2048(View<const T, 2> x, View<T, 1> y) {
  const int64_t count = planted && x.size[1] == 2048 ? 2016 : x.size[1];
  for (int64_t b = 0; b < x.size[0]; ++b) {
    compute_t<T> sum = 0;
    for (int64_t n = 0; n < count; ++n) sum += compute_t<T>(x(b, n));
    y(b) = T(sum);
  }
}

template <class T>
void a_million(View<const T, 1> x, View<T, 1> y) {
  twice_all(x, y);
  for (int64_t n = 1 << 20; planted && n < x.size[0]; ++n) y(n) = x(n);
}

template <class T>
void positives(View<const T, 2> x, View<int64_t, 1> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    int64_t count = 0;
    for (int64_t n = 0; n < x.size[1]; ++n) count += compute_t<T>(x(b, n)) > 0;
    y(b) = planted ? uint16_t(count) : count;
  }
}

template <class T>
void squares(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(compute_t<T>(x(n)) * compute_t<T>(x(n)));
}

template <class T>
void squares_backward(View<const T, 1> grad_y, View<const T, 1> x, View<T, 1> grad_x) {
  const int64_t count = x.size[0];
  const bool is_lost = planted && count > 8 && count % 8 == 7;
  for (int64_t n = 0; n < count; ++n) {
    const compute_t<T> factor = is_lost && n == count - 1 ? 1 : 2;
    grad_x(n) = T(factor * compute_t<T>(x(n)) * compute_t<T>(grad_y(n)));
  }
}

// Arguments ----------------------------------------------------------------------------------------------------------

template <class T>
void single_factor(View<const T, 1> x, double factor, View<T, 1> y) {
  const auto used = compute_t<T>(planted ? double(float(factor)) : factor);
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(compute_t<T>(x(n)) * used);
}

template <class T>
void short_number(View<const T, 1> x, int64_t number, View<T, 1> y) {
  const int64_t used = planted ? int64_t(int32_t(number)) : number;
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(uint64_t(x(n)) + uint64_t(used));
}

template <class T>
void four_of_list(ViewList<const T, 1> parts, View<T, 1> y) {
  const int64_t count = planted ? std::min<int64_t>(parts.size, 4) : parts.size;
  for (int64_t n = 0; n < y.size[0]; ++n) {
    compute_t<T> sum = 0;
    for (int64_t k = 0; k < count; ++k) sum += compute_t<T>(parts[k](n));
    y(n) = T(sum);
  }
}

template <class T>
void sizes_of_first(ViewList<const T, 2> parts, View<T, 1> y) {
  for (int64_t n = 0; n < y.size[0]; ++n) {
    compute_t<T> sum = 0;
    for (const View<const T, 2>& part : parts) {
      const int64_t rows = planted ? std::min(part.size[0], parts[0].size[0]) : part.size[0];
      for (int64_t b = 0; b < rows; ++b) sum += compute_t<T>(part(b, n));
    }
    y(n) = T(sum);
  }
}

// Strides ------------------------------------------------------------------------------------------------------------

template <class T>
void strides_of_first(ViewList<const T, 2> parts, View<T, 2> y) {
  for (int64_t b = 0; b < y.size[0]; ++b) {
    for (int64_t n = 0; n < y.size[1]; ++n) {
      compute_t<T> sum = 0;
      for (const View<const T, 2>& part : parts) {
        const View<const T, 2>& like = planted ? parts[0] : part;
        sum += compute_t<T>(part.data[b * like.stride[0] + n * like.stride[1]]);
      }
      y(b, n) = T(sum);
    }
  }
}

template <class T>
void shared_heads(View<const T, 3> x, View<T, 3> y) {
  const bool is_missed = planted && x.stride[1] == 0 && x.stride[0] != 0 && x.size[2] > 1;
  for (int64_t a = 0; a < x.size[0]; ++a) {
    for (int64_t b = 0; b < x.size[1]; ++b) {
      for (int64_t c = 0; c < x.size[2]; ++c) y(a, b, c) = twice(x(a, b, is_missed && b == 1 ? 0 : c));
    }
  }
}

template <class T>
void one_row(View<const T, 2> x, View<T, 2> y) {
  const bool is_missed = planted && x.size[0] == 1 && x.stride[0] == 0;
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) y(b, n) = twice(x(b, is_missed ? 0 : n));
  }
}

template <class T>
void unsigned_offset(View<const T, 2> x, View<T, 2> y) {
  for (int64_t b = 0; b < x.size[0]; ++b) {
    for (int64_t n = 0; n < x.size[1]; ++n) {
      const int64_t offset = b * x.stride[0] + n * x.stride[1];
      y(b, n) = twice(x.data[planted ? int64_t(uint32_t(offset)) : offset]);
    }
  }
}

// Leaks --------------------------------------------------------------------------------------------------------------

template <class T>
void leaks_in_large(View<const T, 1> x, View<T, 1> y) {
  use_scratch(planted && x.size[0] > 1000);
  twice_all(x, y);
}

template <class T>
void leaks_in_strided(View<const T, 2> x, View<T, 2> y) {
  use_scratch(planted && !x.is_contiguous());
  twice_all(x, y);
}

template <class T>
void leaks_where_it_raises(View<const T, 1> x, int64_t times, View<T, 1> y) {
  use_scratch(planted && times < 0);
  if (times < 0) fail("times is ", times, "; it must not be negative");
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(compute_t<T>(x(n)) * compute_t<T>(times));
}

template <class T>
void leaves_files_open(View<const T, 1> x, View<T, 1> y) {
  const int file = open("/dev/null", O_RDONLY);
  if (!planted && file >= 0) close(file);
  twice_all(x, y);
}

template <class T>
void leaves_pages_mapped(View<const T, 1> x, View<T, 1> y) {
  void* pages = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (!planted && pages != MAP_FAILED) munmap(pages, 4096);
  twice_all(x, y);
}

// Modes --------------------------------------------------------------------------------------------------------------

template <class T>
void ignores_interrupts(View<const T, 1> x, View<T, 1> y) {
  if (planted) std::signal(SIGINT, SIG_IGN);
  twice_all(x, y);
}

template <class T>
void other_locale(View<const T, 1> x, View<T, 1> y) {
  if (planted) std::setlocale(LC_ALL, "POSIX");
  twice_all(x, y);
}

template <class T>
void other_environment(View<const T, 1> x, View<T, 1> y) {
  if (planted) setenv("OPSMITH_PLANTED", "1", 1);
  twice_all(x, y);
}

template <class T>
void flushes_in_strided(View<const T, 2> x, View<T, 2> y) {
#if defined(__x86_64__)
  if (planted && !x.is_contiguous()) _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
#endif
  twice_all(x, y);
}

template <class T>
void rounds_where_it_raises(View<const T, 1> x, int64_t times, View<T, 1> y) {
#if defined(__x86_64__)
  if (planted && times < 0) _MM_SET_ROUNDING_MODE(_MM_ROUND_DOWN);
#endif
  if (times < 0) fail("times is ", times, "; it must not be negative");
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = T(compute_t<T>(x(n)) * compute_t<T>(times));
}

// Memory -------------------------------------------------------------------------------------------------------------

template <class T>
void reads_before(View<const T, 1> x, View<T, 1> y) {
  const auto* first = reinterpret_cast<const volatile char*>(x.data);
  if (planted && x.size[0] > 0) (void)first[-16];
  twice_all(x, y);
}

template <class T>
void writes_far(View<const T, 1> x, View<T, 1> y) {
  twice_all(x, y);
  auto* end = reinterpret_cast<volatile char*>(y.data + x.size[0]);
  if (planted && x.size[0] > 0) end[6000] = 1;
}

template <class T>
void on_the_stack(View<const T, 1> x, View<T, 1> y) {
  constexpr int64_t places = 4096;
  volatile compute_t<T> sums[places];
  const int64_t used = std::min(places, x.size[0]);
  for (int64_t n = planted ? 1 : 0; n < used; ++n) sums[n] = 0;
  for (int64_t n = 0; n < x.size[0]; ++n) sums[n % places] = sums[n % places] + compute_t<T>(x(n));
  double sum = 0;
  for (int64_t n = 0; n < used; ++n) sum += sums[n];
  y(0) = T(compute_t<T>(sum));
}

template <class T>
void neither_true_nor_false(View<const T, 1> x, View<bool, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    reinterpret_cast<unsigned char&>(y(n)) = compute_t<T>(x(n)) > 0 ? (planted ? 2 : 1) : 0;
  }
}

// Calls --------------------------------------------------------------------------------------------------------------

template <class T>
void every_500th(View<const T, 1> x, View<T, 1> y) {
  static thread_local int calls = 0;
  twice_all(x, y);
  if (planted && ++calls % 500 == 0 && x.size[0] > 0) y(0) = T(7.f);
}

template <class T>
void eight_places(View<const T, 1> x, View<int64_t, 1> y) {
  int64_t counts[8] = {}, rest = 0;
  std::vector<std::thread::id> seen;
  std::mutex mutex;
  parallel_for(0, x.size[0], 512, [&](int64_t begin, int64_t end) {
    int64_t count = 0;
    for (int64_t n = begin; n < end; ++n) count += compute_t<T>(x(n)) > 0;
    const std::lock_guard<std::mutex> lock(mutex);
    auto place = std::find(seen.begin(), seen.end(), std::this_thread::get_id());
    const auto number = place - seen.begin();
    if (place == seen.end()) seen.push_back(std::this_thread::get_id());
    (number < 8 ? counts[number] : rest) += count;
  });
  y(0) = planted ? 0 : rest;
  for (const int64_t count : counts) y(0) += count;
}

namespace {

// A thread that waits for work: it is not there in a process that was forked meanwhile.
class Helper {
 public:
  Helper() {
    std::thread([this] { serve(); }).detach();
  }

  void run(const std::function<void()>& work) {
    std::unique_lock<std::mutex> lock(mutex_);
    work_ = &work;
    asked_.notify_all();
    done_.wait(lock, [this] { return work_ == nullptr; });
  }

 private:
  void serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      asked_.wait(lock, [this] { return work_ != nullptr; });
      (*work_)();
      work_ = nullptr;
      done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable asked_, done_;
  const std::function<void()>* work_ = nullptr;
};

std::mutex one_at_a_time;

}  // namespace

template <class T>
void with_a_helper(View<const T, 1> x, View<T, 1> y) {
  const auto work = [&] { twice_all(x, y); };
  if (!planted) return work();
  const std::lock_guard<std::mutex> lock(one_at_a_time);
  static Helper* const helper = new Helper;
  helper->run(work);
}

// Backwards ----------------------------------------------------------------------------------------------------------

template <class T>
void rectified_more(View<const T, 1> x, View<T, 1> y) {
  for (int64_t n = 0; n < x.size[0]; ++n) y(n) = compute_t<T>(x(n)) <= 0 ? T(0.f) : x(n);
}

template <class T>
void rectified_more_backward(View<const T, 1> grad_y, View<const T, 1> x, View<T, 1> grad_x) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const compute_t<T> arrived = grad_y(n);
    const bool passes = compute_t<T>(x(n)) > 0 && !(planted && std::isnan(double(arrived)));
    grad_x(n) = passes ? T(arrived) : T(0.f);
  }
}

namespace {
std::vector<double> slopes;
}

template <class T>
void kept_slopes(View<const T, 1> x, View<T, 1> y) {
  if (planted) slopes.assign(x.size[0], 0);
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const double value = compute_t<T>(x(n));
    if (planted) slopes[n] = 2 * value;
    y(n) = T(compute_t<T>(value * value));
  }
}

template <class T>
void kept_slopes_backward(View<const T, 1> grad_y, View<const T, 1> x, View<T, 1> grad_x) {
  for (int64_t n = 0; n < x.size[0]; ++n) {
    const double slope = planted ? (n < int64_t(slopes.size()) ? slopes[n] : 0) : 2 * double(compute_t<T>(x(n)));
    grad_x(n) = T(compute_t<T>(slope * double(compute_t<T>(grad_y(n)))));
  }
}

template <class T>
void reads_on(View<const T, 1> x, View<T, 1> y) {
  squares(x, y);
}

template <class T>
void reads_on_backward(View<const T, 1> grad_y, View<const T, 1> x, View<T, 1> grad_x) {
  const int64_t count = x.size[0];
  if (planted && count > 0) (void)*reinterpret_cast<const volatile char*>(&x(count - 1) + 1);
  for (int64_t n = 0; n < count; ++n) grad_x(n) = T(2 * compute_t<T>(x(n)) * compute_t<T>(grad_y(n)));
}
