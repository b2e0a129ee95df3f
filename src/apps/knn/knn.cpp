// The 20 nearest references of every query. Distances are computed in tiles, as in a product of matrices, and the
// nearest are selected in the same pass, so that distances are never written to memory.

#include <algorithm>
#include <limits>
#include <vector>

#include "apps/checks.hpp"
#include "apps/inputs.hpp"
#include "apps/modes.hpp"
#include "apps/nearest.hpp"
#include "memory/parallel.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;

constexpr unsigned nearest = 20;                           // neighbours per query
constexpr unsigned threads = 256, tile = 128, depth = 32;  // queries and references per tile, dimensions per step
constexpr unsigned row_floats = depth + 4;                 // padded so that eight rows of a tile use each bank once
constexpr unsigned own = 8, ring = 2, tile_elements = tile * row_floats;
constexpr unsigned room = 16;  // candidates per query, before selection
constexpr std::size_t streamed_parts = 8;
constexpr float taken = std::numeric_limits<float>::infinity(), farthest = std::numeric_limits<float>::max();

struct Problem {
  std::size_t queries, references, pitch;
  unsigned steps, parts;

  __host__ __device__ std::size_t tiles() const { return (references + tile - 1) / tile; }
};

/// Candidates that a block's threads find for each query of a tile, and the best of them.
struct Found {
  Key best[tile][nearest], candidate[tile][room];
  unsigned count[tile];
  float limit[tile];  // distance of the farthest of the best
};

// Eight queries and eight references of a tile, which one thread processes. In each step, 32 threads process 8 adjacent
// queries × 4 adjacent references.
struct Place {
  unsigned query = threadIdx.x / 128 * 64 + threadIdx.x % 32 / 4;    // first query; the thread has every eighth
  unsigned reference = threadIdx.x / 32 % 4 * 32 + threadIdx.x % 4;  // first reference; every fourth
  __device__ static unsigned query_of(unsigned i) { return 8 * i; }
  __device__ static unsigned reference_of(unsigned j) { return 4 * j; }
};

/// Adds the products of four dimensions; a(i) and b(j) return the four coordinates of the thread's query i and
/// reference j.
template <class A, class B>
__device__ inline void multiply_add(float (&sums)[own][own], A a, B b) {
  float4 left[own];
#pragma unroll
  for (unsigned i = 0; i < own; ++i) left[i] = a(i);
#pragma unroll
  for (unsigned j = 0; j < own; ++j) {
    const float4 right = b(j);
#pragma unroll
    for (unsigned d = 0; d < 4; ++d) {
#pragma unroll
      for (unsigned i = 0; i < own; ++i)
        sums[i][j] += reinterpret_cast<const float*>(&left[i])[d] * reinterpret_cast<const float*>(&right)[d];
    }
  }
}

/// Selection of the nearest from a tile's products. Distances that may be among the smallest become candidates, and
/// candidates are merged into the best.
class Selection {
 public:
  __device__ Selection(const Problem& problem, const float* query_squares, const float* reference_squares, Found& found)
      : problem_(problem), query_squares_(query_squares), reference_squares_(reference_squares), found_(found) {
    for (unsigned k = threadIdx.x; k < tile * nearest; k += threads) found_.best[k / nearest][k % nearest] = none;
    for (unsigned row = threadIdx.x; row < tile; row += threads) found_.count[row] = 0, found_.limit[row] = farthest;
    __syncthreads();
  }

  __device__ void add(std::size_t first, float (&sums)[own][own]) {
    float right[own];
#pragma unroll
    for (unsigned j = 0; j < own; ++j) {
      const std::size_t r = first + place_.reference + Place::reference_of(j);
      right[j] = r < problem_.references ? reference_squares_[r] : taken;
    }
#pragma unroll
    for (unsigned i = 0; i < own; ++i) {
      const std::size_t q = std::size_t{blockIdx.x} * tile + place_.query + Place::query_of(i);
      const float left = q < problem_.queries ? query_squares_[q] : taken;
#pragma unroll
      for (unsigned j = 0; j < own; ++j) sums[i][j] = left + right[j] - 2 * sums[i][j];
    }
    bool more = true;
    while (more) {
      more = __syncthreads_or(offer(first, sums)) != 0;
      select();
      __syncthreads();
    }
#pragma unroll
    for (unsigned i = 0; i < own; ++i) {
#pragma unroll
      for (unsigned j = 0; j < own; ++j) sums[i][j] = 0;
    }
  }

  /// Writes the best to lists[query][part][nearest].
  __device__ void write(Key* lists) const {
    for (unsigned k = threadIdx.x; k < tile * nearest; k += threads) {
      const std::size_t query = std::size_t{blockIdx.x} * tile + k / nearest;
      if (query < problem_.queries)
        lists[(query * problem_.parts + blockIdx.y) * nearest + k % nearest] = found_.best[k / nearest][k % nearest];
    }
  }

 private:
  /// Adds distances within the limit to the candidates of their queries. Returns true if some did not fit.
  __device__ bool offer(std::size_t first, float (&sums)[own][own]) {
    bool more = false;
#pragma unroll
    for (unsigned i = 0; i < own; ++i) {
      const unsigned row = place_.query + Place::query_of(i);
      const float limit = found_.limit[row];
#pragma unroll
      for (unsigned j = 0; j < own; ++j) {
        if (!(sums[i][j] <= limit)) continue;
        const unsigned slot = atomicAdd(&found_.count[row], 1u);
        more = more || slot >= room;
        if (slot >= room) continue;
        found_.candidate[row][slot] = key_of(sums[i][j], first + place_.reference + Place::reference_of(j));
        sums[i][j] = taken;
      }
    }
    return more;
  }
  /// Merges candidates into the best. A warp processes one query after the other; each lane has one of a query's best.
  __device__ void select() {
    const unsigned lane = static_cast<unsigned>(device::lane());
    const unsigned warps = threads / static_cast<unsigned>(device::warp_size());
    for (unsigned row = static_cast<unsigned>(device::warp_in_block()); row < tile; row += warps) {
      const unsigned offered = found_.count[row], count = offered < room ? offered : room;
      if (count == 0) continue;
      Key mine = lane < nearest ? found_.best[row][lane] : none;
      for (unsigned k = 0; k < count; ++k) mine = inserted(mine, found_.candidate[row][k]);
      device::sync_warp(device::full_warp());  // all lanes have read the count
      if (lane < nearest) found_.best[row][lane] = mine;
      if (lane == nearest - 1) found_.limit[row] = distance_of(mine), found_.count[row] = 0;
    }
  }

  const Problem& problem_;
  const float *query_squares_, *reference_squares_;
  Found& found_;
  Place place_;
};

/// Tiles of references that a block processes.
struct Share {
  unsigned first, last;
  __device__ explicit Share(const Problem& problem)
      : first(static_cast<unsigned>(problem.tiles() * blockIdx.y / problem.parts)),
        last(static_cast<unsigned>(problem.tiles() * (blockIdx.y + 1) / problem.parts)) {}
};

// for (q = 0; q < queries; ++q)
//   for (r = 0; r < references; ++r) distance[r] = |query[q]|² + |reference[r]|² - 2 query[q]·reference[r]
//   lists[q] = the 20 smallest of (distance[r], r), in order
//
// A block has 128 queries and a part of the references. Distances beyond the last query or reference are computed from
// the last one and are not selected.
__global__ void __launch_bounds__(threads)
    knn_plain(Problem problem, const float* __restrict__ queries, const float* __restrict__ references,
              const float* query_squares, const float* reference_squares, Key* lists) {
  __shared__ Found found;
  Selection selection(problem, query_squares, reference_squares, found);
  const Place place;
  const Share share(problem);
  const auto row = [&](const float* matrix, std::size_t i, std::size_t n) {
    return reinterpret_cast<const float4*>(matrix + (i < n ? i : n - 1) * problem.pitch);
  };
  const float4 *a[own], *b[own];
#pragma unroll
  for (unsigned i = 0; i < own; ++i)
    a[i] = row(queries, std::size_t{blockIdx.x} * tile + place.query + Place::query_of(i), problem.queries);
  float sums[own][own] = {};
  for (unsigned number = share.first; number < share.last; ++number) {
#pragma unroll
    for (unsigned j = 0; j < own; ++j)
      b[j] = row(references, std::size_t{number} * tile + place.reference + Place::reference_of(j), problem.references);
#pragma unroll 1
    for (unsigned l = 0; l < problem.steps * (depth / 4); ++l)
      multiply_add(sums, [&](unsigned i) { return a[i][l]; }, [&](unsigned j) { return b[j][l]; });
    selection.add(std::size_t{number} * tile, sums);
  }
  selection.write(lists);
}

// Does the same as knn_plain with tiles of queries and references in shared memory. The tiles are laid out as in global
// memory, with zeros beyond the last query or reference.
template <TileStaging staging, unsigned buffers>
__global__ void __launch_bounds__(threads, 2)
    knn_staged(Problem problem, const float* queries, const float* references, const float* query_squares,
               const float* reference_squares, Key* lists) {
  __shared__ BulkBarrier arrived[device::pipeline_barriers<staging, buffers>];
  float* tiles = device::dynamic_shared<float>();
  Found& found = *reinterpret_cast<Found*>(tiles + buffers * 2 * tile_elements);
  Selection selection(problem, query_squares, reference_squares, found);
  const Place place;
  const Share share(problem);
  const auto bring = [&](auto& copier, float* to, const float* matrix, std::size_t first, std::size_t n,
                         unsigned step) {
    const float* corner = matrix + first * problem.pitch + std::size_t{step} * depth;
    const unsigned rows = n - first < tile ? static_cast<unsigned>(n - first) : tile;
    copier.template rows<tile, depth>(to, row_floats, {0, rows, 0, depth},
                                      [&](unsigned r) { return corner + r * problem.pitch; });
  };
  unsigned coming = share.first, coming_step = 0, number = share.first, step = 0;
  float sums[own][own] = {};
  device::TilePipeline<staging, buffers, threads> pipeline(arrived);
  pipeline.run(
      std::uint64_t{share.last - share.first} * problem.steps,
      [&](auto& copier, unsigned stage, std::uint64_t) {
        float* to = tiles + stage * 2 * tile_elements;
        bring(copier, to, queries, std::size_t{blockIdx.x} * tile, problem.queries, coming_step);
        bring(copier, to + tile_elements, references, std::size_t{coming} * tile, problem.references, coming_step);
        if (++coming_step == problem.steps) coming_step = 0, ++coming;
      },
      [&](unsigned stage, std::uint64_t) {
        const float* a = tiles + stage * 2 * tile_elements + place.query * row_floats;
        const float* b = tiles + (stage * 2 + 1) * tile_elements + place.reference * row_floats;
#pragma unroll
        for (unsigned l = 0; l < depth; l += 4) {
          multiply_add(
              sums,
              [&](unsigned i) { return *reinterpret_cast<const float4*>(a + Place::query_of(i) * row_floats + l); },
              [&](unsigned j) {
                return *reinterpret_cast<const float4*>(b + Place::reference_of(j) * row_floats + l);
              });
        }
        if (++step < problem.steps) return;
        selection.add(std::size_t{number++} * tile, sums);
        step = 0;
      });
  selection.write(lists);
}

// for (i = 0; i < n; ++i)
//   for (squares[i] = 0, l = 0; l < dims; ++l) squares[i] += x[i][l] * x[i][l];
__global__ void __launch_bounds__(threads)
    knn_squares(std::size_t n, std::size_t pitch, const float* x, float* squares) {
  const auto warps = threads / static_cast<unsigned>(device::warp_size());
  const std::size_t i = std::size_t{blockIdx.x} * warps + static_cast<unsigned>(device::warp_in_block());
  if (i >= n) return;
  float sum = 0;
  for (auto l = static_cast<unsigned>(device::lane()); l < pitch / 4; l += static_cast<unsigned>(device::warp_size())) {
    const float4 v = reinterpret_cast<const float4*>(x + i * pitch)[l];
    sum += v.x * v.x + v.y * v.y + (v.z * v.z + v.w * v.w);
  }
  for (int half = device::warp_size() / 2; half > 0; half /= 2)
    sum += device::shuffle_down(device::full_warp(), sum, static_cast<unsigned>(half));
  if (device::lane() == 0) squares[i] = sum;
}

// Merges the best of all parts, one query per warp.
__global__ void __launch_bounds__(threads)
    knn_merge(std::size_t queries, unsigned parts, const Key* lists, float* distance, unsigned* index) {
  const auto warps = threads / static_cast<unsigned>(device::warp_size());
  const auto lane = static_cast<unsigned>(device::lane());
  const std::size_t query = std::size_t{blockIdx.x} * warps + static_cast<unsigned>(device::warp_in_block());
  if (query >= queries) return;
  Key mine = none;
  for (unsigned part = 0; part < parts; ++part) {
    const Key theirs = lane < nearest ? lists[(query * parts + part) * nearest + lane] : none;
    for (unsigned k = 0; k < nearest; ++k)
      mine = inserted(mine, device::shuffle(device::full_warp(), theirs, static_cast<int>(k)));
  }
  if (lane >= nearest) return;
  distance[query * nearest + lane] = distance_of(mine);
  index[query * nearest + lane] = static_cast<unsigned>(mine);
}

/// Returns the points' coordinates as integers from -32 to 31, of which all sums are exact.
std::vector<std::int32_t> whole_numbers(const WholeNumbers& points, std::size_t n) {
  std::vector<std::int32_t> all(n);
  memory::parallel_for(n, 1 << 16, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) all[i] = static_cast<std::int32_t>(points(i));
  });
  return all;
}

/// Returns the number of queries with a wrong result. The distances of each query must match its indices and be sorted.
/// For `searched` of the queries, all references are searched, and none may be nearer than those found.
double wrong(const WholeNumbers& queries, const WholeNumbers& references, std::size_t dims, std::size_t n,
             std::size_t all, std::size_t searched, const float* distance, const unsigned* index) {
  const auto from = whole_numbers(queries, n * dims), to = whole_numbers(references, all * dims);
  const auto right_key = [&](std::size_t query, std::size_t r) {  // uses the definition, in whole numbers
    std::int32_t sum = 0;
    for (std::size_t l = 0; l < dims; ++l) {
      const std::int32_t apart = from[query * dims + l] - to[r * dims + l];
      sum += apart * apart;
    }
    return key_of(static_cast<float>(sum), r);
  };
  const auto found_key = [&](std::size_t i) { return key_of(distance[i], index[i]); };
  const auto is_disordered = [&](std::size_t query) {
    for (std::size_t i = query * nearest; i < (query + 1) * nearest; ++i) {
      if (index[i] >= all || found_key(i) != right_key(query, index[i])) return true;
      if (i % nearest > 0 && found_key(i) <= found_key(i - 1)) return true;
    }
    return false;
  };
  const auto ends_elsewhere = [&](std::size_t i) {  // compares the last; is_disordered checks the rest
    const std::size_t query = searched < n ? hash(queries.seed, 2, i) % n : i;
    std::vector<Key> keys(all);
    for (std::size_t r = 0; r < all; ++r) keys[r] = right_key(query, r);
    std::nth_element(keys.begin(), keys.begin() + nearest - 1, keys.end());
    return keys[nearest - 1] != found_key(query * nearest + nearest - 1);
  };
  return count_where(n, 1, is_disordered) + count_where(searched, 1, ends_elsewhere);
}

void knn(Case& c) {
  const std::size_t queries = c.extent("queries"), references = c.extent("references"), dims = c.extent("dims");
  refuse_if(references < nearest, "each query needs 20 neighbors: choose at least 20 references");
  refuse_if(queries > std::size_t{1} << 30 || references > std::size_t{1} << 30,
            "a block counts its tiles in 32 bits: choose at most 2^30 queries and references");
  refuse_if(dims > 8192, "sums of more than 8192 squares are not exact in fp32: choose at most 8192 dimensions");
  const WholeNumbers query_values{c.seed(), 0, 6}, reference_values{c.seed(), 1, 6};
  const std::size_t query_tiles = (queries + tile - 1) / tile, reference_tiles = (references + tile - 1) / tile;
  const bool streamed = c.placement()->chunked;
  const auto resident = 2 * static_cast<std::size_t>(c.device().multiprocessors);
  const std::size_t wanted =
      c.integer("parts") > 0 ? c.extent("parts") : std::max(resident / query_tiles, streamed ? streamed_parts : 1);
  const std::size_t parts = std::min({wanted, reference_tiles, std::size_t{65535}});
  const memory::Split split{.unit_bytes = tile * nearest * 4, .halo = 0};
  auto from = c.input_matrix<float>("queries", queries, dims, query_values, tile);
  auto to = c.input_matrix<float>("references", references, dims, reference_values);
  auto distance = c.output<float>("distance", queries * nearest, split);
  auto index = c.output<unsigned>("index", queries * nearest, split);
  auto query_squares = c.scratch<float>("squares of queries", queries);
  // Chunks may run in any order, so each computes the squares of the references again.
  auto reference_squares = c.scratch<float>("squares of references", references * (streamed ? query_tiles : 1));
  auto lists = c.scratch<Key>("nearest of each part", queries * parts * nearest);
  c.chunks(query_tiles);
  const bool small = queries * references <= (std::size_t{1} << 28) / dims;
  const std::size_t searched = small ? queries : std::min<std::size_t>(queries, 256);
  c.verify(
      "distances of all indices, search by the definition",
      [=] {
        return wrong(query_values, reference_values, dims, queries, references, searched, distance.host(),
                     index.host());
      },
      0);
  c.verify_same(distance);
  c.verify_same(index);

  const std::size_t warps = threads / static_cast<unsigned>(c.device().warp_size);
  const auto measure = [&](auto kernel, std::size_t shared_bytes) {
    c.measure(Control::queued, [=](Run& run) {
      const std::size_t first = run.chunk().first * tile, count = std::min(run.chunk().count * tile, queries - first);
      const Problem problem{count, references, from.pitch(), static_cast<unsigned>(from.pitch() / depth),
                            static_cast<unsigned>(parts)};
      float *ours = query_squares.device() + first,
            *theirs = reference_squares.device() + (streamed ? run.chunk().first * references : 0);
      const float* rows = from.device() + first * from.pitch();
      Key* best = lists.device() + first * parts * nearest;
      const auto high = static_cast<double>(count), wide = static_cast<double>(references),
                 deep = static_cast<double>(dims), kept = high * static_cast<double>(parts) * nearest;
      const auto a_warp_each = [=](std::size_t n) {
        return device::LaunchShape{.grid = static_cast<unsigned>((n + warps - 1) / warps), .block = threads};
      };
      run.launch(ISTHMUS_KERNEL(knn_squares), a_warp_each(count), {4 * high * deep, 4 * high, 2 * high * deep}, count,
                 from.pitch(), rows, ours);
      run.launch(ISTHMUS_KERNEL(knn_squares), a_warp_each(references), {4 * wide * deep, 4 * wide, 2 * wide * deep},
                 references, to.pitch(), to.device(), theirs);
      run.launch(kernel,
                 {.grid = {static_cast<unsigned>(run.chunk().count), static_cast<unsigned>(parts)},
                  .block = threads,
                  .shared_bytes = shared_bytes},
                 {4 * (high + wide) * (deep + 1), 8 * kept, 2 * high * wide * deep}, problem, rows, to.device(), ours,
                 theirs, best);
      run.launch(ISTHMUS_KERNEL(knn_merge), a_warp_each(count), {8 * kept, 8 * high * nearest, 0}, count, parts, best,
                 distance.device() + first * nearest, index.device() + first * nearest);
    });
  };
  if (c.staging() == Staging::none) return measure(ISTHMUS_KERNEL(knn_plain), 0);
  with_staging<ring>(c, [&](auto how, auto buffers) {
    const std::size_t shared_bytes = buffers() * 2 * tile_elements * sizeof(float) + sizeof(Found);
    if (shared_bytes > c.device().shared_per_block)
      throw Skip("tiles and candidates do not fit into a block's shared memory on this device: choose staging none",
                 SkipKind::unsupported);
    measure(Kernel{"knn_staged", knn_staged<how(), buffers()>}, shared_bytes);
  });
}

const Registration registration =
    paper_program("apps/knn", knn, "UVMBench's knn")
        .summary("the 20 nearest references of every query by squared distance, selected in the same pass")
        .stagings({Staging::none, Staging::direct, Staging::async, Staging::bulk})
        .axis(number_axis("queries", "points whose neighbours are searched", 4096))
        .axis(number_axis("references", "points to search", 4096))
        .axis(number_axis("dims", "dimensions of a point", 128))
        .axis(how(number_axis(
            "parts", "parts into which references are divided, for more blocks; 0: enough to fill the device", 0, 0)))
        .sizes({"queries"}, {64, 1024, 4096, 8192, 16384, 32768})
        .sizes({"references"}, {256, 1024, 4096, 8192, 16384, 32768})
        .sizes({"dims"}, {16, 64, 128, 128, 128, 512});

}  // namespace
}  // namespace isthmus::apps
