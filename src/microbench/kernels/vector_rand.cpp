// v = alpha·v + beta(p) on one vector in place, elements visited out of order: visit p goes to element permute(p).

#include <cmath>

#include "microbench/kernels/choices.hpp"
#include "microbench/kernels/shared_reuse.hpp"
#include "microbench/kernels/vectors.hpp"

namespace isthmus::microbench {
namespace {

using namespace workload;
using device::BulkBarrier;
using device::TilePipeline;

constexpr float alpha = 0.9921875f;
// The constant depends on the visit, so that another order of visits gives another result.
__host__ __device__ constexpr float beta(std::uint64_t visit) {
  return static_cast<float>(visit & 4095) * 0x1p-13f;
}
constexpr double largest_beta = 0.5;

using Tiles = Choices<1024, 2048, 4096, 8192>;
constexpr std::size_t unit = 8192;  // elements per unit of `streamed`, a multiple of every tile size

/// Bijection of [0, count): two rounds of multiplication by an odd factor and shifted exclusive-or, modulo the smallest
/// power of two that is at least `count`, repeated until the result is below `count`. Each step can be inverted.
template <class UInt>
struct Permutation {
  UInt count, mask;
  unsigned shift;
  static constexpr UInt first_factor = static_cast<UInt>(0x9e3779b97f4a7c15ULL);
  static constexpr UInt second_factor = static_cast<UInt>(0xbf58476d1ce4e5b9ULL);

  __host__ __device__ explicit Permutation(UInt count_) : count(count_), mask(0), shift(1) {
    unsigned bits = 0;
    while (bits < 8 * sizeof(UInt) && (count_ - 1) >> bits != 0) ++bits;
    mask = bits == 8 * sizeof(UInt) ? ~UInt{0} : (UInt{1} << bits) - 1;
    shift = bits / 2 + bits % 2 > 0 ? bits / 2 + bits % 2 : 1;  // at least half: x ^= x >> shift is its own inverse
  }
  __host__ __device__ UInt operator()(UInt x) const {
    do {
      x = x * first_factor & mask;
      x ^= x >> shift;
      x = x * second_factor & mask;
      x ^= x >> shift;
    } while (x >= count);
    return x;
  }
  /// Returns the visit that goes to element x. Called on the host only.
  UInt inverse(UInt x) const {
    do {
      x ^= x >> shift;
      x = x * inverse_of(second_factor) & mask;
      x ^= x >> shift;
      x = x * inverse_of(first_factor) & mask;
    } while (x >= count);
    return x;
  }
  /// Returns the inverse modulo a power of two, by Newton's iteration.
  static constexpr UInt inverse_of(UInt factor) {
    UInt inverse = factor;
    for (int i = 0; i < 6; ++i) inverse *= 2 - factor * inverse;
    return inverse;
  }
};
using TilePermutation = Permutation<std::uint32_t>;
using VectorPermutation = Permutation<std::uint64_t>;

__device__ inline float iterate(float v, float b, unsigned iterations) {
  for (unsigned k = 0; k < iterations; ++k) v = v * alpha + b;
  return v;
}

/// Number of visits that a thread performs at once, so that four loads and four chains of arithmetic are in flight.
constexpr unsigned visits_per_thread = 4;

/// Performs the thread's next visits, beginning with visit `first`. at(p) is the element of visit p.
template <class UInt, class At>
__device__ inline void visit(UInt first, UInt stride, UInt count, unsigned iterations, At at) {
  float value[visits_per_thread] = {};
  float* element[visits_per_thread] = {};
#pragma unroll
  for (unsigned j = 0; j < visits_per_thread; ++j) {
    const UInt p = first + j * stride;
    if (p < count) {
      element[j] = at(p);
      value[j] = *element[j];
    }
  }
#pragma unroll 4
  for (unsigned k = 0; k < iterations; ++k) {
#pragma unroll
    for (unsigned j = 0; j < visits_per_thread; ++j) value[j] = value[j] * alpha + beta(first + j * stride);
  }
#pragma unroll
  for (unsigned j = 0; j < visits_per_thread; ++j) {
    if (first + j * stride < count) *element[j] = value[j];
  }
}

// scope=tile:
// for (t = 0; t < n; t += tile)
//   for (p = 0; p < min(tile, n - t); ++p)
//     for (k = 0; k < iterations; ++k) v[t + permute(p)] = alpha * v[t + permute(p)] + beta(p);
__global__ void vector_rand_tile_none(float* v, std::size_t n, unsigned tile_elements, unsigned iterations) {
  const std::uint64_t all = (n + tile_elements - 1) / tile_elements;
  for (std::uint64_t tile = blockIdx.x; tile < all; tile += gridDim.x) {
    const std::size_t first = tile * tile_elements;
    const std::size_t left = n - first;
    const TilePermutation permute(left < tile_elements ? static_cast<std::uint32_t>(left) : tile_elements);
    for (std::uint32_t p = threadIdx.x; p < permute.count; p += visits_per_thread * blockDim.x) {
      visit<std::uint32_t>(p, blockDim.x, permute.count, iterations,
                           [&](std::uint32_t q) { return v + first + permute(q); });
    }
  }
}

// Computes the same, tile by tile through shared memory: elements are visited there, and the tile is written back in
// order. With reuse_shared, an element is written back to shared memory after each iteration.
template <TileStaging staging, unsigned Depth, bool reuse_shared>
__global__ void vector_rand_tile_staged(float* v, std::size_t n, unsigned tile_elements, unsigned iterations) {
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
        float* in = tiles + stage * tile_elements;
        float* out = v + mine.first(tile);
        const TilePermutation permute(mine.size(tile));
        if constexpr (reuse_shared) {
          iterate_in_shared(
              threadIdx.x, blockDim.x, permute.count, iterations, [&](unsigned p) { return in + permute(p); },
              [](float value, unsigned p) { return value * alpha + beta(p); });
        } else {
          for (std::uint32_t p = threadIdx.x; p < permute.count; p += visits_per_thread * blockDim.x) {
            visit<std::uint32_t>(p, blockDim.x, permute.count, iterations,
                                 [&](std::uint32_t q) { return in + permute(q); });
          }
        }
        __syncthreads();  // other threads wrote what is copied next
        const unsigned whole = permute.count / 4;
        for (unsigned i = threadIdx.x; i < whole; i += blockDim.x) {
          reinterpret_cast<float4*>(out)[i] = reinterpret_cast<const float4*>(in)[i];
        }
        for (unsigned i = whole * 4 + threadIdx.x; i < permute.count; i += blockDim.x) out[i] = in[i];
      });
}

// scope=vector:
// for (p = 0; p < n; ++p)
//   for (k = 0; k < iterations; ++k) v[permute(p)] = alpha * v[permute(p)] + beta(p);
__global__ void vector_rand_vector_none(float* v, std::size_t n, unsigned iterations) {
  const VectorPermutation permute(n);
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t p = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; p < n; p += visits_per_thread * stride) {
    visit<std::uint64_t>(p, stride, n, iterations, [&](std::uint64_t q) { return v + permute(q); });
  }
}

// Computes the same, a tile of visits at a time: the elements are gathered into shared memory and written back from
// registers.
template <TileStaging staging, unsigned Depth, bool reuse_shared>
__global__ void vector_rand_vector_staged(float* v, std::size_t n, unsigned tile_elements, unsigned iterations) {
  float* tiles = device::dynamic_shared<float>();
  TilePipeline<staging, Depth> pipeline(nullptr);
  const VectorPermutation permute(n);
  const BlockTiles mine{n, tile_elements};
  pipeline.run(
      mine.count(),
      [&](auto& copier, unsigned stage, std::uint64_t tile) {
        const std::uint64_t visits = mine.first(tile);
        copier.gather(tiles + stage * tile_elements, mine.size(tile),
                      [&](unsigned i) { return v + permute(visits + i); });
      },
      [&](unsigned stage, std::uint64_t tile) {
        const std::uint64_t visits = mine.first(tile);
        const unsigned elements = mine.size(tile);
        float* kept = tiles + stage * tile_elements;
        if constexpr (reuse_shared) {
          iterate_in_shared(
              threadIdx.x, blockDim.x, elements, iterations, [&](unsigned i) { return kept + i; },
              [&](float value, unsigned i) { return value * alpha + beta(visits + i); });
          for (unsigned i = threadIdx.x; i < elements; i += blockDim.x) v[permute(visits + i)] = kept[i];
        } else {
          for (unsigned i = threadIdx.x; i < elements; i += blockDim.x) {
            v[permute(visits + i)] = iterate(kept[i], beta(visits + i), iterations);
          }
        }
      });
}

void run(Case& c) {
  const std::size_t n = c.extent("n");
  const auto iterations = static_cast<unsigned>(c.integer("iterations"));
  const auto tile = static_cast<unsigned>(c.integer("tile"));
  const bool whole_vector = c.choice("scope") == "vector";
  Staging staging = available_staging(c);
  if (whole_vector && staging == Staging::bulk) {
    c.fallback("async: bulk copies move at least 16 bytes, but this scope gathers single floats");
    staging = Staging::async;
  }

  const auto values = uniform(c.seed(), 0, -1, 1);
  // The whole vector is one chunk, because a part of it cannot be processed while the rest is being copied.
  auto v = c.inout<float>(
      "v", n, values, whole_vector ? memory::Split{} : memory::Split{.unit_bytes = unit * sizeof(float), .halo = 0});

  const double power = std::pow(double{alpha}, iterations);
  const double sum = (1 - power) / (1 - double{alpha});
  c.verify(
      v,
      [=](std::size_t i) {
        const std::size_t window = whole_vector ? n : std::size_t{tile};
        const std::size_t first = i / window * window;
        const std::uint64_t p = whole_vector ? VectorPermutation(n).inverse(i)
                                             : TilePermutation(static_cast<std::uint32_t>(std::min(window, n - first)))
                                                   .inverse(static_cast<std::uint32_t>(i - first));
        return power * values(i) + sum * double{beta(p)};
      },
      {.absolute = iterations * 0x1p-23 * (1 + std::min(iterations * largest_beta, largest_beta / (1 - double{alpha}))),
       .relative = 0});

  VectorKernels kernels(c, whole_vector ? 0 : unit,
                        {.bytes_read = 4.0 * n, .bytes_written = 4.0 * n, .flops = 2.0 * n * iterations}, v);
  if (staging == Staging::none) {
    refuse_reuse_without_tiles(c);
    if (whole_vector) {
      kernels.measure(ISTHMUS_KERNEL(vector_rand_vector_none), 0, c.extent("threads") * visits_per_thread, 0);
    } else {
      kernels.measure(ISTHMUS_KERNEL(vector_rand_tile_none), 0, tile, 0, tile);
    }
  } else {
    const auto measure = [&](auto kernel, std::size_t buffers) {
      kernels.measure(kernel, shared_bytes_for(c, buffers * tile * sizeof(float)), tile, 1, tile);
    };
    kernels.staged(staging, [&](auto how, auto depth, auto shared) {
      if (!whole_vector) {
        measure(device::Kernel{"vector_rand_tile_staged", vector_rand_tile_staged<how(), depth(), shared()>}, depth());
      } else if constexpr (how() != TileStaging::bulk) {
        measure(device::Kernel{"vector_rand_vector_staged", vector_rand_vector_staged<how(), depth(), shared()>},
                depth());
      }
    });
  }
}

Workload workload() {
  Workload w =
      micro_workload("vector_rand", run, "v = alpha*v + beta(visit) on one vector in place, elements out of order");
  w.axis(number_axis("n", "elements", 2097152));
  add_geometry_axes(w, {});
  add_vector_axes(w, Tiles::allowed());
  w.axis({.name = "scope",
          .help = "range of an out-of-order visit: the tile, as in the original, or the whole vector",
          .default_value = "tile",
          .choices = {"tile", "vector"}});
  add_vector_sizes(w, 8);
  add_paper_preset(w, {{"iterations", 100}, {"reuse", "shared"}, {"tile", 4096}});
  return w;
}

const Registration registration = workload();

}  // namespace
}  // namespace isthmus::microbench
