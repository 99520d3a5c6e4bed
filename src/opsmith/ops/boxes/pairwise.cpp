// The overlaps of all pairs of boxes, and their gradients, on the CPU.
//
// A loop over the boxes of one set beside each other is made of vectors, for one box of the other set at a time. In the
// backward those beside each other are some whose gradient is added up, in the order of the others: what the sums are
// does not depend on the number of threads.
#include "pairwise.h"

#include <algorithm>
#include <vector>

using namespace opsmith;
using namespace opsmith::ops::box_pairs;

namespace opsmith::ops::box_pairs {
namespace {

template <class C>
Box<C> read_box(const View<const C, 3>& boxes, int64_t batch, int64_t k, Format format) {
  return Box<C>::of(format, boxes(batch, k, 0), boxes(batch, k, 1), boxes(batch, k, 2), boxes(batch, k, 3));
}

// The boxes of a set: a vector for each coordinate, and one of areas.
template <class C>
struct Columns {
  std::vector<C> x1, y1, x2, y2, area;

  Columns(const View<const C, 3>& boxes, int64_t batch, Format format) {
    const size_t count = static_cast<size_t>(boxes.size[1]);
    for (std::vector<C>* column : {&x1, &y1, &x2, &y2, &area}) column->reserve(count);
    for (int64_t k = 0; k < boxes.size[1]; ++k) {
      const Box<C> box = read_box(boxes, batch, k, format);
      x1.push_back(box.x1);
      y1.push_back(box.y1);
      x2.push_back(box.x2);
      y2.push_back(box.y2);
      area.push_back(box.area());
    }
  }

  Box<C> operator[](int64_t k) const {
    const size_t at = static_cast<size_t>(k);
    return {x1[at], y1[at], x2[at], y2[at]};
  }
};

// out[k] = the overlap of one box with n others.
template <bool generalized, class C>
struct OverlapRow {
  Box<C> box;

  OPSMITH_HOST_DEVICE void operator()(int64_t n, const C* __restrict__ x1, const C* __restrict__ y1,
                                      const C* __restrict__ x2, const C* __restrict__ y2, const C* __restrict__ area,
                                      C* __restrict__ out) const {
    const Box<C> own = box;
    const C own_area = own.area();
    for (int64_t k = 0; k < n; ++k) {
      out[k] = overlap_of<generalized>(own, own_area, Box<C>{x1[k], y1[k], x2[k], y2[k]}, area[k]);
    }
  }
};

template <bool generalized, class C>
void overlap_all(const View<const C, 3>& boxes1, const View<const C, 3>& boxes2, Format format, const View<C, 3>& out) {
  constexpr int64_t grain = 16384;  // pairs
  const int64_t rows = boxes1.size[1], columns = boxes2.size[1];
  for (int64_t batch = 0; batch < out.size[0]; ++batch) {
    const Columns<C> others(boxes2, batch, format);
    parallel_for(0, rows, grain / columns + 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        with_best_isa(OverlapRow<generalized, C>{read_box(boxes1, batch, row, format)}, columns, others.x1.data(),
                      others.y1.data(), others.x2.data(), others.y2.data(), others.area.data(), &out(batch, row, 0));
      }
    });
  }
}

constexpr int block = 64;  // boxes whose gradients are added up beside each other
constexpr int tile = 64;   // others in one go

// The slopes of a block of boxes.
template <class C>
struct BlockSums {
  C x1[block], y1[block], x2[block], y2[block], area[block];
};

// Adds the slopes of one pair each, for all boxes of a block and one other.
template <bool generalized, class C>
struct AddSlopes {
  OPSMITH_HOST_DEVICE void operator()(int64_t others, const Columns<C>& other, int64_t first, const C* __restrict__ x1,
                                      const C* __restrict__ y1, const C* __restrict__ x2, const C* __restrict__ y2,
                                      const C* __restrict__ area, const C* __restrict__ gradient,
                                      BlockSums<C>* __restrict__ sums) const {
    for (int64_t k = 0; k < others; ++k, gradient += block) {
      const Box<C> one = other[first + k];
      const C one_area = other.area[static_cast<size_t>(first + k)];
      for (int lane = 0; lane < block; ++lane) {
        Slopes<C> slopes{sums->x1[lane], sums->y1[lane], sums->x2[lane], sums->y2[lane], sums->area[lane]};
        add_slopes<generalized>(Box<C>{x1[lane], y1[lane], x2[lane], y2[lane]}, area[lane], one, one_area,
                                gradient[lane], slopes);
        sums->x1[lane] = slopes.x1;
        sums->y1[lane] = slopes.y1;
        sums->x2[lane] = slopes.x2;
        sums->y2[lane] = slopes.y2;
        sums->area[lane] = slopes.area;
      }
    }
  }
};

// One of the two sets, and where the gradients of its pairs lie.
template <class C>
struct Side {
  const Columns<C>& own;
  const Columns<C>& others;
  int64_t own_count, other_count;
  const C* gradient;  // of the batch
  int64_t own_stride, other_stride;

  // The gradients of `lanes` boxes and `count` others, those of one other side by side; zeros behind the lanes.
  void read(int64_t first_own, int64_t lanes, int64_t first_other, int64_t count, C* to) const {
    if (lanes < block) std::fill_n(to, tile * block, C(0));
    const C* const from = gradient + first_own * own_stride + first_other * other_stride;
    if (own_stride <= other_stride) {
      for (int64_t k = 0; k < count; ++k) {
        for (int64_t lane = 0; lane < lanes; ++lane) to[k * block + lane] = from[k * other_stride + lane * own_stride];
      }
      return;
    }
    for (int64_t lane = 0; lane < lanes; ++lane) {
      for (int64_t k = 0; k < count; ++k) to[k * block + lane] = from[k * other_stride + lane * own_stride];
    }
  }

  template <bool generalized>
  void add(int64_t batch, Format format, const View<C, 3>& out) const {
    parallel_for(0, (own_count + block - 1) / block, 1, [&](int64_t begin, int64_t end) {
      std::vector<C> gradients(block * tile);
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t first = piece * block, lanes = std::min<int64_t>(block, own_count - first);
        const BlockSums<C> boxes = coordinates(first, lanes);
        BlockSums<C> sums{};
        for (int64_t other = 0; other < other_count; other += tile) {
          const int64_t count = std::min<int64_t>(tile, other_count - other);
          read(first, lanes, other, count, gradients.data());
          with_best_isa<AddSlopes<generalized, C>, int64_t, const Columns<C>&>(
              {}, count, others, other, boxes.x1, boxes.y1, boxes.x2, boxes.y2, boxes.area, gradients.data(), &sums);
        }
        for (int64_t lane = 0; lane < lanes; ++lane) {
          const Slopes<C> slopes{sums.x1[lane], sums.y1[lane], sums.x2[lane], sums.y2[lane], sums.area[lane]};
          slopes.write(own[first + lane], format, &out(batch, first + lane, 0), out.stride[2]);
        }
      }
    });
  }

 private:
  // Of the boxes of a block; the last ones are repeated.
  BlockSums<C> coordinates(int64_t first, int64_t lanes) const {
    BlockSums<C> boxes;
    for (int64_t lane = 0; lane < block; ++lane) {
      const Box<C> box = own[first + std::min(lane, lanes - 1)];
      boxes.x1[lane] = box.x1;
      boxes.y1[lane] = box.y1;
      boxes.x2[lane] = box.x2;
      boxes.y2[lane] = box.y2;
      boxes.area[lane] = box.area();
    }
    return boxes;
  }
};

}  // namespace
}  // namespace opsmith::ops::box_pairs

template <class T>
void box_overlaps(View<const T, 3> boxes1, View<const T, 3> boxes2, const char* fmt, bool generalized,
                  View<T, 3> overlaps) {
  const Format format = read_format(fmt);
  if (overlaps.numel() == 0) return;
  with_kind(generalized, [&](auto kind) { overlap_all<decltype(kind)::value>(boxes1, boxes2, format, overlaps); });
}

template <class T>
void box_overlaps_backward(View<const T, 3> grad_overlaps, View<const T, 3> boxes1, View<const T, 3> boxes2,
                           const char* fmt, bool generalized, Needed, View<T, 3> grad_boxes1, View<T, 3> grad_boxes2) {
  const Format format = read_format(fmt);
  const View<const T, 3>& grad = grad_overlaps;
  for (int64_t batch = 0; batch < grad.size[0]; ++batch) {
    const Columns<T> first(boxes1, batch, format), second(boxes2, batch, format);
    const T* const from = grad.data + batch * grad.stride[0];
    const Side<T> rows{first, second, boxes1.size[1], boxes2.size[1], from, grad.stride[1], grad.stride[2]};
    const Side<T> columns{second, first, boxes2.size[1], boxes1.size[1], from, grad.stride[2], grad.stride[1]};
    with_kind(generalized, [&](auto kind) {
      if (grad_boxes1.numel() > 0) rows.template add<decltype(kind)::value>(batch, format, grad_boxes1);
      if (grad_boxes2.numel() > 0) columns.template add<decltype(kind)::value>(batch, format, grad_boxes2);
    });
  }
}
