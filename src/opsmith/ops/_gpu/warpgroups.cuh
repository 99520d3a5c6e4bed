// Matrix products of a warpgroup, four adjacent warps, that run while its threads go on (wgmma), and copies of whole
// tiles to shared memory. They exist only in code compiled for exactly this capability (sm_90a). Elsewhere
// has_warpgroups is false, and the functions do nothing: call them below `if constexpr (has_warpgroups)`.
#pragma once

#include <opsmith/kernel.h>

#include <type_traits>

#include "barriers.cuh"

namespace opsmith::ops::gpu {
namespace {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
constexpr bool has_warpgroups = true;

// Makes barriers known to the copies that arrive at them.
__device__ inline void show_barriers() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

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

// sum += a b for a of 64 rows in registers of a warpgroup, and b of 128 columns in shared memory, of 32 bytes each.
// Warp w has the rows from 16 * w on: its lanes have them, and sums of them for each eight columns, as for
// multiply_add() in tensor_cores.cuh. The product runs until wait_for_products(), and until then neither a nor sum may
// be touched.
template <class T>
__device__ inline void start_product(float (&s)[64], const uint32_t (&a)[4], uint64_t b) {
// The operands are the same for each type, of which an instruction must be a literal.
#define SHAPE "wgmma.mma_async.sync.aligned.m64n128"
#define OPERANDS                                                                                                     \
  " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "   \
  "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, {%64, %65, %66, "      \
  "%67}, %68, 1, 1, 1"
#define REGISTERS                                                                                             \
  "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7]), "+f"(s[8]), \
      "+f"(s[9]), "+f"(s[10]), "+f"(s[11]), "+f"(s[12]), "+f"(s[13]), "+f"(s[14]), "+f"(s[15]), "+f"(s[16]),  \
      "+f"(s[17]), "+f"(s[18]), "+f"(s[19]), "+f"(s[20]), "+f"(s[21]), "+f"(s[22]), "+f"(s[23]), "+f"(s[24]), \
      "+f"(s[25]), "+f"(s[26]), "+f"(s[27]), "+f"(s[28]), "+f"(s[29]), "+f"(s[30]), "+f"(s[31]), "+f"(s[32]), \
      "+f"(s[33]), "+f"(s[34]), "+f"(s[35]), "+f"(s[36]), "+f"(s[37]), "+f"(s[38]), "+f"(s[39]), "+f"(s[40]), \
      "+f"(s[41]), "+f"(s[42]), "+f"(s[43]), "+f"(s[44]), "+f"(s[45]), "+f"(s[46]), "+f"(s[47]), "+f"(s[48]), \
      "+f"(s[49]), "+f"(s[50]), "+f"(s[51]), "+f"(s[52]), "+f"(s[53]), "+f"(s[54]), "+f"(s[55]), "+f"(s[56]), \
      "+f"(s[57]), "+f"(s[58]), "+f"(s[59]), "+f"(s[60]), "+f"(s[61]), "+f"(s[62]),                           \
      "+f"(s[63]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)
  if constexpr (std::is_same_v<T, float16>) {
    asm volatile(SHAPE "k16.f32.f16.f16" OPERANDS ", 0;" : REGISTERS);
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    asm volatile(SHAPE "k16.f32.bf16.bf16" OPERANDS ", 0;" : REGISTERS);
  } else {
    static_assert(std::is_same_v<T, float>);
    asm volatile(SHAPE "k8.f32.tf32.tf32" OPERANDS ";" : REGISTERS);
  }
#undef REGISTERS
#undef OPERANDS
#undef SHAPE
}
// Goes before products, whose registers are then as they were set, and behind them.
__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// All lanes of a warp wait together, wherever they come from.
__device__ inline void wait_for_products() {
  __syncwarp();
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
#else
constexpr bool has_warpgroups = false;

__device__ inline void show_barriers() {}
__device__ inline void copy_bulk(void*, const void*, int, Barrier&) {}
template <class T>
__device__ inline void start_product(float (&)[64], const uint32_t (&)[4], uint64_t) {}
__device__ inline void begin_products() {}
__device__ inline void end_products() {}
__device__ inline void wait_for_products() {}
#endif

}  // namespace
}  // namespace opsmith::ops::gpu
