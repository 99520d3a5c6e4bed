// How walk.cuh shares out a call: what is known of its factors at compile time, and where strips and their threads lie.
#pragma once

#include "device.cuh"
#include "signs.cuh"

namespace opsmith::ops::filtered_lrelu {
namespace {

using filters::Axis, filters::Filtering;

// Taps of a filter for each of its factor: so many samples make an upsampled number, so many outputs take one.
constexpr int span = 6;
// Columns of u of a thread, rows of it from one exchange to the next, and those of them that unrolled code makes, which
// has to fit into the instruction cache: multiples of all factors.
constexpr int wide = 4, turn = 12, step = 4;
// Threads of a strip at least, for the sake of the samples that it reads beyond its own columns.
constexpr int least_units = 8;

// A call's factors: samples are upsampled by `up`, and what is made of them downsampled by `down`. Backward the samples
// are y's gradient, and the filters the transposed ones. The filter of y's size may be `full`; the other is separable.
template <bool is_backward_, int up_, int down_, bool is_full_, bool writes_signs_ = false>
struct Rates {
  static constexpr bool is_backward = is_backward_, is_full = is_full_, writes_signs = writes_signs_;
  static constexpr int up = up_, down = down_;
  static_assert(step % up == 0 && step % down == 0 && turn % step == 0 && wide == step);
  static_assert(!is_backward || !writes_signs);

  // A warp for each quarter of a multiprocessor: every fourth warp of a block is in the same one, so that with five the
  // first quarter would have twice as much to do. And blocks of a multiprocessor, for which registers must suffice.
  static constexpr int threads = 128, blocks = !is_full ? 4 : is_backward ? 3 : 2;
  // Strips begin where blocks of signs do, that each is written as a whole: so many outputs are one of these.
  static constexpr int multiple = is_backward ? 1 : sign_block / down;
};

OPSMITH_HOST_DEVICE constexpr int modulo(int64_t number, int factor) {
  const int rest = static_cast<int>(number % factor);
  return rest < 0 ? rest + factor : rest;
}

// Where a walk to the outputs from one on begins, along an axis.
//
// Upsampled numbers come in groups that are made of the same samples: a factor of them, from pad + 1 on. A walk begins
// where an output does, and there groups begin or, `later`, at the second number of one.
struct WalkStart {
  int u, sample, output;  // the first number of u, the first sample of its group, and the first output
  bool later;

  template <class R>
  OPSMITH_HOST_DEVICE static WalkStart of(R, const Axis& up, const Axis& down, int64_t output) {
    const int64_t first = output * R::down - down.pad;
    const int before = modulo(first - up.pad - 1, R::up) / R::down;  // so many outputs
    const int64_t u = first - before * R::down;
    const int phase = modulo(u - up.pad - 1, R::up);  // 0 or 1
    return {static_cast<int>(u), static_cast<int>((u - up.pad - 1 - phase) / R::up) + 1,
            static_cast<int>(output) - before, phase == 1};
  }
};

// How the strips of a call lie. A strip is a band of one plane's outputs.
struct Strips {
  int units, in_block;               // threads of a strip, and strips of a block
  int across, count, width, height;  // strips along x and along y of a plane, and outputs of each
  int turns;                         // until a strip's last output is complete
  int64_t planes;

  template <class R>
  Strips(R, int64_t out_height, int64_t out_width, int64_t planes, int processors) : planes(planes) {
    // u's numbers that outputs take beyond their own, and those in front of the first output.
    constexpr int beyond = (span - 1) * R::down + (R::up - 1) / R::down * R::down;
    fill_blocks(R{}, out_width, beyond);

    // Strips of many rows make few of them twice, but multiprocessors should all have as many, and finish together.
    const auto cut = [&](int64_t rows) {
      height = static_cast<int>(share(out_height, divide_up(out_height, rows), R::multiple));
      count = static_cast<int>(divide_up(out_height, height));
      turns = static_cast<int>(divide_up(int64_t{height} * R::down + beyond, turn));
    };
    const int64_t at_once = int64_t{processors} * R::blocks;
    // A block takes about a turn to begin. Multiprocessors that have fewer blocks than others are faster with them.
    const auto time = [&] {
      return (turns + 1) * (divide_up(blocks(), processors) + divide_up(blocks(), at_once) * R::blocks);
    };
    cut(out_height);
    int64_t best = out_height, least = time();
    for (int fewer = turns - 1; fewer > 1 && blocks() < 8 * at_once; fewer -= 1 + fewer / 8) {
      const int64_t rows = (int64_t{fewer} * turn - beyond) / R::down;
      if (rows < 1) break;
      cut(rows);
      if (time() < least) best = rows, least = time();
    }
    cut(best);
  }

  OPSMITH_HOST_DEVICE int64_t tiles() const { return int64_t{across} * count; }
  OPSMITH_HOST_DEVICE int64_t all() const { return planes * tiles(); }
  int64_t blocks() const { return divide_up(all(), in_block); }

 private:
  static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
  // What each of some parts has of a size, in whole multiples.
  static int64_t share(int64_t size, int64_t parts, int multiple) {
    return divide_up(divide_up(size, parts), multiple) * multiple;
  }

  // Chooses how wide strips are, for few threads without one, and few columns that two strips make.
  template <class R>
  void fill_blocks(R, int64_t out_width, int beyond) {
    const int64_t fit = (R::threads * wide - beyond) / R::down / R::multiple * R::multiple;  // outputs of a strip
    const int64_t least = divide_up(out_width, fit);
    double most = 0;
    for (int64_t parts = least; parts <= least + 6; ++parts) {
      const int64_t each = share(out_width, parts, R::multiple), columns = divide_up(each * R::down + beyond, wide);
      const int64_t by = divide_up(out_width, each);
      const int needed = columns < least_units ? least_units : static_cast<int>(columns);
      if (needed > R::threads) continue;
      const int strips = R::threads / needed;
      const double made = static_cast<double>(out_width) * strips / static_cast<double>(by);  // in a block's rows
      if (made <= most) continue;
      most = made;
      across = static_cast<int>(by);
      width = static_cast<int>(each);
      units = needed;
      in_block = strips;
    }
  }
};

// A thread's place. Threads without a strip take part in nothing but barriers, and have a place to read from.
struct StripPlace {
  Items::Place at;
  bool is_kept;
  int strip, unit;  // in its block

  __device__ StripPlace(const Strips& strips, const Items& items) {
    const int thread = static_cast<int>(threadIdx.x);
    strip = thread / strips.units;
    unit = thread % strips.units;
    const int64_t item = static_cast<int64_t>(blockIdx.x) * strips.in_block + strip;
    is_kept = strip < strips.in_block && item < strips.all();
    if (!is_kept) strip = unit = 0;
    at = items[is_kept ? item : 0];
  }
};

}  // namespace
}  // namespace opsmith::ops::filtered_lrelu
