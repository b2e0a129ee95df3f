// Temperature of a chip: a five-point stencil with heating by the chip's power and cooling by the air. It alternates
// between two buffers and fuses several steps into one pass.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "apps/unified.hpp"
#include "memory/parallel.hpp"
#include "workload/choices.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;

constexpr float along_row = 0.09375f, along_column = 0.125f, to_air = 0.00390625f, heating = 0.5f, air = 80.0f;

/// Returns the part of a step's result that does not depend on temperatures: heat from the cell's power and from the
/// air.
__host__ __device__ inline float source_of(float power) {
  return fmaf(heating, power, to_air * air);
}
/// Returns a cell's temperature after a step. Every product is in an explicit fma and sums of neighbours commute, so
/// that the host, every GPU and every number of fused steps produce the same bits.
__host__ __device__ inline float step_of(float own, float above_and_below, float left_and_right, float source) {
  constexpr float kept = 1 - 2 * along_row - 2 * along_column - to_air;
  return fmaf(kept, own, fmaf(along_column, above_and_below, fmaf(along_row, left_and_right, source)));
}
/// Returns the index in [0, n) that `i` is mirrored to. Heat does not cross an edge, because the cell beyond it is as
/// warm as the cell at it. A field mirrored at its edges stays mirrored, so steps need not treat edges specially.
__host__ __device__ inline std::size_t mirror(std::int64_t i, std::int64_t n) {
  if (i < 0) i = -1 - i;
  if (i >= n) i %= 2 * n;  // NOLINT(clang-analyzer-core.DivideZero): n is at least 1
  return static_cast<std::size_t>(i < n ? i : 2 * n - 1 - i);
}

// Size of a block's tile, including its halo. Each thread has `depth` rows of one column.
constexpr unsigned width = 128, height = 64, depth = 16, groups = height / depth;

// for (step = 0; step < steps; ++step)
//   for (r = 0; r < rows; ++r)
//     for (c = 0; c < columns; ++c)
//       to[r][c] = step_of(from[r][c], from[r-1][c] + from[r+1][c], from[r][c-1] + from[r][c+1],
//       source_of(power[r][c]));
//   swap(from, to)                                           (indices outside are those of the nearest cell inside)
//
// After `steps` ≤ `fused` steps, a tile with a halo of `fused` cells is correct outside the halo. Temperatures stay in
// registers; shared memory passes them to the neighbours in the row and to the threads above and below.
template <unsigned fused>
__global__ void __launch_bounds__(width* groups, 2)
    hotspot_pass(std::size_t rows, std::size_t columns, std::size_t pitch, unsigned steps,
                 const float* __restrict__ power, const float* __restrict__ from, float* __restrict__ to) {
  __shared__ float tile[height][width];
  const unsigned x = threadIdx.x, first = threadIdx.y * depth;
  const auto column = std::int64_t{blockIdx.x} * (width - 2 * fused) + x - fused;
  const auto row = std::int64_t{blockIdx.y} * (height - 2 * fused) + first - fused;
  const std::size_t from_column = mirror(column, static_cast<std::int64_t>(columns));
  float own[depth], source[depth];
  const auto load = [&](auto from_row) {
#pragma unroll
    for (unsigned r = 0; r < depth; ++r) {
      const std::size_t at = from_row(r) * pitch + from_column;
      own[r] = from[at];
      source[r] = source_of(power[at]);
    }
  };
  if (row >= 0 && row + depth <= static_cast<std::int64_t>(rows)) {
    load([&](unsigned r) { return static_cast<std::size_t>(row) + r; });
  } else {
    load([&](unsigned r) { return mirror(row + r, static_cast<std::int64_t>(rows)); });
  }
  const unsigned left = x > 0 ? x - 1 : 0, right = x + 1 < width ? x + 1 : x;
  const unsigned before = first > 0 ? first - 1 : 0, after = first + depth < height ? first + depth : height - 1;
  for (unsigned step = 0; step < steps; ++step) {
#pragma unroll
    for (unsigned r = 0; r < depth; ++r) tile[first + r][x] = own[r];
    __syncthreads();
    float above = tile[before][x];
    const float last_below = tile[after][x];
#pragma unroll
    for (unsigned r = 0; r < depth; ++r) {
      const float was = own[r], below = r + 1 < depth ? own[r + 1 < depth ? r + 1 : r] : last_below;
      own[r] = step_of(was, above + below, tile[first + r][left] + tile[first + r][right], source[r]);
      above = was;
    }
    __syncthreads();
  }
  const bool inside = x >= fused && x < width - fused && column < static_cast<std::int64_t>(columns);
#pragma unroll
  for (unsigned r = 0; r < depth; ++r) {
    const bool in_rows = first + r >= fused && first + r < height - fused && row + r < static_cast<std::int64_t>(rows);
    if (inside && in_rows) to[static_cast<std::size_t>(row + r) * pitch + static_cast<std::size_t>(column)] = own[r];
  }
}

/// Initial temperature and power of each cell; cells are numbered without padding.
struct Chip {
  std::size_t rows, columns;
  Values<float, Uniform> temperature, power;
  std::size_t cells() const { return rows * columns; }
};

/// Returns the temperatures after `steps` steps of the window that begins at (top, left), computed row by row. They are
/// wrong in a rim of `steps` cells, except where the window ends at an edge of the chip.
std::vector<float> serial(const Chip& chip, std::int64_t top, std::int64_t left, std::size_t rows, std::size_t columns,
                          std::size_t steps) {
  std::vector<float> from(rows * columns), to(rows * columns), source(rows * columns);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto r = mirror(top + static_cast<std::int64_t>(i / columns), static_cast<std::int64_t>(chip.rows));
    const auto c = mirror(left + static_cast<std::int64_t>(i % columns), static_cast<std::int64_t>(chip.columns));
    from[i] = chip.temperature(r * chip.columns + c);
    source[i] = source_of(chip.power(r * chip.columns + c));
  }
  for (std::size_t step = 0; step < steps; ++step, std::swap(from, to)) {
    for (std::size_t r = 0; r < rows; ++r) {
      const float *own = &from[r * columns], *above = r > 0 ? own - columns : own;
      const float* below = r + 1 < rows ? own + columns : own;
      for (std::size_t c = 0; c < columns; ++c) {
        const float sides = own[c > 0 ? c - 1 : c] + own[c + 1 < columns ? c + 1 : c];
        to[r * columns + c] = step_of(own[c], above[c] + below[c], sides, source[r * columns + c]);
      }
    }
  }
  return from;
}

/// Returns the number of wrong cells in several windows, which include the corners; each window crosses edges of tiles.
/// A window depends only on cells within `steps` of it.
double count_wrong(const Chip& chip, std::size_t steps, std::uint64_t seed, const float* values, std::size_t pitch) {
  const std::size_t high = std::min<std::size_t>(chip.rows, 160), wide = std::min<std::size_t>(chip.columns, 160);
  std::atomic<std::size_t> wrong = 0;
  memory::parallel_for(12, 1, [&](std::size_t first, std::size_t last) {
    for (std::size_t k = first; k < last; ++k) {
      const auto place = [&](std::size_t room, bool far, std::uint64_t stream) {
        return k < 4 ? (far ? room : 0) : hash(seed, stream, k) % (room + 1);
      };
      const std::size_t top = place(chip.rows - high, k / 2 == 1, 2), left = place(chip.columns - wide, k % 2 == 1, 3);
      // The computed region ends at the chip's edges, because serial() mirrors at the edges of a region.
      const std::size_t above = std::min(top, steps), before = std::min(left, steps);
      const std::size_t all_rows = above + high + std::min(steps, chip.rows - top - high);
      const std::size_t all_columns = before + wide + std::min(steps, chip.columns - left - wide);
      const auto right = serial(chip, static_cast<std::int64_t>(top - above), static_cast<std::int64_t>(left - before),
                                all_rows, all_columns, steps);
      for (std::size_t i = 0; i < high * wide; ++i) {
        const std::size_t r = i / wide, c = i % wide;
        if (right[(above + r) * all_columns + before + c] != values[(top + r) * pitch + left + c]) ++wrong;
      }
    }
  });
  return static_cast<double>(wrong);
}

/// Returns a reader of the original program's two files joined into one: temperatures, then powers.
std::function<void(std::span<float>)> open_chip(const InputFile& file, std::size_t numbers) {
  return numbers_of({file, "use a file with rows × cols temperatures, followed by as many powers"}, numbers, -1e4f,
                    1e4f);
}

using Fused = Choices<8u, 1u, 2u, 3u, 4u, 6u>;  // the first is the default

void hotspot(Case& c) {
  const std::size_t rows = c.extent("rows"), columns = c.extent("cols"), steps = c.extent("steps");
  Chip chip{rows, columns, uniform(c.seed(), 0, 320, 340), uniform(c.seed(), 1, 0, 1)};
  const std::size_t numbers = 2 * chip.cells();
  const UserFile<float> file(c, numbers, [=](const InputFile& from) { return open_chip(from, numbers); });
  chip.temperature.take(file);
  chip.power.take(file, chip.cells());
  auto power = c.input_matrix<float>("power", rows, columns, chip.power);
  auto heat = c.inout_matrix<float>("temperature", rows, columns, chip.temperature);
  auto other = c.scratch<float>("other", heat.size());
  file.fills(c, heat, power);

  if (static_cast<double>(chip.cells()) * static_cast<double>(steps) <= 0x1p26) {
    c.verify_all(heat, [=](std::span<float> expected) {
      const auto right = serial(chip, 0, 0, rows, columns, steps);
      std::copy(right.begin(), right.end(), expected.begin());
    });
  }
  c.verify(
      "dependency cones of sampled windows",
      [=, seed = c.seed()] { return count_wrong(chip, steps, seed, heat.host(), heat.pitch()); }, 0);
  c.verify_same(heat);

  Fused::with(c.integer("fused"), [&](auto fused) {
    constexpr unsigned cut_columns = width - 2 * fused(), cut_rows = height - 2 * fused();
    const device::LaunchShape shape{.grid = {static_cast<unsigned>((columns + cut_columns - 1) / cut_columns),
                                             static_cast<unsigned>((rows + cut_rows - 1) / cut_rows)},
                                    .block = {width, groups}};
    // The number of passes is even, so that the last pass writes to the buffer that the first one read.
    const std::size_t passes = (steps + 2 * fused() - 1) / (2 * fused()) * 2;
    c.measure(Control::queued, [=](Run& run) {
      const double cells = static_cast<double>(chip.cells());
      for (std::size_t pass = 0; pass < passes; ++pass) {
        const auto now = static_cast<unsigned>(steps * (pass + 1) / passes - steps * pass / passes);
        const Traffic traffic{.bytes_read = 8 * cells, .bytes_written = 4 * cells, .flops = 8 * cells * now};
        const bool even = pass % 2 == 0;
        run.launch(device::Kernel{"hotspot_pass", hotspot_pass<fused()>}, shape, traffic, rows, columns, heat.pitch(),
                   now, power.device(), even ? heat.device() : other.device(), even ? other.device() : heat.device());
      }
    });
  });
}

Workload workload() {
  Workload w("apps/hotspot", hotspot);
  w.version(1)
      .summary("heat on a chip: a five-point stencil over many steps, several of them fused in a pass")
      .source("pipelining-taco2025, Table 2 (Rodinia's hotspot)")
      .tags({"app", "pipelining", "mi300a"})
      .placements(memory::all_placements())
      .stagings({Staging::none})
      .axis(number_axis("rows", "rows of the chip", 2048))
      .axis(number_axis("cols", "columns of the chip", 2048))
      .axis(number_axis("steps", "time steps", 64))
      .axis(how(choice_axis("fused", "steps fused in a pass", Fused::allowed())))
      .axis(submission_axis())
      .preset(unified_preset());
  with_data(w, "ISTHMUS_HOTSPOT",
            "a text file of a chip's temperatures, then its powers (Rodinia's temp_* and power_*)");
  using Square = std::pair<const char*, int>;  // name and side; super and mega are the paper's
  for (const auto& [name, n] : {Square{"tiny", 512}, Square{"small", 1024}, Square{"medium", 2048},
                                Square{"large", 4096}, Square{"super", 8192}, Square{"mega", 12288}})
    w.size(name, {{"rows", n}, {"cols", n}});
  return w;
}

const Registration registration = workload();

}  // namespace
}  // namespace isthmus::apps
