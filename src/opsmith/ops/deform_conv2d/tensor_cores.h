// Instructions of NVIDIA's tensor cores, copies to shared memory that nobody waits for, and barriers that count who has
// arrived: what the GPU kernels' products are made of. Elsewhere has_tensor_cores is false, and what stands in their
// place is not called.
#pragma once

#include <opsmith/kernel.h>

#include <type_traits>

namespace {

using namespace opsmith;

template <class T>
constexpr bool is_half = sizeof(T) == 2;

// Factors come by steps of 64 bytes of summands, of which a thread brings 16 at once.
constexpr int step_bytes = 64, copy_bytes = 16;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
constexpr bool has_tensor_cores = true;

__device__ inline uint32_t shared_address(const void* address) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(address));
}

// Four matrices of 8 x 8 16-bit elements. Lane l gives the place of row l % 8 of matrix l / 8, and gets of each matrix
// the elements 2 * (l % 4) and the next of row l / 4; of its transposed where `transposed`. Not transposed, these are
// also matrices of 8 x 4 floats: the lane gets element l % 4 of row l / 4.
template <bool transposed>
__device__ inline void load_matrices(uint32_t (&to)[4], uint32_t from) {
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
  }
}

// sum += a b for a of 16 rows and b of 8 columns of 32 bytes each. Lane l has of the sum the rows l / 4 and 8 more, and
// the columns 2 * (l % 4) and the next; of the factors the 4 bytes l % 4 and those 16 bytes further, of row l / 4 of a
// first and then of 8 rows more, and of column l / 4 of b. Floats count with ten bits of their fraction (TF32).
template <class T>
__device__ inline void multiply_add(float* sum, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, float16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    static_assert(std::is_same_v<T, float>);
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

__device__ inline float round_to_tf32(float value) {
  uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
  return __uint_as_float(rounded);
}

// Two floats rounded to 16 bits, the first in the lower half: one instruction where single ones would take three.
template <class T>
__device__ inline uint32_t round_two(float low, float high) {
  uint32_t both;
  if constexpr (std::is_same_v<T, float16>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  }
  return both;
}

// Stores 16 bytes to global memory at once, which nvcc does not do where they are put together from elements of 16
// bits.
__device__ inline void store_16_bytes(void* to, const Vector<uint32_t, 4>& from) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(from.item[0]),
               "r"(from.item[1]), "r"(from.item[2]), "r"(from.item[3])
               : "memory");
}

// Copies 16 bytes to shared memory while the thread goes on, or sets them to zero and reads nothing.
__device__ inline void copy_async(void* to, const void* from, bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
               "l"(__cvta_generic_to_global(from)), "r"(is_there ? 16 : 0)
               : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until no more than `left` groups of copies are on their way.
template <int left>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

// How many lanes arrive for a warp: one, because each takes its time. compute-sanitizer's racecheck follows threads and
// not warps; `opsmith check --sanitize racecheck` defines this, and all of them arrive.
#if defined(OPSMITH_RACECHECK)
constexpr int arriving_lanes = 32;
#else
constexpr int arriving_lanes = 1;
#endif

// A barrier in shared memory, at which some threads arrive, and for which others wait. A phase of it ends when
// `arrivals` of them have arrived; phases are waited for by their number, from 0 on, and none while the one after the
// next is on.
struct Barrier {
  uint64_t state;

  // By one thread, and seen by the others after __syncthreads().
  __device__ void init(int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(arrivals) : "memory");
  }
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
  }
  // All lanes of a warp are here; these are `arriving_lanes` arrivals.
  __device__ void warp_arrives() {
    __syncwarp();
    if (threadIdx.x % 32 < arriving_lanes) arrive();
  }
  __device__ void wait(int phase) {
    while (!has_ended(phase % 2)) {
#if __CUDA_ARCH__ < 900
      __nanosleep(20);  // in place of asking again, which takes turns from those who are waited for
#endif
    }
  }

 private:
  __device__ bool has_ended(int parity) {
    uint32_t ended;
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
#if __CUDA_ARCH__ >= 900
        "mbarrier.try_wait.parity.shared.b64 ended, [%1], %2;\n"  // the thread sleeps for a while
#else
        "mbarrier.test_wait.parity.shared.b64 ended, [%1], %2;\n"
#endif
        "selp.u32 %0, 1, 0, ended;\n"
        "}"
        : "=r"(ended)
        : "r"(shared_address(this)), "r"(parity)
        : "memory");
    return ended != 0;
  }
};

// Waits for `threads` of a block, whole warps, where the others have ended or do not come.
template <int threads>
__device__ inline void meet_threads() {
  asm volatile("bar.sync 1, %0;" ::"n"(threads) : "memory");
}
#else
constexpr bool has_tensor_cores = false;

__device__ inline uint32_t shared_address(const void*) { return 0; }
template <bool transposed>
__device__ inline void load_matrices(uint32_t (&)[4], uint32_t) {}
template <class T>
__device__ inline void multiply_add(float*, const uint32_t (&)[4], uint32_t, uint32_t) {}
__device__ inline float round_to_tf32(float value) { return value; }
template <class T>
__device__ inline uint32_t round_two(float, float) {
  return 0;
}
__device__ inline void store_16_bytes(void* to, const Vector<uint32_t, 4>& from) {
  *static_cast<Vector<uint32_t, 4>*>(to) = from;
}
__device__ inline void copy_async(void* to, const void* from, bool is_there) {
  using Bytes = Vector<uint32_t, 4>;
  *static_cast<Bytes*>(to) = is_there ? *static_cast<const Bytes*>(from) : Bytes{};
}
__device__ inline void commit_copies() {}
template <int>
__device__ void wait_for_copies() {}
constexpr int arriving_lanes = 1;
struct Barrier {
  uint64_t state;

  __device__ void init(int) {}
  __device__ void arrive() {}
  __device__ void warp_arrives() {}
  __device__ void wait(int) {}
};
template <int threads>
__device__ inline void meet_threads() {
  __syncthreads();
}
#endif

}  // namespace
