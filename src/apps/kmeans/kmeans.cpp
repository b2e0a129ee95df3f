// k-means: each iteration assigns every point to the nearest centre and sums up the points of each, in one pass.

#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include "apps/modes.hpp"
#include "memory/parallel.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;
using device::BulkBarrier;
using Member = std::uint8_t;

constexpr unsigned features = 64, clusters = 5, threads = 256;
constexpr unsigned lanes = features / 4;  // threads that share a point, four features each
constexpr unsigned points_at_once = threads / lanes, in_flight = 4, tile = points_at_once * in_flight, ring = 3;
constexpr unsigned summed = features + 1;  // of a cluster: its features, and how many points it has

/// Centres in five binary places, and half the square of each: all that follows is exact (NOTES.md).
struct Centres {
  float of[clusters][features];
  float half_square[clusters];
};

/// A centre's feature from the sum of its points; a cluster without points keeps what it had.
__host__ __device__ inline float centre_of(std::int64_t sum, std::int64_t count, float before) {
  return count == 0 ? before
                    : static_cast<float>(rint(static_cast<double>(sum) * 32 / static_cast<double>(count)) / 32);
}
__host__ __device__ inline float half_square_of(const float* centre) {
  float square = 0;
  for (unsigned f = 0; f < features; ++f) square = fmaf(centre[f], centre[f], square);
  return square / 2;
}

/// What a thread keeps of the centres and of the sums: four features of each cluster.
struct Share {
  float4 centre[clusters], sum[clusters];
  float half_square[clusters];
  unsigned count[clusters];  // of the first thread of each point

  __device__ explicit Share(const Centres* centres) {
#pragma unroll
    for (unsigned k = 0; k < clusters; ++k) {
      centre[k] = reinterpret_cast<const float4*>(centres->of[k])[threadIdx.x % lanes];
      half_square[k] = centres->half_square[k];
      sum[k] = make_float4(0, 0, 0, 0);
      count[k] = 0;
    }
  }

  /// Called by whole warps. |x - c|² / 2 is less where |c|² / 2 - x·c is.
  __device__ unsigned add(const float4& x, bool there) {
    float best = 0;
    unsigned nearest = 0;
#pragma unroll
    for (unsigned k = 0; k < clusters; ++k) {
      float dot = x.x * centre[k].x + x.y * centre[k].y + x.z * centre[k].z + x.w * centre[k].w;
#pragma unroll
      for (int bits = 1; bits < static_cast<int>(lanes); bits *= 2)
        dot += device::shuffle_xor(device::full_warp(), dot, bits);
      const float distance = half_square[k] - dot;
      if (k == 0 || distance < best) best = distance, nearest = k;
    }
#pragma unroll
    for (unsigned k = 0; k < clusters; ++k) {
      if (!there || nearest != k) continue;
      sum[k] = make_float4(sum[k].x + x.x, sum[k].y + x.y, sum[k].z + x.z, sum[k].w + x.w);
      ++count[k];
    }
    return nearest;
  }

  /// Adds the block's sums to all: whole numbers, so the order does not matter.
  __device__ void finish(unsigned long long* sums) const {
    __shared__ int block_sums[clusters * summed];
    for (unsigned i = threadIdx.x; i < clusters * summed; i += threads) block_sums[i] = 0;
    __syncthreads();
    const unsigned lane = threadIdx.x % lanes;
#pragma unroll
    for (unsigned k = 0; k < clusters; ++k) {
      int* own = block_sums + k * summed;
      atomicAdd(own + 4 * lane, static_cast<int>(sum[k].x));
      atomicAdd(own + 4 * lane + 1, static_cast<int>(sum[k].y));
      atomicAdd(own + 4 * lane + 2, static_cast<int>(sum[k].z));
      atomicAdd(own + 4 * lane + 3, static_cast<int>(sum[k].w));
      if (lane == 0) atomicAdd(own + features, static_cast<int>(count[k]));
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < clusters * summed; i += threads)
      atomicAdd(sums + i, static_cast<unsigned long long>(static_cast<long long>(block_sums[i])));
  }
};

// for (i = 0; i < n; ++i) {
//   member[i] = the k with the least |x[i] - centre[k]|², the first of several
//   for (f = 0; f < features; ++f) sum[member[i]][f] += x[i][f];
//   ++sum[member[i]][features];
// }
__global__ void __launch_bounds__(threads)
    kmeans_plain(std::size_t n, const float4* __restrict__ x, const Centres* centres, Member* member,
                 unsigned long long* sums) {
  Share share(centres);
  const std::size_t row = threadIdx.x / lanes, lane = threadIdx.x % lanes;
  for (std::size_t first = std::size_t{blockIdx.x} * tile; first < n; first += std::size_t{gridDim.x} * tile) {
    float4 values[in_flight];
#pragma unroll
    for (unsigned j = 0; j < in_flight; ++j) {
      const std::size_t i = first + j * points_at_once + row;
      values[j] = i < n ? x[i * lanes + lane] : make_float4(0, 0, 0, 0);
    }
#pragma unroll
    for (unsigned j = 0; j < in_flight; ++j) {
      const std::size_t i = first + j * points_at_once + row;
      const unsigned nearest = share.add(values[j], i < n);
      if (lane == 0 && i < n) member[i] = static_cast<Member>(nearest);
    }
  }
  share.finish(sums);
}

// The same, with points brought into shared memory.
template <TileStaging staging, unsigned depth>
__global__ void __launch_bounds__(threads)
    kmeans_staged(std::size_t n, const float4* x, const Centres* centres, Member* member, unsigned long long* sums) {
  __shared__ BulkBarrier arrived[device::pipeline_barriers<staging, depth>];
  float4* tiles = device::dynamic_shared<float4>();
  device::TilePipeline<staging, depth, threads> pipeline(arrived);
  Share share(centres);
  const std::size_t all = (n + tile - 1) / tile;
  const auto first = [](std::uint64_t number) { return (blockIdx.x + number * gridDim.x) * tile; };
  const auto count = [&](std::uint64_t number) {
    return n - first(number) < tile ? static_cast<unsigned>(n - first(number)) : tile;
  };
  pipeline.run(
      blockIdx.x < all ? (all - blockIdx.x + gridDim.x - 1) / gridDim.x : 0,
      [&](auto& copier, unsigned stage, std::uint64_t number) {
        copier.run(reinterpret_cast<float*>(tiles + stage * tile * lanes),
                   reinterpret_cast<const float*>(x) + first(number) * features, count(number) * features);
      },
      [&](unsigned stage, std::uint64_t number) {
        for (unsigned k = threadIdx.x; k < tile * lanes; k += threads) {
          const bool there = k / lanes < count(number);
          const float4 value = there ? tiles[stage * tile * lanes + k] : make_float4(0, 0, 0, 0);
          const unsigned nearest = share.add(value, there);
          if (there && k % lanes == 0) member[first(number) + k / lanes] = static_cast<Member>(nearest);
        }
      });
  share.finish(sums);
}

/// New centres from the sums, which are 0 again afterwards; or the first points, where there are no sums yet.
__global__ void kmeans_move(const float* x, long long* sums, bool first, Centres* centres) {
  const unsigned f = threadIdx.x;
  for (unsigned k = 0; k < clusters; ++k) {
    long long* own = sums + k * summed;
    centres->of[k][f] = first ? x[k * features + f] : centre_of(own[f], own[features], centres->of[k][f]);
  }
  __syncthreads();
  for (unsigned i = f; i < clusters * summed; i += features) sums[i] = 0;
  if (f < clusters) centres->half_square[f] = half_square_of(centres->of[f]);
}
__global__ void kmeans_keep(Centres found, long long* sums, Centres* centres) {
  for (unsigned i = threadIdx.x; i < clusters * summed; i += features) sums[i] = 0;
  for (unsigned k = 0; k < clusters; ++k) centres->of[k][threadIdx.x] = found.of[k][threadIdx.x];
  if (threadIdx.x < clusters) centres->half_square[threadIdx.x] = found.half_square[threadIdx.x];
}

/// Whole numbers from -8 to 7, without any clusters in them.
struct Points {
  std::uint64_t seed;
  float operator()(std::size_t i) const { return static_cast<float>(static_cast<int>(hash(seed, 0, i) >> 60) - 8); }
};

Centres moved(const std::vector<std::int64_t>& sums, Centres centres) {
  for (unsigned k = 0; k < clusters; ++k) {
    const std::int64_t* own = &sums[k * summed];
    for (unsigned f = 0; f < features; ++f) centres.of[k][f] = centre_of(own[f], own[features], centres.of[k][f]);
    centres.half_square[k] = half_square_of(centres.of[k]);
  }
  return centres;
}

/// By the definition: squares of differences, in double, which is exact, too.
void reference(const Points& points, std::size_t iterations, std::span<Member> member) {
  Centres centres{};
  for (unsigned i = 0; i < clusters * features; ++i) centres.of[i / features][i % features] = points(i);
  for (std::size_t iteration = 0; iteration < iterations; ++iteration) {
    std::vector<std::int64_t> sums(clusters * summed);
    std::mutex mutex;
    memory::parallel_for(member.size(), 1 << 14, [&](std::size_t first, std::size_t last) {
      std::vector<std::int64_t> own(clusters * summed);
      for (std::size_t i = first; i < last; ++i) {
        double distance[clusters] = {};
        float x[features];
        for (unsigned f = 0; f < features; ++f) x[f] = points(i * features + f);
        for (unsigned k = 0; k < clusters; ++k) {
          for (unsigned f = 0; f < features; ++f) {
            const double apart = double{x[f]} - double{centres.of[k][f]};
            distance[k] += apart * apart;
          }
        }
        const auto nearest = static_cast<unsigned>(std::min_element(distance, distance + clusters) - distance);
        member[i] = static_cast<Member>(nearest);
        for (unsigned f = 0; f < features; ++f) own[nearest * summed + f] += static_cast<std::int64_t>(x[f]);
        ++own[nearest * summed + features];
      }
      const std::lock_guard lock(mutex);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += own[i];
    });
    for (unsigned i = 0; i < clusters * features; ++i) {
      const unsigned k = i / features, f = i % features;
      const auto count = static_cast<double>(sums[k * summed + features]);
      if (count > 0)
        centres.of[k][f] =
            static_cast<float>(std::nearbyint(32.0 * static_cast<double>(sums[k * summed + f]) / count)) / 32;
    }
  }
}

void kmeans(Case& c) {
  const std::size_t n = c.extent("points"), iterations = c.extent("iterations");
  if (n < clusters) throw Skip("the first 5 points are the first centres: take 5 and more", SkipKind::not_applicable);
  if (n >> 40 != 0) throw Skip("a block counts its points in 32 bits: take fewer than 2^40", SkipKind::not_applicable);
  const Points points{c.seed()};
  auto x = c.input<float>("points", n * features, points);
  auto member = c.output<Member>("member", n);
  auto centres = c.scratch<Centres>("centres", 1);
  auto sums = c.scratch<unsigned long long>("sums", clusters * summed);
  c.verify_all(member, [=](std::span<Member> expected) { reference(points, iterations, expected); });
  c.verify_same(member);
  c.repeats(iterations);

  const bool on_host = c.choice("loop") == "host";
  // A block's sums are below 2^24, and so exact in the threads' fp32 and in 32 bits.
  const std::size_t tiles = (n + tile - 1) / tile, resident = 4 * static_cast<unsigned>(c.device().multiprocessors);
  const auto blocks = static_cast<unsigned>(std::min(tiles, std::max(resident, n >> 17)));
  const auto measure = [&](auto assign, std::size_t shared_bytes) {
    c.measure(on_host ? Control::waits : Control::queued, [=](Run& run) {
      const double all = static_cast<double>(n);
      const device::LaunchShape shape{.block = features};
      auto* signed_sums = reinterpret_cast<long long*>(sums.device());
      if (on_host && run.repeat() > 0) {
        std::vector<std::int64_t> found(clusters * summed);
        std::vector<unsigned long long> bits(found.size());
        Centres before{};
        run.read(sums, 0, std::span(bits));
        before = run.read(centres);
        std::copy(bits.begin(), bits.end(), found.begin());
        run.launch(ISTHMUS_KERNEL(kmeans_keep), shape, {}, moved(found, before), signed_sums, centres.device());
      } else {
        run.launch(ISTHMUS_KERNEL(kmeans_move), shape, {}, x.device(), signed_sums, run.repeat() == 0,
                   centres.device());
      }
      run.launch(assign, {.grid = blocks, .block = threads, .shared_bytes = shared_bytes},
                 {.bytes_read = 4 * all * features, .bytes_written = all, .flops = all * features * (2 * clusters + 1)},
                 n, reinterpret_cast<const float4*>(x.device()), centres.device(), member.device(), sums.device());
    });
  };
  if (c.staging() == Staging::none) return measure(ISTHMUS_KERNEL(kmeans_plain), 0);
  with_staging<ring>(c, [&](auto how, auto depth) {
    measure(device::Kernel{"kmeans_staged", kmeans_staged<how(), depth()>}, depth() * tile * features * sizeof(float));
  });
}

Workload workload() {
  Workload w("apps/kmeans", kmeans);
  w.version(1)
      .summary("k-means: 5 clusters of points of 64 features, assignment and sums in one pass")
      .source("pipelining-taco2025, Table 2 (Rodinia's kmeans)")
      .tags({"app", "modes"})
      .placements(memory::all_placements())
      .stagings({Staging::none, Staging::direct, Staging::async, Staging::bulk})
      .axis(number_axis("points", "points of 64 features", 1 << 18))
      .axis(number_axis("iterations", "times that points are assigned", 20))
      .axis(how(
          choice_axis("loop", "where centres follow from the sums: on the device or on the host", {"device", "host"})));
  w.size("tiny", {{"points", 1 << 9}, {"iterations", 5}});
  for (const auto& [name, n] : {std::pair{"small", 1 << 15},
                                {"medium", 1 << 18},
                                {"large", 1 << 21},
                                {"super", 1 << 23},
                                {"mega", 1 << 24}})  // the paper's super and mega
    w.size(name, {{"points", n}});
  add_paper_preset(w, {{"loop", "host"}});
  return w;
}

const Registration registration = workload();

}  // namespace
}  // namespace isthmus::apps
