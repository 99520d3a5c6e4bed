// Non-maximum suppression on a GPU, with memory that grows with the number of boxes and nothing that the host waits
// for.
//
// Boxes in order of their scores are taken in tiles. Three steps follow one another for each tile, in two launches:
//
//   compare  all pairs of boxes in the tile, by the whole GPU: a bit for each
//   settle   which of them are kept: one block, a thread for each box, which waits for the boxes that suppress it
//   sweep    all later boxes against those kept in the tile, by the whole GPU; and compare for the next tile
//
// Each takes a few microseconds, so each comes up while the one before it ends.
//
// A box is only ever tested against kept ones, those of its own tile apart. With classes the order is by class first.
// Then a sweep ends with the class that goes on behind the tile.
#include <opsmith/early_launch.h>
#include <opsmith/lanes.h>

#include "nms_gpu.h"
#include "overlap.h"

namespace opsmith::ops::nms::hard_gpu {
namespace {

constexpr int words = tile / 32;
constexpr int threads = 256;
constexpr int few_boxes = 16384;  // up to here a sweep needs more threads for each box to keep a GPU busy
constexpr int compare_blocks = tile * words / threads;

template <class C>
__device__ Box<C> load(const C* boxes, int64_t k) {
  const Vector<C, 4> box = reinterpret_cast<const Vector<C, 4>*>(boxes)[k];
  return {box.item[0], box.item[1], box.item[2], box.item[3]};
}

// With classes the boxes of the highest scores may be in the last tile.
template <class C>
__device__ bool is_done(const Work<C>& work) {
  return work.classes == nullptr && work.progress->count >= work.most;
}

// One word of the tile that begins at `begin`: which of 32 boxes suppress box i, all of them before it.
template <class C>
__device__ void compare(const Work<C>& work, int64_t begin, int word, int i, C threshold) {
  uint32_t bits = 0;
  if (begin + i < work.n && 32 * word < i) {
    const Box<C> box = load(work.boxes, begin + i);
    const C area = work.areas[begin + i];
    for (int j = 0; j < 32 && 32 * word + j < i; ++j) {
      const int64_t other = begin + 32 * word + j;
      bool found = suppresses(load(work.boxes, other), work.areas[other], box, area, threshold);
      if (work.classes != nullptr) found = found && work.classes[other] == work.classes[begin + i];
      bits |= static_cast<uint32_t>(found) << j;
    }
  }
  work.overlaps[word * tile + i] = bits;
}

// The first blocks compare the tile that begins at `next`; each of the others tests some boxes from there on against
// those kept before. Threads side by side have a box each and meet the same kept box at once.
template <int boxes_in_block, class C>
__global__ void __launch_bounds__(threads) sweep_kernel(Work<C> work, int64_t next, C threshold) {
  constexpr int slices = threads / boxes_in_block;  // parts of the kept boxes, each for some of the threads
  wait_for_earlier_kernels();
  if (is_done(work)) return;
  if (blockIdx.x < compare_blocks) {
    const int place = blockIdx.x * threads + threadIdx.x;
    compare(work, next, place / tile, place % tile, threshold);
    return;
  }
  const int64_t k = next + (blockIdx.x - compare_blocks) * int64_t{boxes_in_block} + threadIdx.x % boxes_in_block;
  const int kept = work.progress->kept_in_tile;
  if (k >= work.n || kept == 0 || work.removed[k] != 0) return;
  if (work.classes != nullptr && work.classes[k] != work.classes[next - 1]) return;
  const Box<C> box = load(work.boxes, k);
  const C area = work.areas[k];
  const int reach = kept - work.progress->first_in_reach, slice = threadIdx.x / boxes_in_block;
  const int begin = work.progress->first_in_reach + reach * slice / slices;
  const int end = work.progress->first_in_reach + reach * (slice + 1) / slices;
  constexpr int at_once = 4;  // tests that do not wait for one another
  bool found = false;
  for (int j = begin; j < end && !found; j += at_once) {
#pragma unroll
    for (int step = 0; step < at_once; ++step) {
      const int other = j + step < end ? j + step : end - 1;
      found |= suppresses(load(work.kept_boxes, other), work.kept_areas[other], box, area, threshold);
    }
  }
  if (found) work.removed[k] = 1;  // several slices may say so
}

// Which boxes of the tile at `begin` are kept: a box goes once one that suppresses it is kept, and is kept once all
// that do have gone. In each round the first undecided box can be decided, and as a rule most can; what detectors give
// takes a few rounds, and the worst case, in which each box touches the next alone, as many as there are boxes.
template <class C>
__global__ void __launch_bounds__(tile) settle_kernel(Work<C> work, int64_t begin) {
  static_assert(words == lanes, "a lane for each word of the tile");
  wait_for_earlier_kernels();
  if (is_done(work)) return;
  __shared__ uint32_t kept[words], gone[words];
  const int i = threadIdx.x, word = i / lanes, lane = i % lanes;
  const int64_t k = begin + i, last = begin + tile < work.n ? begin + tile - 1 : work.n - 1;
  const bool inside = k < work.n, has_classes = work.classes != nullptr;
  // What a kept box takes along is asked for now, and is there when that is decided.
  const int64_t count_before = work.progress->count;
  const Box<C> box = inside ? load(work.boxes, k) : Box<C>{};
  const C area = inside ? work.areas[k] : C(0);
  const int64_t number = !inside ? 0 : has_classes ? work.by_class[k] : work.order[k];
  uint32_t before[words];
#pragma unroll
  for (int w = 0; w < words; ++w) before[w] = w <= word ? work.overlaps[w * tile + i] : 0;

  bool is_kept = false, has_gone = !inside || work.removed[k] != 0;
  do {
    const uint32_t kept_here = lanes_where(is_kept), gone_here = lanes_where(has_gone);
    if (lane == 0) kept[word] = kept_here, gone[word] = gone_here;
    __syncthreads();
    if (!is_kept && !has_gone) {
      uint32_t by_kept = 0, open = 0;
#pragma unroll
      for (int w = 0; w < words; ++w) {
        if (before[w] == 0) continue;
        by_kept |= before[w] & kept[w];
        open |= before[w] & ~gone[w];
      }
      is_kept = open == 0;
      has_gone = by_kept != 0;
    }
  } while (__syncthreads_or(!is_kept && !has_gone));

  const uint32_t kept_here = lanes_where(is_kept);
  if (lane == 0) kept[word] = kept_here;
  const int total = __syncthreads_count(is_kept);
  int place = lane < word ? __popc(kept[lane]) : 0;  // of the words before, and then of the lanes before
#pragma unroll
  for (int mask = 1; mask < lanes; mask *= 2) place += shuffle_xor(place, mask);
  place += __popc(kept_here & ((1u << lane) - 1));
  if (is_kept) {
    reinterpret_cast<Vector<C, 4>*>(work.kept_boxes)[place] = {{box.x1, box.y1, box.x2, box.y2}};
    work.kept_areas[place] = area;
    if (has_classes) {
      work.kept[number] = 1;
    } else if (count_before + place < work.most) {
      work.indices[count_before + place] = number;
    }
  }
  const int out_of_reach = has_classes ? __syncthreads_count(is_kept && work.classes[k] != work.classes[last]) : 0;
  if (i == 0) {
    const int64_t count = count_before + total;
    *work.progress = {count, total, out_of_reach};
    if (!has_classes) *work.count = count < work.most ? count : work.most;
  }
}

template <class C>
__global__ void __launch_bounds__(threads) index_kernel(Work<C> work, const int64_t* through) {
  const int64_t first = blockIdx.x * int64_t{threads} + threadIdx.x;
  if (first == 0) *work.count = through[work.n - 1] < work.most ? through[work.n - 1] : work.most;
  for (int64_t rank = first; rank < work.n; rank += gridDim.x * int64_t{threads}) {
    if (work.kept[rank] != 0 && through[rank] <= work.most) work.indices[through[rank] - 1] = work.order[rank];
  }
}

}  // namespace

// Tests all boxes from `begin` on against those kept before, and settles the tile that begins there.
template <int boxes_in_block, class C>
void take_tile(const Work<C>& work, int64_t begin, C threshold, Stream stream) {
  // Nothing is kept before the first tile.
  const int64_t later = begin == 0 ? 0 : (work.n - begin + boxes_in_block - 1) / boxes_in_block;
  const unsigned blocks = static_cast<unsigned>(compare_blocks + later);
  launch_early<sweep_kernel<boxes_in_block, C>>("nms", blocks, threads, 0, stream, work, begin, threshold);
  launch_early<settle_kernel<C>>("nms", 1, tile, 0, stream, work, begin);
}

template <class C>
void suppress(const Work<C>& work, double threshold, void* stream) {
  const auto on = static_cast<Stream>(stream);
  for (int64_t begin = 0; begin < work.n; begin += tile) {
    if (work.n - begin <= few_boxes) {
      take_tile<8>(work, begin, static_cast<C>(threshold), on);
    } else {
      take_tile<32>(work, begin, static_cast<C>(threshold), on);
    }
  }
}

template <class C>
void write_indices(const Work<C>& work, const int64_t* through, void* stream) {
  index_kernel<<<blocks_for(work.n, threads), threads, 0, static_cast<Stream>(stream)>>>(work, through);
  check_launch("nms");
}

template void suppress(const Work<float>&, double, void*);
template void suppress(const Work<double>&, double, void*);
template void write_indices(const Work<float>&, const int64_t*, void*);
template void write_indices(const Work<double>&, const int64_t*, void*);

}  // namespace opsmith::ops::nms::hard_gpu
