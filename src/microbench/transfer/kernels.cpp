#include "microbench/transfer/kernels.hpp"

#include <algorithm>

#include "microbench/launch_shape.hpp"

namespace isthmus::microbench::transfer {

namespace {

/// Number of elements in flight per thread, which lets a GPU hide a microsecond of link latency.
constexpr unsigned kInFlight = 4;

// for (i = 0; i < count; ++i) to[i] = from[i];
//
// A block copies kInFlight · blockDim elements at a time and reads all of them before it writes the first.
template <class T>
__global__ void copy_contiguous(T* __restrict__ to, const T* __restrict__ from, std::size_t count) {
  const std::size_t piece = std::size_t{blockDim.x} * kInFlight;
  for (std::size_t base = blockIdx.x * piece + threadIdx.x; base < count; base += gridDim.x * piece) {
    T value[kInFlight] = {};
#pragma unroll
    for (unsigned j = 0; j < kInFlight; ++j) {
      if (base + j * blockDim.x < count) value[j] = from[base + j * blockDim.x];
    }
#pragma unroll
    for (unsigned j = 0; j < kInFlight; ++j) {
      if (base + j * blockDim.x < count) to[base + j * blockDim.x] = value[j];
    }
  }
}

// Copies the same elements in another order: neighbours within a run are `lines` turns apart, so that turn t copies
// element (t % lines) · run + t / lines.
template <class T>
__global__ void copy_strided(T* __restrict__ to, const T* __restrict__ from, std::size_t lines, std::size_t run) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t turn = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; turn < lines * run; turn += stride) {
    const std::size_t i = turn % lines * run + turn / lines;
    to[i] = from[i];
  }
}

// Copies the same elements; each thread copies whole runs.
template <class T>
__global__ void copy_chunked(T* __restrict__ to, const T* __restrict__ from, std::size_t lines, std::size_t run) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t line = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; line < lines; line += stride) {
#pragma unroll 4
    for (std::size_t i = line * run; i < (line + 1) * run; ++i) to[i] = from[i];
  }
}

/// Distances in a box, in elements.
struct Rows {
  std::size_t pitch, plane;  // between rows, between planes
};

// for each plane p, row r, element c: to[p][r][c] = from[p][r][c];
template <class T>
__global__ void copy_box(T* __restrict__ to, Rows to_rows, const T* __restrict__ from, Rows from_rows,
                         std::size_t columns, std::size_t rows, std::size_t planes) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  const std::size_t count = columns * rows * planes;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const std::size_t column = i % columns, row = i / columns % rows, plane = i / columns / rows;
    to[plane * to_rows.plane + row * to_rows.pitch + column] =
        from[plane * from_rows.plane + row * from_rows.pitch + column];
  }
}

// for (i = 0; i < count; i += step) *sum += from[i];
__global__ void touch(const unsigned long long* __restrict__ from, std::size_t count, std::size_t step,
                      unsigned long long* sum) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x * step;
  unsigned long long mine = 0;
  for (std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) * step; i < count; i += stride)
    mine += from[i];
  if (mine != 0) atomicAdd(sum, mine);
}

// for (i = 0; i < bytes; i += page) range[i] = 0;
//
// Each warp writes to one page at a time (commscope-icpe2019, section 3.4).
__global__ void write_pages(unsigned char* range, std::size_t bytes, std::size_t page) {
  const std::size_t warps = blockDim.x / static_cast<unsigned>(device::warp_size());
  const std::size_t first = blockIdx.x * warps + static_cast<unsigned>(device::warp_in_block());
  if (device::lane() != 0) return;
  for (std::size_t i = first * page; i < bytes; i += gridDim.x * warps * page) range[i] = 0;
}

// place = turn == 0 ? 0 : *at;
// for (hop = 0; hop < hops; ++hop) place = chain[place * step];
// *at = place;
//
// Only block `turn` runs the chain; the other blocks make it run on a different multiprocessor each turn. Accesses are
// volatile to bypass the first-level cache, which could return stale values of another device's memory.
__global__ void chase(const std::uint64_t* chain, std::size_t step, std::size_t hops, unsigned turn,
                      std::uint64_t* at) {
  if (blockIdx.x != turn) return;
  std::uint64_t place = turn == 0 ? 0 : *at;
#pragma unroll 8
  for (std::size_t hop = 0; hop < hops; ++hop) place = static_cast<const volatile std::uint64_t*>(chain)[place * step];
  *at = place;
}

device::LaunchShape shape_for(const CopyGeometry& geometry, std::uint64_t turns, const device::DeviceInfo& device,
                              unsigned waves = 1) {
  return microbench::shape_for(
      {.threads = geometry.threads, .grid = geometry.grid, .waves = waves, .sharers = geometry.sharers}, turns, device);
}

template <class Body>
void with_width(unsigned width, Body body) {
  switch (width) {
    case 4:
      return body(std::uint32_t{});
    case 8:
      return body(uint2{});
    default:
      return body(uint4{});
  }
}

template <class T>
device::LaunchShape contiguous_shape(const CopyGeometry& geometry, std::size_t bytes,
                                     const device::DeviceInfo& device) {
  return shape_for(geometry, (bytes / sizeof(T) + kInFlight - 1) / kInFlight, device, kStreamingWaves);
}

}  // namespace

DescribedLaunch describe_copy(const CopyGeometry& geometry, std::size_t bytes, const device::DeviceInfo& device) {
  DescribedLaunch launched;
  with_width(geometry.width, [&](auto element) {
    using T = decltype(element);
    launched.shape = contiguous_shape<T>(geometry, bytes, device);
    launched.info = device::kernel_info(device::Kernel{"copy_contiguous", copy_contiguous<T>}, launched.shape);
  });
  return launched;
}

void queue_copy(device::Stream& stream, void* to, const void* from, std::size_t bytes, const CopyGeometry& geometry,
                const device::DeviceInfo& device) {
  with_width(geometry.width, [&](auto element) {
    using T = decltype(element);
    auto* out = static_cast<T*>(to);
    const auto* in = static_cast<const T*>(from);
    const std::size_t count = bytes / sizeof(T);
    if (geometry.order == Order::contiguous) {
      launch(stream, device::Kernel{"copy_contiguous", copy_contiguous<T>},
             contiguous_shape<T>(geometry, bytes, device), out, in, count);
      return;
    }
    const std::size_t run = std::max<std::size_t>(1, geometry.stride / sizeof(T));
    const std::size_t lines = count / run;  // no remainder: the caller has checked
    if (geometry.order == Order::strided) {
      launch(stream, device::Kernel{"copy_strided", copy_strided<T>}, shape_for(geometry, count, device), out, in,
             lines, run);
    } else {
      launch(stream, device::Kernel{"copy_chunked", copy_chunked<T>}, shape_for(geometry, lines, device), out, in,
             lines, run);
    }
  });
}

void queue_box_copy(device::Stream& stream, void* to, const Box& to_box, const void* from, const Box& from_box,
                    const CopyGeometry& geometry, const device::DeviceInfo& device) {
  with_width(geometry.width, [&](auto element) {
    using T = decltype(element);
    const auto rows = [](const Box& box) {
      return Rows{box.pitch / sizeof(T), box.pitch / sizeof(T) * box.plane_rows};
    };
    launch(stream, device::Kernel{"copy_box", copy_box<T>}, shape_for(geometry, from_box.payload() / sizeof(T), device),
           static_cast<T*>(to), rows(to_box), static_cast<const T*>(from), rows(from_box),
           from_box.row_bytes / sizeof(T), from_box.rows, from_box.planes);
  });
}

void queue_touch(device::Stream& stream, std::byte* range, std::size_t bytes, std::size_t page, Touch touch_how,
                 std::uint64_t* sum, const CopyGeometry& geometry, const device::DeviceInfo& device) {
  if (touch_how == Touch::write) {
    // Threads form whole warps, so that each warp has a page.
    CopyGeometry warps = geometry;
    const auto lanes = static_cast<unsigned>(device.warp_size);
    warps.threads = std::max(geometry.threads / lanes, 1u) * lanes;
    launch(stream, ISTHMUS_KERNEL(write_pages), shape_for(warps, bytes / page * lanes, device),
           reinterpret_cast<unsigned char*>(range), bytes, page);
    return;
  }
  const std::size_t step = touch_how == Touch::whole ? 1 : page / sizeof(std::uint64_t);
  const std::size_t count = bytes / sizeof(std::uint64_t);
  launch(stream, ISTHMUS_KERNEL(touch), shape_for(geometry, (count + step - 1) / step, device),
         reinterpret_cast<const unsigned long long*>(range), count, step, reinterpret_cast<unsigned long long*>(sum));
}

void queue_chase(device::Stream& stream, const std::uint64_t* chain, std::size_t step, std::size_t hops,
                 unsigned blocks, std::uint64_t* end) {
  for (unsigned turn = 0; turn < blocks; ++turn) {
    const std::size_t before = hops * turn / blocks, after = hops * (turn + 1) / blocks;
    launch(stream, ISTHMUS_KERNEL(chase), {.grid = blocks, .block = 1}, chain, step, after - before, turn, end);
  }
}

}  // namespace isthmus::microbench::transfer
