// The cheapest path through a grid, row by row. A step goes down, or down and one column to the side. One pass
// processes many rows.

#include <algorithm>
#include <string>
#include <vector>

#include "apps/modes.hpp"
#include "memory/parallel.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;

using Cost = std::uint32_t;
constexpr Cost dearest = 9, infinite = 1u << 30;                    // largest cost of a cell; cost outside the grid
constexpr unsigned threads = 1024, own = 8, width = threads * own;  // columns per thread, and per tile with its halo
constexpr unsigned ahead = 3;                                       // rows that are fetched ahead

/// Costs of the columns of a thread as it moves down row by row.
struct Front {
  Cost cost[own];
  std::int64_t column, columns;  // first column of the thread; columns of the grid
  bool whole;                    // true if every column of the tile is inside the grid
  Cost* edges;                   // first and last cost of each warp, for adjacent warps; two sets, so that one
                                 // barrier per row is enough

  __device__ bool inside(unsigned j) const { return column + j >= 0 && column + j < columns; }

  __device__ Front(std::int64_t tile, std::int64_t columns_, const Cost* from, Cost* edges_)
      : column(tile + threadIdx.x * own),
        columns(columns_),
        whole(tile >= 0 && tile + width <= columns_),
        edges(edges_) {
#pragma unroll
    for (unsigned j = 0; j < own; ++j) cost[j] = inside(j) ? from[column + j] : infinite;
  }

  /// Moves down one row; all threads must call it. Costs outside the tile are unknown, so in each row one more column
  /// at either end of the tile becomes wrong.
  __device__ void advance(std::uint64_t row, const Cost (&wall)[own]) {
    const int lane = device::lane(), last = device::warp_size() - 1, warp = device::warp_in_block();
    Cost* mine = edges + row % 2 * (threads / 32 * 2) + warp * 2;
    Cost left = device::shuffle_up(device::full_warp(), cost[own - 1], 1);
    Cost right = device::shuffle_down(device::full_warp(), cost[0], 1);
    if (lane == 0) mine[0] = cost[0];
    if (lane == last) mine[1] = cost[own - 1];
    __syncthreads();
    if (lane == 0) left = threadIdx.x > 0 ? mine[-1] : infinite;
    if (lane == last) right = threadIdx.x + 1 < threads ? mine[2] : infinite;
#pragma unroll
    for (unsigned j = 0; j < own; ++j) {
      const Cost was = cost[j], next = j + 1 < own ? cost[j + 1 < own ? j + 1 : j] : right;
      const Cost lower = left < was ? left : was;
      cost[j] = (lower < next ? lower : next) + wall[j];
      left = was;
    }
    if (!whole) {
#pragma unroll
      for (unsigned j = 0; j < own; ++j) cost[j] = inside(j) ? cost[j] : infinite;
    }
  }

  __device__ void store(Cost* to, unsigned halo) const {
#pragma unroll
    for (unsigned j = 0; j < own; ++j) {
      const unsigned place = threadIdx.x * own + j;
      if (place >= halo && place < width - halo && inside(j)) to[column + j] = cost[j];
    }
  }
};

__device__ inline void unpack(const uint4& value, Cost* to) {
  to[0] = value.x;
  to[1] = value.y;
  to[2] = value.z;
  to[3] = value.w;
}

// for (r = 0; r < rows; ++r, swap(from, to))
//   for (c = 0; c < columns; ++c) to[c] = wall[r][c] + min(from[c-1], from[c], from[c+1])
//
// Each block moves a tile with a halo of at least `rows` columns down all rows. Costs are in registers, and three rows
// are fetched ahead.
__global__ void __launch_bounds__(threads)
    pathfinder_plain(std::uint64_t rows, std::int64_t columns, std::size_t pitch, unsigned halo,
                     const Cost* __restrict__ wall, const Cost* __restrict__ from, Cost* __restrict__ to) {
  __shared__ Cost edges[2 * threads / 32 * 2];
  Front front(std::int64_t{blockIdx.x} * (width - 2 * halo) - halo, columns, from, edges);
  Cost next[ahead][own] = {};
  const auto fetch = [&](Cost(&values)[own], std::uint64_t row) {
#pragma unroll
    for (unsigned v = 0; v < own; v += 4) {
      // Rows are padded to whole vectors, and a tile begins at a multiple of a vector.
      if (row < rows && front.inside(v))
        unpack(*reinterpret_cast<const uint4*>(wall + row * pitch + static_cast<std::size_t>(front.column + v)),
               values + v);
    }
  };
#pragma unroll
  for (unsigned k = 0; k < ahead; ++k) fetch(next[k], k);
  for (std::uint64_t row = 0; row < rows; row += ahead) {
#pragma unroll
    for (unsigned k = 0; k < ahead; ++k) {
      if (row + k >= rows) break;
      front.advance(row + k, next[k]);
      fetch(next[k], row + k + ahead);
    }
  }
  front.store(to, halo);
}

// Does the same as pathfinder_plain, with the tile's rows copied into shared memory.
template <TileStaging staging, unsigned depth>
__global__ void __launch_bounds__(threads)
    pathfinder_staged(std::uint64_t rows, std::int64_t columns, std::size_t pitch, unsigned halo, const Cost* wall,
                      const Cost* __restrict__ from, Cost* __restrict__ to) {
  __shared__ Cost edges[2 * threads / 32 * 2];
  __shared__ BulkBarrier arrived[device::pipeline_barriers<staging, depth>];
  Cost* tiles = device::dynamic_shared<Cost>();
  const std::int64_t tile = std::int64_t{blockIdx.x} * (width - 2 * halo) - halo;
  const std::int64_t begin = tile < 0 ? 0 : tile, room = static_cast<std::int64_t>(pitch) - begin;
  const auto skipped = static_cast<unsigned>(begin - tile);
  const unsigned count = room < width - skipped ? static_cast<unsigned>(room) : width - skipped;
  Front front(tile, columns, from, edges);
  device::TilePipeline<staging, depth, threads> pipeline(arrived);
  pipeline.run(
      rows,
      [&](auto& copier, unsigned stage, std::uint64_t row) {
        copier.run(tiles + stage * width + skipped, wall + row * pitch + static_cast<std::size_t>(begin), count);
      },
      [&](unsigned stage, std::uint64_t row) {
        Cost values[own];
        const Cost* mine = tiles + stage * width + threadIdx.x * own;
#pragma unroll
        for (unsigned v = 0; v < own; v += 4) unpack(*reinterpret_cast<const uint4*>(mine + v), values + v);
        front.advance(row, values);
      });
  front.store(to, halo);
}

/// Cost of each cell, from 0 to `dearest`.
struct Wall {
  std::uint64_t seed;
  Cost operator()(std::size_t i) const { return static_cast<Cost>((hash(seed, 0, i) >> 32) * (dearest + 1) >> 32); }
};

/// Computes the costs of the last row. The grid is processed in parts that overlap by as many columns as there are
/// rows.
void reference(const Wall& wall, std::size_t rows, std::size_t columns, std::span<Cost> costs) {
  memory::parallel_for(columns, 1 << 16, [&](std::size_t first, std::size_t last) {
    const std::size_t begin = first - std::min(first, rows), end = std::min(columns, last + rows);
    std::vector<Cost> from(end - begin + 2, infinite), to = from;  // one more element at either end
    for (std::size_t r = 0; r < rows; ++r, std::swap(from, to)) {
      for (std::size_t c = begin, i = 1; c < end; ++c, ++i) {
        const Cost least = r == 0 ? 0 : std::min({from[i - 1], from[i], from[i + 1]});
        to[i] = least + wall(r * columns + c);
      }
    }
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(first - begin) + 1, last - first,
                costs.begin() + static_cast<std::ptrdiff_t>(first));
  });
}

void run(Case& c) {
  const std::size_t rows = c.extent("rows"), columns = c.extent("cols"), fused = c.extent("fused");
  refuse_if(rows > infinite / (dearest + 1), "costs are counted in 32 bits: choose at most 107374182 rows");
  refuse_if(fused > width / 4, "a tile of 8192 columns has a halo of `fused` columns a side: choose at most 2048");
  refuse_if(columns >> 42 != 0, "a grid has too few blocks for so many columns: choose fewer than 2^42");
  const Wall values{c.seed()};
  auto wall = c.input_matrix<Cost>("wall", rows, columns, values);
  auto result = c.output<Cost>("cost", columns);
  auto other = c.scratch<Cost>("other", columns);
  c.verify_all(result, [=](std::span<Cost> costs) { reference(values, rows, columns, costs); });
  c.verify_same(result);

  // The first row is the input of the first pass; the last pass writes to `cost`.
  const std::size_t passes = std::max<std::size_t>((rows - 1 + fused - 1) / fused, 1);
  const auto measure = [&](auto kernel, std::size_t shared_bytes) {
    c.measure(Control::queued, [=](Run& run) {
      for (std::size_t pass = 0; pass < passes; ++pass) {
        const std::size_t first = 1 + (rows - 1) * pass / passes, count = 1 + (rows - 1) * (pass + 1) / passes - first;
        const std::size_t halo = (count + 3) / 4 * 4, cut = width - 2 * halo;
        const double across = static_cast<double>(columns), cells = across * static_cast<double>(count);
        const bool even = (passes - pass) % 2 == 0;
        const Cost* from = pass == 0 ? wall.device() : even ? result.device() : other.device();
        run.launch(
            kernel,
            {.grid = static_cast<unsigned>((columns + cut - 1) / cut), .block = threads, .shared_bytes = shared_bytes},
            {.bytes_read = 4 * (cells + across), .bytes_written = 4 * across, .flops = 3 * cells}, count, columns,
            wall.pitch(), halo, wall.device() + first * wall.pitch(), from, even ? other.device() : result.device());
      }
    });
  };
  if (c.staging() == Staging::none) return measure(ISTHMUS_KERNEL(pathfinder_plain), 0);
  with_staging<ahead>(c, [&](auto how, auto depth) {
    measure(Kernel{"pathfinder_staged", pathfinder_staged<how(), depth()>}, depth() * width * sizeof(Cost));
  });
}

constexpr int mi = 1 << 20;  // as many bytes as in Table 3, in 100 rows
const Registration registration = paper_program("apps/pathfinder", run, "Rodinia's pathfinder")
                                      .summary("cheapest path through a grid, by rows, many rows in a pass")
                                      .stagings({Staging::none, Staging::direct, Staging::async, Staging::bulk})
                                      .axis(number_axis("rows", "rows of the grid", 100))
                                      .axis(number_axis("cols", "columns of the grid", 1 << 16))
                                      .axis(how(number_axis("fused", "maximum number of rows per pass", 128)))
                                      .sizes({"cols"}, {mi / 128, mi / 16, mi / 2, 2 * mi, 5 * mi, 20 * mi});

}  // namespace
}  // namespace isthmus::apps
