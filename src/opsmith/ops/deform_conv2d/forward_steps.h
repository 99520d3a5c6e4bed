// How the factors of the forward's product come into a GPU's shared memory: by stages of a step each, which four warps
// of a block fill with samples and weights, and eight multiply.
#pragma once

#include "gpu_points.h"
#include "step_product.h"

namespace {

constexpr int sampling_threads = 128;
constexpr int block_threads = product_threads + sampling_threads;
constexpr int most_stages = 4;

// The narrowest blocks are two to a multiprocessor, so that one samples where the other waits.
template <class T, int columns>
constexpr int blocks_together = columns > 64 || sizeof(T) == 8 ? 1 : 2;

template <class T, int columns>
struct Stage {
  StepTile<T, product_rows> samples;
  StepTile<T, columns> weights;
};

// How stages pass from those who sample to those who multiply and back. Without named barriers all threads wait for one
// another at each step.
struct Handover {
  __device__ static void wait_until_free(int stage) { wait_at<block_threads>(1 + most_stages + stage); }
  __device__ static void give_back(int stage) { pass<block_threads>(1 + most_stages + stage); }
  __device__ static void hand_over(int stage) {
    if constexpr (has_tensor_cores) {
      pass<block_threads>(1 + stage);
    } else {
      __syncthreads();
    }
  }
  __device__ static void wait_until_filled(int stage) {
    if constexpr (has_tensor_cores) {
      wait_at<block_threads>(1 + stage);
    } else {
      __syncthreads();
    }
  }
  __device__ static void wait_for_products() {
    if constexpr (has_tensor_cores) {
      wait_at<product_threads>(1 + 2 * most_stages);
    } else {
      __syncthreads();
    }
  }
};

// Brings the weights of a step into a stage, without waiting for them.
template <class T, int columns>
__device__ void bring_weights(const T* weights, Stage<T, columns>& to) {
  const int thread = threadIdx.x - product_threads;
#pragma unroll
  for (int k = 0; k < columns * 4 / sampling_threads; ++k) {
    const int place = (k * sampling_threads + thread) * chunk_width<T>;
    copy_async(to.weights.data + place, weights + place, true);
  }
}

// Where those who sample are: the stage that is next, how many steps were before, and of how many in all.
struct Filling {
  int next = 0, step = 0, steps;

  __device__ int stage_after(int ahead, int stages) const {
    const int stage = next + ahead;
    return stage < stages ? stage : stage - stages;
  }
};

// Weights are asked for this many steps before their samples, because they take longer to come than samples to make.
// Where all threads wait for one another, a stage is free only at its turn.
constexpr int weights_ahead = has_tensor_cores ? 1 : 0;

// Four threads sample a position.
constexpr int positions_apart = sampling_threads / 4;

// The samples of a run's steps by one thread: 16 bytes of channels at a quarter of the positions, of which it takes
// `rows` at a time. While these are blended, the pixels of the next are under way.
template <int rows, bool tf32, class T>
class ChunkSampler {
  static constexpr int parts = product_rows / positions_apart / rows;
  static_assert(parts % 2 == 0, "a part is in the same registers at each step");

 public:
  __device__ ChunkSampler(const Pixels<T>& pixels, int64_t n, const Run& run, const PointTable<T, product_rows>& table)
      : pixels_(pixels),
        table_(table),
        left_(run.channels - chunk() * chunk_width<T>),
        taps_(run.taps),
        from_(pixels.at(n, 0, 0) + run.channel + chunk() * chunk_width<T>) {
    load(0, 0);
  }

  // Makes those of the next step, which is of the tap `tap`, and loads the first part of the one after it.
  __device__ void make(int tap, StepTile<T, product_rows>& to) {
#pragma unroll
    for (int part = 0; part + 1 < parts; ++part) {
      load(part + 1, tap);
      blend(part, tap, left_, to);
    }
    const int left = left_;
    const bool is_last = tap + 1 == taps_;
    if (is_last) {
      left_ -= step_width<T>;
      from_ += step_width<T>;
    }
    load(0, is_last ? 0 : tap + 1);
    blend(parts - 1, tap, left, to);
  }

 private:
  static __device__ int chunk() { return threadIdx.x % 4; }
  static __device__ int row(int part, int k) {
    return static_cast<int>(threadIdx.x - product_threads) / 4 + (part * rows + k) * positions_apart;
  }

  __device__ void load(int part, int tap) {
    if (left_ <= 0) return;
#pragma unroll
    for (int k = 0; k < rows; ++k) {
      corners_[part % 2][k].load(pixels_, from_, table_.places[tap * product_rows + row(part, k)]);
    }
  }

  __device__ void blend(int part, int tap, int left, StepTile<T, product_rows>& to) const {
#pragma unroll
    for (int k = 0; k < rows; ++k) {
      const int point = tap * product_rows + row(part, k);
      Chunk samples{};
      if (left > 0) {
        samples = corners_[part % 2][k].template blend<tf32>(table_.weights[point], table_.places[point].mask);
      }
      to.chunk(row(part, k), chunk()) = samples;
    }
  }

  const Pixels<T>& pixels_;
  const PointTable<T, product_rows>& table_;
  int left_;  // channels from the thread's first on; none where the last step is not full
  const int taps_;
  const T* from_;
  Corners<T> corners_[2][rows];
};

// The same where 16 bytes of channels do not lie as they should: they are read one by one.
template <bool tf32, class T>
class ElementSampler {
 public:
  __device__ ElementSampler(const Pixels<T>& pixels, int64_t n, const Run& run,
                            const PointTable<T, product_rows>& table)
      : pixels_(pixels), table_(table), run_(run), from_(pixels.at(n, 0, 0) + run.channel) {}

  __device__ void make(int tap, StepTile<T, product_rows>& to) {
    const int thread = threadIdx.x - product_threads, chunk = thread % 4;
    const int left = run_.channels - channel_ - chunk * chunk_width<T>;
#pragma unroll 1
    for (int row = thread / 4; row < product_rows; row += positions_apart) {
      const int point = tap * product_rows + row;
      Corners<T> corners;
      corners.load(pixels_, from_ + chunk * chunk_width<T>, left, table_.places[point]);
      const Chunk blended = corners.template blend<tf32>(table_.weights[point], table_.places[point].mask);
      auto samples = bit_cast<Vector<T, chunk_width<T>>>(blended);
      // Beyond the last channel zeros would do, but for a mask that is infinite.
#pragma unroll
      for (int k = 0; k < chunk_width<T>; ++k) samples.item[k] = k < left ? samples.item[k] : T(0.0f);
      to.chunk(row, chunk) = bit_cast<Chunk>(samples);
    }
    if (tap + 1 < run_.taps) return;
    channel_ += step_width<T>;
    from_ += step_width<T>;
  }

 private:
  const Pixels<T>& pixels_;
  const PointTable<T, product_rows>& table_;
  const Run& run_;
  const T* from_;
  int channel_ = 0;
};

// Fills the stages of a run. `weights` is where those of the group's first step begin.
template <class Sampling, class T, int columns>
__device__ void fill_stages(Sampling sampling, const Run& run, const T* weights, Stage<T, columns>* stage, int stages,
                            Filling& at) {
  for (int slice = run.slices(step_width<T>); slice > 0; --slice) {
    for (int tap = 0; tap < run.taps; ++tap, ++at.step) {
      const int later = at.step + weights_ahead;
      if (later < at.steps) {
        const int of_later = at.stage_after(weights_ahead, stages);
        if (later >= stages) Handover::wait_until_free(of_later);
        bring_weights(weights + int64_t{later} * columns * step_width<T>, stage[of_later]);
      }
      commit_copies();  // of nothing at the end, so that the number of groups tells which are here
      sampling.make(tap, stage[at.next].samples);
      wait_for_copies<weights_ahead>();
      Handover::hand_over(at.next);
      at.next = at.stage_after(1, stages);
    }
  }
}

}  // namespace
