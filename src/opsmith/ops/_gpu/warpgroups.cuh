// Matrix products of a warpgroup, four adjacent warps, that run while its threads go on (wgmma), copies of whole tiles
// to shared memory, and what blocks need that have some warpgroups bring factors and others multiply them. They exist
// only in code compiled for exactly this capability (sm_90a). Elsewhere has_warpgroups is false, and the functions do
// nothing: call them below `if constexpr (has_warpgroups)`.
#pragma once

#include <opsmith/kernel.h>

#include <type_traits>

#include "barriers.cuh"

namespace opsmith::ops::gpu {
namespace {

// How a product finds a tile in shared memory whose lines are `line_bytes` long, 64 or 128: its address, how far eight
// lines reach, and that chunks of 16 bytes are exchanged within a line: by those of 128 bytes chunk c of line l is at c
// ^ l % 8, by those of 64 bytes at c ^ l / 2 % 4. The tile begins at a multiple of eight lines. To begin further inside
// the lines, add the bytes / 16.
template <int line_bytes>
__device__ inline uint64_t tile_at(const void* tile) {
  static_assert(line_bytes == 64 || line_bytes == 128);
  constexpr uint64_t eight_lines = 8 * line_bytes / 16, exchanged = line_bytes == 128 ? 1 : 2;
  return shared_address(tile) / 16 | uint64_t{1} << 16 | eight_lines << 32 | exchanged << 62;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
constexpr bool has_warpgroups = true;

// Shows what this thread has stored to shared memory to copies and products, which run by themselves: barriers, and
// what products read once it has met their thread.
__device__ inline void show_shared_memory() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Copies a multiple of 16 bytes to shared memory while the thread goes on. The thread arrives at the barrier, whose
// phase does not end before the bytes are there.
__device__ inline void copy_bulk(void* to, const void* from, int bytes, Barrier& barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(&barrier))
               : "memory");
}

// Goes before products, whose registers are then as they were set, and behind them.
__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most `left` groups of products, each ended by end_products(), are still running.
template <int left>
__device__ inline void wait_for_product_groups() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}

// All threads of a warpgroup take or give registers, so that each has `count`, a multiple of 8.
template <int count>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

// The operands are the same for each type, of which an instruction must be a literal.
#define OPSMITH_EIGHT(s, i)                                                                                   \
  "+f"(s[i]), "+f"(s[i + 1]), "+f"(s[i + 2]), "+f"(s[i + 3]), "+f"(s[i + 4]), "+f"(s[i + 5]), "+f"(s[i + 6]), \
      "+f"(s[i + 7])
#define OPSMITH_64(s, i)                                                                            \
  OPSMITH_EIGHT(s, i), OPSMITH_EIGHT(s, i + 8), OPSMITH_EIGHT(s, i + 16), OPSMITH_EIGHT(s, i + 24), \
      OPSMITH_EIGHT(s, i + 32), OPSMITH_EIGHT(s, i + 40), OPSMITH_EIGHT(s, i + 48), OPSMITH_EIGHT(s, i + 56)

// sum += a b, or = a b unless `adds`, for a of 64 rows and b of 128 columns of 32 bytes each. Warp w of the warpgroup
// has the rows from 16 * w on: its lanes have sums of them for each eight columns, as for multiply_add() in
// tensor_cores.cuh. The product runs until a wait; until then neither the factors nor sum may be touched.
template <class T>
__device__ inline void start_product(float (&s)[64], uint64_t a, uint64_t b, bool adds) {
#define OPSMITH_PRODUCT(types, transposed)                                                                   \
  asm volatile(                                                                                              \
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %66, 0;\n"                                                     \
      "wgmma.mma_async.sync.aligned.m64n128" types                                                           \
      " {"                                                                                                   \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, " \
      "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, " \
      "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, " \
      "%62, %63}, "                                                                                          \
      "%64, %65, adds, 1, 1" transposed ";\n}"                                                               \
      : OPSMITH_64(s, 0)                                                                                     \
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)))
  if constexpr (std::is_same_v<T, float16>) {
    OPSMITH_PRODUCT("k16.f32.f16.f16", ", 0, 0");
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    OPSMITH_PRODUCT("k16.f32.bf16.bf16", ", 0, 0");
  } else {
    static_assert(std::is_same_v<T, float>);
    OPSMITH_PRODUCT("k8.f32.tf32.tf32", "");
  }
#undef OPSMITH_PRODUCT
}

#undef OPSMITH_64
#undef OPSMITH_EIGHT
#else
constexpr bool has_warpgroups = false;

__device__ inline void show_shared_memory() {}
__device__ inline void copy_bulk(void*, const void*, int, Barrier&) {}
__device__ inline void begin_products() {}
__device__ inline void end_products() {}
template <int left>
__device__ inline void wait_for_product_groups() {}
template <int count>
__device__ inline void take_registers() {}
template <int count>
__device__ inline void give_registers() {}
template <class T>
__device__ inline void start_product(float (&)[64], uint64_t, uint64_t, bool) {}
#endif

}  // namespace
}  // namespace opsmith::ops::gpu
