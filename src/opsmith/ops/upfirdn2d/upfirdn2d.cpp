// upfirdn2d on the CPU: one filter (stage.h) for each piece of the output.
#include "../_filters/pieces.h"
#include "../_filters/stage.h"

using namespace opsmith;
using namespace opsmith::ops::filters;

namespace opsmith::ops::upfirdn2d {
namespace {

template <class T>
void resample(const View<const T, 4>& x, const View<const float, 2>& f, const Filtering& filtering,
              const View<T, 4>& out) {
  using C = compute_t<T>;
  if (out.numel() == 0) return;
  const Taps<C> taps(f, filtering);
  const Pieces pieces(out, (is_side_by_side(x) && is_side_by_side(out)) || has_short_rows(x, out));
  parallel_for(0, pieces.count(), 1, [&](int64_t begin, int64_t end) {
    Stage<C> whole(filtering, taps, pieces.unit);
    std::vector<C> row(static_cast<size_t>((x.size[3] > out.size[3] ? x.size[3] : out.size[3]) * pieces.unit));
    for (int64_t index = begin; index < end; ++index) {
      const Piece piece = pieces[index];
      const View<const T, 3> from = rows_of(x, piece);
      const View<T, 3> to = rows_of(out, piece);
      const auto run = [&](Stage<C>& stage) {
        stage.begin(piece.begin);
        for (int64_t o = piece.begin; o < piece.end; ++o) {
          const C* phases =
              stage.row(o, [&](int64_t r, C* lines) { deal_out(row_of(from, r), stage.rows, row, lines); });
          write_row(phases, stage.rows, row, row_of(to, o));
        }
      };
      if (piece.count == pieces.unit) {
        run(whole);
      } else {
        Stage<C> rest(filtering, taps, piece.count);
        run(rest);
      }
    }
  });
}

}  // namespace
}  // namespace opsmith::ops::upfirdn2d

using namespace opsmith::ops::upfirdn2d;

template <class T>
void upfirdn2d_sized(View<const T, 4> x, View<const float, 2> f, Resampling resampling, View<T, 4> out) {
  resample(x, f, read_arguments(f, resampling), out);
}

template <class T>
void upfirdn2d_transposed(View<const T, 4> grad_out, View<const float, 2> f, Resampling resampling, View<T, 4> grad_x) {
  resample(grad_out, f, read_arguments(f, resampling).transposed(), grad_x);
}
