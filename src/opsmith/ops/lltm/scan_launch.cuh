// Launching a kernel of a whole sequence: how many blocks make a cluster, how many rows it takes, and whether the GPU
// can run it.
#pragma once

#include <opsmith/atomic.h>
#include <opsmith/kernel.h>

#include "scan_products.cuh"

namespace opsmith::ops::lltm {

namespace {

// The most units that a persistent kernel serves: what 8 blocks, or 16 for floats, hold of the weight in registers.
constexpr int most_units = 512;

constexpr int most_devices = 64, most_blocks = 16;  // blocks of a cluster

// A kernel with what its launch needs, and what is known of it: for each device and size of a cluster, 0 or one more
// than the number of clusters that run at once.
template <class Argument>
struct ScanKernel {
  void (*run)(Argument, int);
  int bytes;
  int rows;
  Atomic<int>* known;
};

template <class T>
int blocks_of_cluster(int64_t state) {
  constexpr int units = ScanShape<T>::units;
  return static_cast<int>((state + units - 1) / units);
}

template <class Argument>
cudaLaunchConfig_t configure(const ScanKernel<Argument>& kernel, int blocks, int64_t batch,
                             cudaLaunchAttribute& cluster, void* stream) {
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = blocks;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>((batch + kernel.rows - 1) / kernel.rows * blocks));
  config.blockDim = dim3(scan_threads);
  config.dynamicSmemBytes = kernel.bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &cluster;
  config.numAttrs = 1;
  return config;
}

// How many clusters of this kernel the current GPU runs at once; 0 where it can run none. Setting the attributes that a
// launch needs is a part of asking.
template <class Argument>
int find_clusters(const ScanKernel<Argument>& kernel, int blocks) {
  cudaFuncAttributes attributes{};
  // A GPU with clusters may still have got code that was compiled for older ones, where the kernel's body is empty.
  const bool can =
      cudaFuncGetAttributes(&attributes, kernel.run) == cudaSuccess && attributes.ptxVersion >= 90 &&
      cudaFuncSetAttribute(kernel.run, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.bytes) == cudaSuccess &&
      // More than 8 blocks are not promised by every GPU with clusters.
      cudaFuncSetAttribute(kernel.run, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) == cudaSuccess;
  int clusters = 0;
  if (can) {
    cudaLaunchAttribute cluster;
    const cudaLaunchConfig_t config = configure(kernel, blocks, kernel.rows, cluster, nullptr);
    if (cudaOccupancyMaxActiveClusters(&clusters, kernel.run, &config) != cudaSuccess) clusters = 0;
  }
  cudaGetLastError();  // a refusal is an answer here, and no error of the next launch
  return clusters;
}

// The same, asked once. Two threads that ask at the same time get one answer.
template <class Argument>
int clusters_at_once(const ScanKernel<Argument>& kernel, int blocks) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= most_devices) return find_clusters(kernel, blocks);
  Atomic<int>& answer = kernel.known[device * (most_blocks + 1) + blocks];
  if (answer.load() == 0) answer.store(1 + find_clusters(kernel, blocks));
  return answer.load() - 1;
}

template <class Argument, int bytes, int rows>
ScanKernel<Argument> scan_kernel(void (*run)(Argument, int)) {
  static Atomic<int> known[most_devices * (most_blocks + 1)];
  return {run, bytes, rows, known};
}

// Launches one of two kernels that differ in the rows a cluster takes: few, which go fastest, or many, where the
// clusters of few would have to wait for each other. Either may be the same. False where the GPU cannot run it, and
// where a cluster would have to wait more often than pays off.
template <class Argument>
bool launch_scan(const char* op, const ScanKernel<Argument>& few, const ScanKernel<Argument>& many, int most_turns,
                 int blocks, int64_t batch, const Argument& argument, void* stream) {
  const bool is_few = batch <= static_cast<int64_t>(clusters_at_once(few, blocks)) * few.rows;
  const ScanKernel<Argument>& kernel = is_few ? few : many;
  const int64_t most_rows = static_cast<int64_t>(clusters_at_once(kernel, blocks)) * kernel.rows * most_turns;
  if (batch > most_rows) return false;
  cudaLaunchAttribute cluster;
  const cudaLaunchConfig_t config = configure(kernel, blocks, batch, cluster, stream);
  // The error of a refused launch is what check_launch finds.
  cudaLaunchKernelEx(&config, kernel.run, argument, blocks);
  check_launch(op);
  return true;
}

}  // namespace

}  // namespace opsmith::ops::lltm
