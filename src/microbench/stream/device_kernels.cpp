#include "microbench/stream/device_kernels.hpp"

namespace isthmus::microbench::stream {

namespace {

/// Number of accesses in flight per thread and array, which lets a GPU hide the latency of its memory.
constexpr unsigned kInFlight = 4;
/// Maximum number of warps of a block, which has at most 1024 threads.
constexpr unsigned kMostWarps = 32;

template <Operation operation>
__device__ inline double result(double first, double second, double scalar) {
  if constexpr (operation == Operation::copy) return first;
  if constexpr (operation == Operation::scale) return scalar * first;
  if constexpr (operation == Operation::add) return first + second;
  if constexpr (operation == Operation::triad) return first + scalar * second;
  return scalar;
}

// for (i = 0; i < count; ++i) out[i] = result(first[i], second[i], scalar);
//
// A block processes kInFlight · blockDim pairs at a time and reads all of them before it writes the first.
template <Operation operation>
__global__ void work(double2* __restrict__ out, const double2* __restrict__ first, const double2* __restrict__ second,
                     double scalar, std::size_t pairs) {
  const std::size_t piece = std::size_t{blockDim.x} * kInFlight;
  for (std::size_t base = blockIdx.x * piece + threadIdx.x; base < pairs; base += gridDim.x * piece) {
    double2 a[kInFlight] = {}, b[kInFlight] = {};
#pragma unroll
    for (unsigned j = 0; j < kInFlight; ++j) {
      const std::size_t i = base + j * blockDim.x;
      if (i >= pairs) continue;
      if constexpr (facts(operation).reads > 0) a[j] = first[i];
      if constexpr (facts(operation).reads > 1) b[j] = second[i];
    }
#pragma unroll
    for (unsigned j = 0; j < kInFlight; ++j) {
      const std::size_t i = base + j * blockDim.x;
      if (i >= pairs) continue;
      double2 value;
      value.x = result<operation>(a[j].x, b[j].x, scalar);
      value.y = result<operation>(a[j].y, b[j].y, scalar);
      out[i] = value;
    }
  }
}

// for (i = 0; i < count; ++i) sums[block that reads i] += from[i];
__global__ void sum_up(const double2* __restrict__ from, std::size_t pairs, double* sums) {
  __shared__ double of_warp[kMostWarps];
  const std::size_t piece = std::size_t{blockDim.x} * kInFlight;
  double2 mine[kInFlight] = {};
  for (std::size_t base = blockIdx.x * piece + threadIdx.x; base < pairs; base += gridDim.x * piece) {
#pragma unroll
    for (unsigned j = 0; j < kInFlight; ++j) {
      const std::size_t i = base + j * blockDim.x;
      if (i >= pairs) continue;
      const double2 value = from[i];
      mine[j].x += value.x;
      mine[j].y += value.y;
    }
  }
  double sum = 0;
#pragma unroll
  for (unsigned j = 0; j < kInFlight; ++j) sum += mine[j].x + mine[j].y;
  for (int lanes = device::warp_size() / 2; lanes > 0; lanes /= 2)
    sum += device::shuffle_xor(device::full_warp(), sum, lanes);
  if (device::lane() == 0) of_warp[device::warp_in_block()] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double all = 0;
  for (unsigned warp = 0; warp < blockDim.x / static_cast<unsigned>(device::warp_size()); ++warp) all += of_warp[warp];
  sums[blockIdx.x] = all;
}

// for (i = 0; i < count; ++i) to[i] = input(seed, array, i);
__global__ void write_input(double* to, std::size_t count, std::uint64_t seed, std::uint64_t array) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    to[i] = input(seed, array, i);
}

// for (i = 0; i < count; ++i) to[i] = NaN;
__global__ void write_poison(unsigned long long* to, std::size_t count) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) to[i] = ~0ULL;
}

template <Operation operation>
auto kernel_of() {
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): the names are null-terminated literals
  return device::Kernel{facts(operation).name.data(), work<operation>};
}

/// Calls `body` with the kernel of an operation that writes.
template <class Body>
void with_kernel(Operation operation, Body body) {
  switch (operation) {
    case Operation::copy:
      return body(kernel_of<Operation::copy>());
    case Operation::scale:
      return body(kernel_of<Operation::scale>());
    case Operation::add:
      return body(kernel_of<Operation::add>());
    case Operation::triad:
      return body(kernel_of<Operation::triad>());
    default:
      return body(kernel_of<Operation::write>());
  }
}

/// Returns a shape with whole warps, so that their lanes can reduce their sums. A read has one wave of blocks, because
/// each block ends with a sum over its threads: on an H200, sixteen waves read 3.86 TB/s, one wave 4.36 TB/s.
device::LaunchShape shape(Operation operation, std::size_t count, BlockRequest blocks,
                          const device::DeviceInfo& device) {
  const auto lanes = static_cast<unsigned>(device.warp_size);
  blocks.threads = std::max(blocks.threads / lanes, 1u) * lanes;
  blocks.waves = facts(operation).writes > 0 ? kStreamingWaves : 1;
  return shape_for(blocks, (count / kPerAccess + kInFlight - 1) / kInFlight, device);
}

}  // namespace

DescribedLaunch describe(Operation operation, std::size_t count, const BlockRequest& blocks,
                         const device::DeviceInfo& device) {
  DescribedLaunch launched;
  launched.shape = shape(operation, count, blocks, device);
  if (operation == Operation::read) {
    launched.info = device::kernel_info(device::Kernel{"read", sum_up}, launched.shape);
  } else {
    with_kernel(operation, [&](auto kernel) { launched.info = device::kernel_info(kernel, launched.shape); });
  }
  return launched;
}

void queue(device::Stream& stream, Operation operation, const Arrays& arrays, double* sums, const BlockRequest& blocks,
           const device::DeviceInfo& device) {
  const auto launch_shape = shape(operation, arrays.count, blocks, device);
  const auto* first = reinterpret_cast<const double2*>(arrays.first);
  const auto* second = reinterpret_cast<const double2*>(arrays.second);
  const std::size_t pairs = arrays.count / kPerAccess;
  if (operation == Operation::read)
    return launch(stream, device::Kernel{"read", sum_up}, launch_shape, first, pairs, sums);
  with_kernel(operation, [&](auto kernel) {
    launch(stream, kernel, launch_shape, reinterpret_cast<double2*>(arrays.out), first, second, kScalar, pairs);
  });
}

void queue_input(device::Stream& stream, double* to, std::size_t count, std::uint64_t seed, std::uint64_t array,
                 const device::DeviceInfo& device) {
  launch(stream, ISTHMUS_KERNEL(write_input), shape_for({.threads = 256}, count, device), to, count, seed, array);
}

void queue_poison(device::Stream& stream, double* to, std::size_t count, const device::DeviceInfo& device) {
  launch(stream, ISTHMUS_KERNEL(write_poison), shape_for({.threads = 256}, count, device),
         reinterpret_cast<unsigned long long*>(to), count);
}

}  // namespace isthmus::microbench::stream
