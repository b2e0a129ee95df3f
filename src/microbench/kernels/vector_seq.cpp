// v = alpha·v + beta on one vector in place, `iterations` times per element, elements visited in order.

#include <cmath>

#include "microbench/kernels/choices.hpp"
#include "microbench/kernels/shared_reuse.hpp"
#include "microbench/kernels/vectors.hpp"

namespace isthmus::microbench {
namespace {

using namespace workload;
using device::BulkBarrier;
using device::TilePipeline;

// All values are bounded, because |alpha| < 1. The factor 1 - 2^-7 keeps half of the input over 100 iterations, so that
// a wrong input is noticed.
constexpr float alpha = 0.9921875f;
constexpr float beta = 0.375f;

using Tiles = Choices<256, 512, 1024, 2048, 4096, 8192, 16384, 32768>;
constexpr std::size_t unit = 32768;  // elements per unit of `streamed`, a multiple of every tile size

__device__ inline void step(float4& v) {
  v.x = v.x * alpha + beta;
  v.y = v.y * alpha + beta;
  v.z = v.z * alpha + beta;
  v.w = v.w * alpha + beta;
}

__device__ inline float iterate(float v, unsigned iterations) {
  for (unsigned k = 0; k < iterations; ++k) v = v * alpha + beta;
  return v;
}

// for (i = 0; i < n; ++i)
//   for (k = 0; k < iterations; ++k) v[i] = alpha * v[i] + beta;
//
// Each thread processes several vectors, so that there are enough loads in flight and independent chains of arithmetic.
constexpr unsigned vectors_per_thread = 4;
__global__ void vector_seq_none(float* v, std::size_t n, unsigned iterations) {
  float4* vectors = reinterpret_cast<float4*>(v);
  const std::size_t whole = n / 4;
  const std::size_t piece = std::size_t{blockDim.x} * vectors_per_thread;
  for (std::size_t base = blockIdx.x * piece; base < whole; base += gridDim.x * piece) {
    float4 value[vectors_per_thread] = {};
    const std::size_t first = base + threadIdx.x;
#pragma unroll
    for (unsigned j = 0; j < vectors_per_thread; ++j) {
      if (first + j * blockDim.x < whole) value[j] = vectors[first + j * blockDim.x];
    }
#pragma unroll 4
    for (unsigned k = 0; k < iterations; ++k) {
#pragma unroll
      for (unsigned j = 0; j < vectors_per_thread; ++j) step(value[j]);
    }
#pragma unroll
    for (unsigned j = 0; j < vectors_per_thread; ++j) {
      if (first + j * blockDim.x < whole) vectors[first + j * blockDim.x] = value[j];
    }
  }
  const std::size_t i = whole * 4 + threadIdx.x;
  if (blockIdx.x == 0 && i < n) v[i] = iterate(v[i], iterations);
}

// Computes the same, tile by tile through shared memory. With reuse_shared, an element is written back to shared memory
// after each iteration, as in the original; otherwise it stays in a register.
template <TileStaging staging, unsigned Depth, bool reuse_shared>
__global__ void vector_seq_staged(float* v, std::size_t n, unsigned tile_elements, unsigned iterations) {
  float* tiles = device::dynamic_shared<float>();
  __shared__ BulkBarrier arrived[device::pipeline_barriers<staging, Depth>];
  TilePipeline<staging, Depth> pipeline(arrived);
  const BlockTiles mine{n, tile_elements};
  pipeline.run(
      mine.count(),
      [&](auto& copier, unsigned stage, std::uint64_t tile) {
        copier.run(tiles + stage * tile_elements, v + mine.first(tile), mine.size(tile));
      },
      [&](unsigned stage, std::uint64_t tile) {
        const float* in = tiles + stage * tile_elements;
        float* out = v + mine.first(tile);
        const unsigned elements = mine.size(tile);
        if constexpr (reuse_shared) {
          float* kept = tiles + stage * tile_elements;
          iterate_in_shared(
              threadIdx.x, blockDim.x, elements, iterations, [&](unsigned i) { return kept + i; },
              [](float value, unsigned) { return value * alpha + beta; });
          for (unsigned i = threadIdx.x; i < elements; i += blockDim.x) out[i] = kept[i];
        } else {
          const unsigned whole = elements / 4;
          for (unsigned i = threadIdx.x; i < whole; i += blockDim.x) {
            float4 value = reinterpret_cast<const float4*>(in)[i];
#pragma unroll 8
            for (unsigned k = 0; k < iterations; ++k) step(value);
            reinterpret_cast<float4*>(out)[i] = value;
          }
          for (unsigned i = whole * 4 + threadIdx.x; i < elements; i += blockDim.x) out[i] = iterate(in[i], iterations);
        }
      });
}

void run(Case& c) {
  const std::size_t n = c.extent("n");
  const auto iterations = static_cast<unsigned>(c.integer("iterations"));
  const Staging staging = available_staging(c);

  const auto values = uniform(c.seed(), 0, -1, 1);
  auto v = c.inout<float>("v", n, values, {.unit_bytes = unit * sizeof(float), .halo = 0});

  // The expected value is the closed form of the recurrence. Each step rounds once or twice, by at most 2^-23 of the
  // largest value so far.
  const double power = std::pow(double{alpha}, iterations);
  const double sum = double{beta} * (1 - power) / (1 - double{alpha});
  c.verify(v, [=](std::size_t i) { return power * values(i) + sum; },
           {.absolute = iterations * 0x1p-23 * (1 + std::min(iterations * double{beta}, beta / (1 - double{alpha}))),
            .relative = 0});

  VectorKernels kernels(c, unit, {.bytes_read = 4.0 * n, .bytes_written = 4.0 * n, .flops = 2.0 * n * iterations}, v);
  if (staging == Staging::none) {
    refuse_reuse_without_tiles(c);
    kernels.measure(ISTHMUS_KERNEL(vector_seq_none), 0, c.extent("threads") * vectors_per_thread * 4, 0);
  } else {
    kernels.staged(staging, [&](auto how, auto depth, auto shared) {
      const auto tile = static_cast<unsigned>(tile_elements(c, depth(), Tiles::allowed()));
      kernels.measure(device::Kernel{"vector_seq_staged", vector_seq_staged<how(), depth(), shared()>},
                      shared_bytes_for(c, depth() * tile * sizeof(float)), tile, 1, tile);
    });
  }
}

Workload workload() {
  Workload w = micro_workload("vector_seq", run, "v = alpha*v + beta on one vector in place, elements in order");
  w.axis(number_axis("n", "elements", 2097152));
  add_geometry_axes(w, {});
  add_vector_axes(w, Tiles::allowed());
  add_vector_sizes(w, 8);
  add_paper_preset(w, {{"iterations", 100}, {"reuse", "shared"}, {"tile", 4096}});
  const AxisSettings original = {{"iterations", 100}, {"reuse", "shared"}, {"depth", 2}};
  const auto with = [&](AxisSettings more) {
    more.insert(more.end(), original.begin(), original.end());
    return more;
  };
  const std::vector<std::string> six = {"baseline", "async", "uvm", "uvm_async", "pm", "pm_async"};
  w.preset({.name = "paper-fig10",
            .help = "Figure 10: 16 to 4096 blocks of 256 threads",
            .settings = with({{"threads", 256}, {"tile", 4096}}),
            .sizes = {"super"},
            .sweep_axis = "blocks",
            .sweep = {16, 32, 64, 128, 256, 512, 1024, 2048, 4096},
            .modes = six});
  w.preset({.name = "paper-fig11",
            .help = "Figure 11: 32 to 1024 threads in each of 256 blocks",
            .settings = with({{"blocks", 256}, {"tile", 4096}}),
            .sizes = {"super"},
            .sweep_axis = "threads",
            .sweep = {32, 64, 128, 256, 512, 1024},
            .modes = six});
  w.preset({.name = "paper-fig13",
            .help = "Figure 13: 2 to 128 KiB of shared memory in each of 4096 blocks of 256 threads",
            .settings = with({{"threads", 256}, {"blocks", 4096}}),
            .sizes = {"super"},
            .sweep_axis = "shared_bytes",
            .sweep = {2048, 4096, 8192, 16384, 32768, 65536, 131072},
            .modes = six});
  return w;
}

const Registration registration = workload();

}  // namespace
}  // namespace isthmus::microbench
