// y = a·x + y on two vectors, in place, `iterations` times per element.

#include "microbench/kernels/choices.hpp"
#include "microbench/kernels/plain.hpp"
#include "microbench/kernels/shared_reuse.hpp"
#include "microbench/kernels/vectors.hpp"

namespace isthmus::microbench {
namespace {

using namespace workload;
using device::BulkBarrier;
using device::TilePipeline;

constexpr float a = kSaxpyFactor;

using Tiles = Choices<256, 512, 1024, 2048, 4096, 8192, 16384>;
constexpr std::size_t unit = 16384;  // elements per unit of `streamed`, a multiple of every tile size

__device__ inline void step(const float4& x, float4& y) {
  y.x = a * x.x + y.x;
  y.y = a * x.y + y.y;
  y.z = a * x.z + y.z;
  y.w = a * x.w + y.w;
}

__device__ inline float iterate(float x, float y, unsigned iterations) {
  for (unsigned k = 0; k < iterations; ++k) y = a * x + y;
  return y;
}

// for (i = 0; i < n; ++i)
//   for (k = 0; k < iterations; ++k) y[i] = a * x[i] + y[i];
//
// Each thread loads two vectors of x and y, so that four loads are in flight before the first use.
constexpr unsigned vectors_per_thread = 2;
__global__ void saxpy_none(const float* __restrict__ x, float* __restrict__ y, std::size_t n, unsigned iterations) {
  const float4* xs = reinterpret_cast<const float4*>(x);
  float4* ys = reinterpret_cast<float4*>(y);
  const std::size_t whole = n / 4;
  const std::size_t piece = std::size_t{blockDim.x} * vectors_per_thread;
  for (std::size_t base = blockIdx.x * piece; base < whole; base += gridDim.x * piece) {
    float4 x_value[vectors_per_thread] = {}, y_value[vectors_per_thread] = {};
    const std::size_t first = base + threadIdx.x;
#pragma unroll
    for (unsigned j = 0; j < vectors_per_thread; ++j) {
      if (first + j * blockDim.x < whole) {
        x_value[j] = xs[first + j * blockDim.x];
        y_value[j] = ys[first + j * blockDim.x];
      }
    }
#pragma unroll 4
    for (unsigned k = 0; k < iterations; ++k) {
#pragma unroll
      for (unsigned j = 0; j < vectors_per_thread; ++j) step(x_value[j], y_value[j]);
    }
#pragma unroll
    for (unsigned j = 0; j < vectors_per_thread; ++j) {
      if (first + j * blockDim.x < whole) ys[first + j * blockDim.x] = y_value[j];
    }
  }
  const std::size_t i = whole * 4 + threadIdx.x;
  if (blockIdx.x == 0 && i < n) y[i] = iterate(x[i], y[i], iterations);
}

// Computes the same, tile by tile through shared memory. A buffer contains a tile of x and one of y. With reuse_shared,
// y is written back to shared memory after each iteration, as in the original.
template <TileStaging staging, unsigned Depth, bool reuse_shared>
__global__ void saxpy_staged(const float* x, float* y, std::size_t n, unsigned tile_elements, unsigned iterations) {
  float* tiles = device::dynamic_shared<float>();
  __shared__ BulkBarrier arrived[device::pipeline_barriers<staging, Depth>];
  TilePipeline<staging, Depth> pipeline(arrived);
  const BlockTiles mine{n, tile_elements};
  pipeline.run(
      mine.count(),
      [&](auto& copier, unsigned stage, std::uint64_t tile) {
        float* buffer = tiles + stage * 2 * tile_elements;
        copier.run(buffer, x + mine.first(tile), mine.size(tile));
        copier.run(buffer + tile_elements, y + mine.first(tile), mine.size(tile));
      },
      [&](unsigned stage, std::uint64_t tile) {
        const float* x_in = tiles + stage * 2 * tile_elements;
        float* y_in = tiles + stage * 2 * tile_elements + tile_elements;
        float* out = y + mine.first(tile);
        const unsigned elements = mine.size(tile);
        if constexpr (reuse_shared) {
          const volatile float* x_kept = x_in;
          iterate_in_shared(
              threadIdx.x, blockDim.x, elements, iterations, [&](unsigned i) { return y_in + i; },
              [&](float value, unsigned i) { return a * x_kept[i] + value; });
          for (unsigned i = threadIdx.x; i < elements; i += blockDim.x) out[i] = y_in[i];
        } else {
          const unsigned whole = elements / 4;
          for (unsigned i = threadIdx.x; i < whole; i += blockDim.x) {
            const float4 x_value = reinterpret_cast<const float4*>(x_in)[i];
            float4 y_value = reinterpret_cast<const float4*>(y_in)[i];
#pragma unroll 8
            for (unsigned k = 0; k < iterations; ++k) step(x_value, y_value);
            reinterpret_cast<float4*>(out)[i] = y_value;
          }
          for (unsigned i = whole * 4 + threadIdx.x; i < elements; i += blockDim.x) {
            out[i] = iterate(x_in[i], y_in[i], iterations);
          }
        }
      });
}

void run(Case& c) {
  const std::size_t n = c.extent("n");
  const auto iterations = static_cast<unsigned>(c.integer("iterations"));
  const Staging staging = available_staging(c);

  const auto x_values = uniform(c.seed(), 0, -1, 1);
  const auto y_values = uniform(c.seed(), 1, -1, 1);
  const memory::Split split{.unit_bytes = unit * sizeof(float), .halo = 0};
  auto x = c.input<float>("x", n, x_values, split);
  auto y = c.inout<float>("y", n, y_values, split);
  c.verify(y, [=](std::size_t i) { return double{y_values(i)} + iterations * double{a} * x_values(i); },
           {.absolute = saxpy_tolerance(iterations), .relative = 0});

  VectorKernels kernels(c, unit, {.bytes_read = 8.0 * n, .bytes_written = 4.0 * n, .flops = 2.0 * n * iterations}, x,
                        y);
  if (staging == Staging::none) {
    refuse_reuse_without_tiles(c);
    kernels.measure(ISTHMUS_KERNEL(saxpy_none), 0, c.extent("threads") * vectors_per_thread * 4, 0);
  } else {
    kernels.staged(staging, [&](auto how, auto depth, auto shared) {
      const auto tile = static_cast<unsigned>(tile_elements(c, 2 * depth(), Tiles::allowed()));
      kernels.measure(device::Kernel{"saxpy_staged", saxpy_staged<how(), depth(), shared()>},
                      shared_bytes_for(c, 2 * depth() * tile * sizeof(float)), tile, 1, tile);
    });
  }
}

Workload workload() {
  Workload w = micro_workload("saxpy", run, "y = a*x + y on two vectors, in place");
  w.axis(number_axis("n", "elements of each vector", 2097152));
  add_geometry_axes(w, {});
  add_vector_axes(w, Tiles::allowed());
  add_vector_sizes(w, 4);
  add_paper_preset(w, {{"iterations", 100}, {"reuse", "shared"}, {"tile", 2048}});
  return w;
}

const Registration registration = workload();

}  // namespace

void queue_saxpy(device::Stream& stream, const float* x, float* y, std::size_t n) {
  constexpr unsigned threads = 256;
  const auto blocks = static_cast<unsigned>(divide_up(n, std::uint64_t{threads} * vectors_per_thread * 4));
  launch(stream, ISTHMUS_KERNEL(saxpy_none), {.grid = blocks, .block = threads}, x, y, n, 1u);
}

}  // namespace isthmus::microbench
