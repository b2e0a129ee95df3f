// k-means: each iteration assigns every point to the nearest centre and sums the points of each cluster, in one pass.

#include <algorithm>
#include <cmath>
#include <vector>

#include "apps/checks.hpp"
#include "apps/inputs.hpp"
#include "apps/modes.hpp"
#include "device/kernel/shared_memory.hpp"
#include "paging/array.hpp"
#include "workload/paged.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;
using Member = std::uint8_t;

constexpr unsigned features = 64, clusters = 5, threads = 256;
constexpr unsigned lanes = features / 4;  // threads per group; a group processes four points, four features per thread
constexpr unsigned groups = threads / lanes, tile = 4 * groups, ring = 2;
// Blocks per multiprocessor: four, or fewer if shared memory is too small. A block needs 1 KiB in addition to its sums.
constexpr unsigned resident = std::min<unsigned>(4, device::least_shared_bytes / (clusters * threads * 16 + 1024));
constexpr unsigned resident_paged = 2;
constexpr unsigned summed = features + 1;  // values per cluster: the sums of its features, and its number of points

/// Centres, rounded to five binary places so that all arithmetic on them is exact (NOTES.md), and half the square of
/// each.
struct Centres {
  float of[clusters][features];
  float half_square[clusters];
};

/// Returns one feature of a centre from its cluster's sums; a cluster without points keeps its previous value.
__host__ __device__ inline float centre_of(const long long* sums, unsigned f, float before) {
  if (sums[features] == 0) return before;
  return static_cast<float>(rint(static_cast<double>(sums[f]) * 32 / static_cast<double>(sums[features])) / 32);
}
__host__ __device__ inline float half_square_of(const float* centre) {
  float square = 0;
  for (unsigned f = 0; f < features; ++f) square = fmaf(centre[f], centre[f], square);
  return square / 2;
}

/// Four features of each centre and of each cluster's sums: the part that one thread of a group processes.
struct Share {
  __device__ explicit Share(const Centres* centres) {
    __shared__ float4 block_sums[clusters * threads];
    own_sums = block_sums;
#pragma unroll
    for (unsigned k = 0; k < clusters; ++k) {
      centre[k] = reinterpret_cast<const float4*>(centres->of[k])[threadIdx.x % lanes];
      half_square[k] = centres->half_square[k];
      own_sums[k * threads + threadIdx.x] = make_float4(0, 0, 0, 0);
    }
  }

  /// Adds four points per group, out of the `there` points of a tile. Each quarter of a group has the four points in a
  /// different order, so that every sum of two lanes' parts belongs to one point and is computed once.
  __device__ void add(unsigned there, Member* member, const float4* points) {
    float4 x[4];
#pragma unroll
    for (unsigned j = 0; j < 4; ++j) {
      const unsigned at = quarter ^ (j * lanes);
      x[j] = at < there * lanes ? points[at + threadIdx.x % lanes] : make_float4(0, 0, 0, 0);
    }
    // Each quarter finds the centre nearest to its own point. |x - c|² / 2 is smallest where |c|² / 2 - x·c is.
    float best = 0;
    unsigned nearest = 0;
#pragma unroll
    for (unsigned k = 0; k < clusters; ++k) {
      float part[4];
#pragma unroll
      for (unsigned j = 0; j < 4; ++j)
        part[j] = x[j].x * centre[k].x + x[j].y * centre[k].y + x[j].z * centre[k].z + x[j].w * centre[k].w;
      float dot = part[0] + exchanged(part[2], 8) + exchanged(part[1] + exchanged(part[3], 8), 4);
      dot += exchanged(dot, 2);
      dot += exchanged(dot, 1);
      const float distance = half_square[k] - dot;
      if (k == 0 || distance < best) best = distance, nearest = k;
    }
    const bool counts = threadIdx.x % 4 == 0 && quarter < there * lanes;
    if (counts) member[quarter / lanes] = static_cast<Member>(nearest);
#pragma unroll
    for (unsigned k = 0; k < clusters; ++k) count[k] += counts && nearest == k ? 1 : 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float4& sum = own_sums[exchanged(nearest, 4 * j) * threads + threadIdx.x];
      sum = sum_of(sum, x[j]);
    }
  }

  /// Adds the block's sums to the totals; they are whole numbers, so the order does not matter.
  __device__ void finish(unsigned long long* sums) const {
    __syncthreads();
    for (unsigned i = threadIdx.x; i < clusters * features; i += threads) {
      const unsigned k = i / features, f = i % features;
      const float* part = reinterpret_cast<const float*>(own_sums) + 4 * k * threads + f;
      float all = 0;
      for (unsigned g = 0; g < groups; ++g) all += part[g * features];
      atomicAdd(sums + k * summed + f, static_cast<unsigned long long>(static_cast<long long>(all)));
    }
#pragma unroll
    for (unsigned k = 0; k < clusters; ++k) {
      unsigned all = count[k];
      for (int bits = device::warp_size() / 2; bits > 0; bits /= 2) all += exchanged(all, bits);
      if (device::lane() == 0) atomicAdd(sums + k * summed + features, all);
    }
  }
  float4* own_sums;                                                                // clusters × threads
  unsigned quarter = (threadIdx.x / lanes * 4 + threadIdx.x % lanes / 4) * lanes;  // offset of its own point
  float4 centre[clusters];
  float half_square[clusters];
  unsigned count[clusters]{};
};

// for (i = 0; i < n; ++i) {
//   member[i] = the first k with the smallest |x[i] - centre[k]|²
//   for (f = 0; f < features; ++f) sum[member[i]][f] += x[i][f];
//   ++sum[member[i]][features];
// }
__global__ void __launch_bounds__(threads, resident)
    kmeans_plain(std::size_t n, const float4* __restrict__ x, const Centres* centres, Member* member,
                 unsigned long long* sums) {
  Share share(centres);
  for (std::size_t first = std::size_t{blockIdx.x} * tile; first < n; first += std::size_t{gridDim.x} * tile) {
    const unsigned there = n - first < tile ? static_cast<unsigned>(n - first) : tile;
    share.add(there, member + first, x + first * lanes);
  }
  share.finish(sums);
}

// Does the same as kmeans_plain, with points copied into shared memory.
template <TileStaging staging, unsigned depth>
__global__ void __launch_bounds__(threads, resident)
    kmeans_staged(std::size_t n, const float4* x, const Centres* centres, Member* member, unsigned long long* sums) {
  __shared__ BulkBarrier arrived[device::pipeline_barriers<staging, depth>];
  float4* tiles = device::dynamic_shared<float4>();
  device::TilePipeline<staging, depth, threads> pipeline(arrived);
  Share share(centres);
  const TilesOfBlock<tile> mine{n};
  pipeline.run(
      mine.count(),
      [&](auto& copier, unsigned stage, std::uint64_t number) {
        copier.run(reinterpret_cast<float*>(tiles + stage * tile * lanes),
                   reinterpret_cast<const float*>(x) + mine.first(number) * features, mine.length(number) * features);
      },
      [&](unsigned stage, std::uint64_t number) {
        share.add(mine.length(number), member + mine.first(number), tiles + stage * tile * lanes);
      });
  share.finish(sums);
}

/// Four features; float4 is not trivially copyable under HIP.
struct alignas(16) Four {
  float x, y, z, w;
};

// Does the same as kmeans_plain, with one page per warp; a page consists of whole points. A warp divides the points of
// its page among its groups as a block divides the points of a tile.
__global__ void __launch_bounds__(threads, resident_paged)
    kmeans_paged(paging::Array<Four> x, const Centres* centres, Member* member, unsigned long long* sums) {
  Share share(centres);
  const auto lane = static_cast<unsigned>(device::lane()), width = static_cast<unsigned>(device::warp_size());
  const unsigned warps = threads / width, piece = width / lanes * 4;
  share.quarter = (lane / lanes * 4 + lane % lanes / 4) * lanes;
  auto reader = x.reader(paging::Lanes::full_warp());
  for (std::size_t page = std::size_t{blockIdx.x} * warps + static_cast<unsigned>(device::warp_in_block());;
       page += std::size_t{gridDim.x} * warps) {
    const std::size_t begin = x.first_of(static_cast<std::uint32_t>(page));
    if (begin >= x.size()) break;
    reader.move_to(begin);
    const auto points = static_cast<unsigned>((reader.last() - begin) / lanes);
    for (unsigned i = 0; i < points; i += piece)
      share.add(points - i < piece ? points - i : piece, member + begin / lanes + i,
                reinterpret_cast<const float4*>(reader.data()) + std::size_t{i} * lanes);
  }
  reader.release();
  share.finish(sums);
}

/// Computes new centres from the sums, then clears the sums. If `first`, there are no sums yet and the first points
/// become the centres.
__global__ void kmeans_move(const float* x, long long* sums, bool first, Centres* centres) {
  const unsigned f = threadIdx.x;
  for (unsigned k = 0; k < clusters; ++k)
    centres->of[k][f] = first ? x[k * features + f] : centre_of(sums + k * summed, f, centres->of[k][f]);
  __syncthreads();
  for (unsigned i = f; i < clusters * summed; i += features) sums[i] = 0;
  if (f < clusters) centres->half_square[f] = half_square_of(centres->of[f]);
}
__global__ void kmeans_keep(Centres found, long long* sums, Centres* centres) {
  for (unsigned i = threadIdx.x; i < clusters * summed; i += features) sums[i] = 0;
  for (unsigned k = 0; k < clusters; ++k) centres->of[k][threadIdx.x] = found.of[k][threadIdx.x];
  if (threadIdx.x < clusters) centres->half_square[threadIdx.x] = found.half_square[threadIdx.x];
}

Centres moved(const std::vector<long long>& sums, Centres centres) {
  for (unsigned k = 0; k < clusters; ++k) {
    for (unsigned f = 0; f < features; ++f) centres.of[k][f] = centre_of(&sums[k * summed], f, centres.of[k][f]);
    centres.half_square[k] = half_square_of(centres.of[k]);
  }
  return centres;
}

Centres first_of(const WholeNumbers& points) {
  Centres centres;
  for (unsigned i = 0; i < clusters * features; ++i) centres.of[i / features][i % features] = points(i);
  for (unsigned k = 0; k < clusters; ++k) centres.half_square[k] = half_square_of(centres.of[k]);
  return centres;
}

/// Computes memberships by their definition, from squared differences in double, which are exact as well.
void reference(const WholeNumbers& points, std::size_t iterations, std::span<Member> member) {
  double centre[clusters * features];
  for (unsigned i = 0; i < clusters * features; ++i) centre[i] = points(i);
  for (std::size_t iteration = 0; iteration < iterations; ++iteration) {
    const auto sums = sums_of<double, clusters * summed>(member.size(), 1 << 14, [&](std::size_t i, auto& part) {
      double distance[clusters] = {}, x[features];
      for (unsigned f = 0; f < features; ++f) x[f] = points(i * features + f);
      for (unsigned j = 0; j < clusters * features; ++j) {
        const double apart = x[j % features] - centre[j];
        distance[j / features] += apart * apart;
      }
      const auto nearest = static_cast<unsigned>(std::min_element(distance, distance + clusters) - distance);
      member[i] = static_cast<Member>(nearest);
      for (unsigned f = 0; f < features; ++f) part[nearest * summed + f] += x[f];
      ++part[nearest * summed + features];
    });
    for (unsigned i = 0; i < clusters * features; ++i) {
      const double sum = sums[i / features * summed + i % features], count = sums[i / features * summed + features];
      if (count > 0) centre[i] = std::nearbyint(32 * sum / count) / 32;
    }
  }
}

void kmeans(Case& c) {
  const std::size_t n = c.extent("points"), iterations = c.extent("iterations");
  refuse_if(n < clusters, "the first 5 points are the initial centres: choose at least 5 points");
  refuse_if(n >> 40 != 0, "choose fewer than 2^40 points: with more, a block could overflow its 32-bit count");
  const WholeNumbers points{c.seed(), 0, 4};  // uniformly random, so the points form no clusters
  auto x = c.input<float>("points", n * features, points);
  auto member = c.output<Member>("member", n);
  auto centres = c.scratch<Centres>("centres", 1);
  auto sums = c.scratch<long long>("sums", clusters * summed);
  c.verify_all(member, [=](std::span<Member> expected) { reference(points, iterations, expected); });
  c.verify_same(member);
  c.repeats(iterations);

  const bool on_host = c.choice("loop") == "host", pages = c.placement()->paged;
  refuse_if(pages && c.staging() != Staging::none,
            "a warp works on a page in its frame: choose staging none for paged points");
  // Blocks run in one wave, or in more if a block's sums would otherwise exceed 2^24, the limit of exact fp32 integers.
  constexpr unsigned most_points = 1 << 17;
  const auto info = c.device();
  const auto wave = static_cast<std::size_t>(info.multiprocessors) * (pages ? resident_paged : resident);
  const std::size_t tiles = (n + tile - 1) / tile, wanted = std::max(wave, n / most_points);
  const auto blocks = static_cast<unsigned>(std::min(tiles, wanted));
  const auto paged_shape = [=](const paging::Region& region) {
    auto shape = warp_a_page(region, threads, info, {region});
    shape.grid = static_cast<unsigned>(std::min<std::size_t>(shape.grid.x, wanted));
    refuse_if(n / shape.grid.x > 8 * most_points,
              "with so few frames, each block would sum more points than fp32 can count exactly: set more frames or a "
              "smaller page");
    return shape;
  };
  const auto measure = [&](auto assign, std::size_t shared_bytes) {
    c.measure(
        on_host ? Control::waits : Control::queued,
        [=](Run& run) {
          const double all = static_cast<double>(n);
          const Traffic traffic{
              .bytes_read = 4 * all * features, .bytes_written = all, .flops = all * features * (2 * clusters + 1)};
          auto* all_sums = reinterpret_cast<unsigned long long*>(sums.device());
          if (run.repeat() == 0 && pages) {
            run.launch(ISTHMUS_KERNEL(kmeans_keep), {.block = features}, {}, first_of(points), sums.device(),
                       centres.device());
          } else if (on_host && run.repeat() > 0) {
            const Centres next = moved(run.read(sums, 0, clusters * summed), run.read(centres));
            run.launch(ISTHMUS_KERNEL(kmeans_keep), {.block = features}, {}, next, sums.device(), centres.device());
          } else {
            run.launch(ISTHMUS_KERNEL(kmeans_move), {.block = features}, {}, pages ? nullptr : x.device(),
                       sums.device(), run.repeat() == 0, centres.device());
          }
          if (pages) {
            const auto& region = run.paged(x);
            return run.launch(ISTHMUS_KERNEL(kmeans_paged), paged_shape(region), traffic, paging::Array<Four>(region),
                              centres.device(), member.device(), all_sums);
          }
          run.launch(assign, {.grid = blocks, .block = threads, .shared_bytes = shared_bytes}, traffic, n,
                     reinterpret_cast<const float4*>(x.device()), centres.device(), member.device(), all_sums);
        },
        paged(x));
  };
  if (c.staging() == Staging::none) return measure(ISTHMUS_KERNEL(kmeans_plain), 0);
  with_staging<ring>(c, [&](auto how, auto depth) {
    measure(Kernel{"kmeans_staged", kmeans_staged<how(), depth()>}, depth() * tile * features * sizeof(float));
  });
}

const Registration registration =
    paper_program("apps/kmeans", kmeans, "Rodinia's kmeans", {{"loop", "host"}})
        .summary("k-means: 5 clusters of points of 64 features, assignment and sums in one pass")
        .paged()
        .stagings({Staging::none, Staging::direct, Staging::async, Staging::bulk})
        .axis(number_axis("points", "points of 64 features", 1 << 18))
        .axis(number_axis("iterations", "number of times that all points are assigned", 20))
        .axis(loop_axis("where centres are computed from the sums"))
        .sizes({"points"}, {1 << 9, 1 << 15, 1 << 18, 1 << 21, 1 << 23, 1 << 24})
        .size("tiny", {{"iterations", 5}});

}  // namespace
}  // namespace isthmus::apps
