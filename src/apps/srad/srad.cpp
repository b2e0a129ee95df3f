// Speckle-reducing anisotropic diffusion of an image: coefficients and update in one pass, and with them the statistics
// that the next step needs.

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "apps/modes.hpp"
#include "memory/parallel.hpp"
#include "workload/workload.hpp"
#include "workload/worst.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;
using device::BulkBarrier;
using Sum = unsigned long long;

constexpr float rate = 0.25f * 0.5f;  // a quarter of the original's lambda

/// How strong the speckle is, as a step needs it.
struct Speckle {
  float q0, scale;  // the squared coefficient of variation, and 1 / (q0 (1 + q0))
};
/// Sums are of whole numbers, exact in any order: 2^23 times an intensity, and its square.
__host__ __device__ inline Sum counted(float value) {
  return static_cast<Sum>(value * 0x1p23f);
}
__host__ __device__ inline Speckle speckle_of(Sum sum, Sum squares, double cells) {
  const double mean = static_cast<double>(sum) / cells * 0x1p-23;
  const double variance = fma(-mean, mean, static_cast<double>(squares) / cells * 0x1p-23);
  const double ratio = variance / (mean * mean), q0 = ratio > 0x1p-40 ? ratio : 0x1p-40;
  return {static_cast<float>(q0), static_cast<float>(1 / fma(q0, q0, q0))};
}

// Every product that is added to is in an explicit fma, so that the host and every GPU get the same bits.
struct Differences {
  float above, below, left, right;
};
__host__ __device__ inline float coefficient_of(float own, const Differences& d, const Speckle& speckle) {
  const float inverse = 1 / own;
  const float squares = fmaf(d.above, d.above, fmaf(d.below, d.below, fmaf(d.left, d.left, d.right * d.right)));
  const float gradient = squares * inverse * inverse;
  const float laplacian = ((d.above + d.below) + (d.left + d.right)) * inverse;
  const float numerator = fmaf(-0.0625f * laplacian, laplacian, 0.5f * gradient);
  const float root = fmaf(0.25f, laplacian, 1.0f), square = root * root;
  // 1 / (1 + (numerator / square - q0) / (q0 (1 + q0))), with one division
  const float c = square / fmaf(fmaf(-speckle.q0, square, numerator), speckle.scale, square);
  return c < 0 ? 0 : c > 1 ? 1 : c;
}
__host__ __device__ inline float updated(float own, const Differences& d, float c, float c_below, float c_right) {
  return fmaf(rate, fmaf(c, d.above + d.left, fmaf(c_below, d.below, c_right * d.right)), own);
}

// A block's tile, halo and all, and how its threads share it: one column and `depth` rows each. A cell depends on those
// up to one above and to the left, up to two below and to the right.
constexpr int width = 128, height = 64, depth = 16, threads = width * (height / depth);
constexpr int left_halo = 4, cut_columns = width - 8, top_halo = 1, cut_rows = height - 3;  // what of it is written
constexpr unsigned ring = 2;

struct Image {
  std::int64_t rows, columns;
  std::size_t pitch;
  std::int64_t roi_rows, roi_columns;  // from the first cell on: where the statistics are taken

  __host__ __device__ double roi_cells() const {
    return static_cast<double>(roi_rows) * static_cast<double>(roi_columns);
  }
  __host__ __device__ std::int64_t across() const { return (columns + cut_columns - 1) / cut_columns; }
  __host__ __device__ std::int64_t tiles() const { return across() * ((rows + cut_rows - 1) / cut_rows); }
};

/// Adds up what the threads of each warp have.
__device__ inline void add_statistics(Sum sum, Sum squares, Sum* sums) {
  for (int half = device::warp_size() / 2; half > 0; half /= 2) {
    sum += device::shuffle_down(device::full_warp(), sum, static_cast<unsigned>(half));
    squares += device::shuffle_down(device::full_warp(), squares, static_cast<unsigned>(half));
  }
  if (device::lane() != 0 || sum == 0) return;
  atomicAdd(sums, sum);
  atomicAdd(sums + 1, squares);
}

// The statistics of the image that comes in.
__global__ void __launch_bounds__(threads) srad_statistics(Image image, const float* __restrict__ from, Sum* sums) {
  Sum sum = 0, squares = 0;
  for (std::int64_t r = blockIdx.x; r < image.roi_rows; r += gridDim.x) {
    for (std::int64_t c = threadIdx.x; c < image.roi_columns; c += threads) {
      const float value = from[static_cast<std::size_t>(r) * image.pitch + static_cast<std::size_t>(c)];
      sum += counted(value);
      squares += counted(value * value);
    }
  }
  add_statistics(sum, squares, sums);
}

/// A tile of the image, and which of its rows and columns lie in the image. Cells outside are those at the edge.
struct Tile {
  std::int64_t top, left;
  int first_row, last_row, first_column, last_column;

  __device__ Tile(const Image& image, std::int64_t number)
      : top(number / image.across() * cut_rows - top_halo), left(number % image.across() * cut_columns - left_halo) {
    first_row = top < 0 ? top_halo : 0;
    first_column = left < 0 ? left_halo : 0;
    last_row = static_cast<int>(image.rows - top < height ? image.rows - top : height) - 1;
    last_column = static_cast<int>(image.columns - left < width ? image.columns - left : width) - 1;
  }
  __device__ bool whole() const {
    return first_row == 0 && first_column == 0 && last_row == height - 1 && last_column == width - 1;
  }
  __device__ int row(int r) const { return r < first_row ? first_row : r > last_row ? last_row : r; }
  __device__ int column(int c) const { return c < first_column ? first_column : c > last_column ? last_column : c; }
};

// for (r = 0; r < rows; ++r)
//   for (c = 0; c < columns; ++c) k[r][c] = coefficient_of(from[r][c], its four neighbours, speckle);
// for (r = 0; r < rows; ++r)
//   for (c = 0; c < columns; ++c) to[r][c] = updated(from[r][c], …, k[r][c], k[r+1][c], k[r][c+1]);
//
// `cells` and `coefficients` are tiles in shared memory; the cells are there. What is wrong at the tile's rim for want
// of neighbours is not written.
__device__ inline void diffuse(const Image& image, const Tile& tile, const float* cells, float* coefficients,
                               const Speckle& speckle, float* __restrict__ to, Sum* sums) {
  const int x = threadIdx.x % width, first = threadIdx.x / width * depth;
  const int left = x > 0 ? -1 : 0, right = x + 1 < width ? 1 : 0, last = height - 1 - first;
  const float* mine = cells + first * width + x;
  float* results = coefficients + first * width + x;
  const auto each = [&](auto use) {
    float above = mine[first > 0 ? -width : 0], own = mine[0];
#pragma unroll 2
    for (int r = 0; r < depth; ++r) {
      const float below = mine[(r < last ? r + 1 : r) * width];
      use(r, own, Differences{above - own, below - own, mine[r * width + left] - own, mine[r * width + right] - own});
      above = own;
      own = below;
    }
  };
  each([&](int r, float own, const Differences& d) { results[r * width] = coefficient_of(own, d, speckle); });
  __syncthreads();
  Sum sum = 0, squares = 0;
  const std::int64_t column = tile.left + x, top = tile.top + first;
  const bool in_columns = x >= left_halo && x < left_halo + cut_columns && column < image.columns;
  float* out = to + top * static_cast<std::int64_t>(image.pitch) + column;
  each([&](int r, float own, const Differences& d) {
    const bool in_rows = first + r >= top_halo && first + r < top_halo + cut_rows && top + r < image.rows;
    if (!in_columns || !in_rows) return;
    const float value = updated(own, d, results[r * width], results[(r + 1) * width], results[r * width + 1]);
    out[static_cast<std::size_t>(r) * image.pitch] = value;
    if (top + r >= image.roi_rows || column >= image.roi_columns) return;
    sum += counted(value);
    squares += counted(value * value);
  });
  if (tile.top < image.roi_rows && tile.left < image.roi_columns) add_statistics(sum, squares, sums);
}

__device__ inline Speckle speckle_now(const Image& image, const Sum* sums) {
  __shared__ Speckle speckle;
  if (threadIdx.x == 0) speckle = speckle_of(sums[0], sums[1], image.roi_cells());
  __syncthreads();
  return speckle;
}

__global__ void __launch_bounds__(threads, 3)
    srad_plain(Image image, const float* __restrict__ from, float* __restrict__ to, Sum* sums) {
  float* cells = device::dynamic_shared<float>();
  const Tile tile(image, blockIdx.x);
  const int x = threadIdx.x % width, first = threadIdx.x / width * depth;
  const float* corner = from + tile.top * static_cast<std::int64_t>(image.pitch) + tile.left + tile.column(x);
#pragma unroll 8
  for (int r = first; r < first + depth; ++r)
    cells[r * width + x] = corner[tile.row(r) * static_cast<std::int64_t>(image.pitch)];
  const Speckle speckle = speckle_now(image, sums);  // whose barrier is the tile's, too
  diffuse(image, tile, cells, cells + width * height, speckle, to, sums + 2);
}

// The same, with each block's tiles brought into shared memory one after the other.
template <TileStaging staging, unsigned buffers>
__global__ void __launch_bounds__(threads, 2)
    srad_staged(Image image, const float* from, float* __restrict__ to, Sum* sums) {
  __shared__ BulkBarrier arrived[device::pipeline_barriers<staging, buffers>];
  float* tiles = device::dynamic_shared<float>();
  const Speckle speckle = speckle_now(image, sums);
  const auto mine = static_cast<std::uint64_t>((image.tiles() - blockIdx.x + gridDim.x - 1) / gridDim.x);
  const auto number = [](std::uint64_t i) { return static_cast<std::int64_t>(blockIdx.x + i * gridDim.x); };
  device::TilePipeline<staging, buffers, threads> pipeline(arrived);
  pipeline.run(
      mine,
      [&](auto& copier, unsigned stage, std::uint64_t i) {
        const Tile tile(image, number(i));
        const device::TileWindow window{static_cast<unsigned>(tile.first_row), static_cast<unsigned>(tile.last_row + 1),
                                        static_cast<unsigned>(tile.first_column),
                                        static_cast<unsigned>(tile.last_column / 4 * 4 + 4)};
        const float* corner = from + tile.top * static_cast<std::int64_t>(image.pitch) + tile.left;
        copier.template rows<height, width>(tiles + stage * width * height, width, window,
                                            [&](unsigned r) { return corner + r * image.pitch; });
      },
      [&](unsigned stage, std::uint64_t i) {
        const Tile tile(image, number(i));
        float* cells = tiles + stage * width * height;
        if (!tile.whole()) {
          for (int k = threadIdx.x; k < width * height; k += threads) {
            const int r = k / width, c = k % width, row = tile.row(r), column = tile.column(c);
            if (r != row || c != column) cells[k] = cells[row * width + column];
          }
          __syncthreads();
        }
        diffuse(image, tile, cells, tiles + buffers * width * height, speckle, to, sums + 2);
      });
}

void reference(const Image& image, const Uniform& values, std::size_t steps, std::span<float> out) {
  std::vector<float> other(out.size()), coefficients(out.size());
  std::span<float> from = out, to = other;
  const auto rows = static_cast<std::size_t>(image.rows), columns = static_cast<std::size_t>(image.columns);
  const auto each = [&](std::span<float> result, auto value) {
    memory::parallel_for(rows, 16, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first * columns, c = 0; i < last * columns; ++i, c = c + 1 < columns ? c + 1 : 0) {
        const std::size_t below = i + columns < out.size() ? i + columns : i, right = c + 1 < columns ? i + 1 : i;
        const float own = from[i];
        const Differences d{from[i < columns ? i : i - columns] - own, from[below] - own, from[c > 0 ? i - 1 : i] - own,
                            from[right] - own};
        result[i] = value(own, d, i, below, right);
      }
    });
  };
  each(from, [&](float, const Differences&, std::size_t i, auto...) { return values(i); });
  for (std::size_t step = 0; step < steps; ++step, std::swap(from, to)) {
    Sum sum = 0, squares = 0;
    for (std::int64_t k = 0; k < image.roi_rows * image.roi_columns; ++k) {
      const float value = from[static_cast<std::size_t>(k / image.roi_columns * image.columns + k % image.roi_columns)];
      sum += counted(value);
      squares += counted(value * value);
    }
    const Speckle now = speckle_of(sum, squares, image.roi_cells());
    each(coefficients, [&](float own, const Differences& d, auto...) { return coefficient_of(own, d, now); });
    each(to, [&](float own, const Differences& d, std::size_t i, std::size_t below, std::size_t right) {
      return updated(own, d, coefficients[i], coefficients[below], coefficients[right]);
    });
  }
  if (steps % 2 == 1) std::copy(from.begin(), from.end(), out.begin());
}

/// How far our arithmetic is from the original's formulas in double, over cells whose neighbours are any numbers.
double formula_error(const Uniform& values) {
  double error = 0;
  for (std::size_t i = 0; i < 10000; ++i) {
    const float own = values(9 * i);
    const double j = own, n = values(9 * i + 1) - j, s = values(9 * i + 2) - j, w = values(9 * i + 3) - j;
    const double e = values(9 * i + 4) - j, q0 = 0.1 * values(9 * i + 5),
                 g2 = (n * n + s * s + w * w + e * e) / (j * j);
    const double l = (n + s + w + e) / j, num = 0.5 * g2 - 1.0 / 16 * l * l, den = 1 + 0.25 * l;
    const double c = std::clamp(1 / (1 + (num / (den * den) - q0) / (q0 * (1 + q0))), 0.0, 1.0);
    const auto f = [](double value) { return static_cast<float>(value); };
    const Differences d{f(n), f(s), f(w), f(e)};
    const float below = values(9 * i + 6) - 1, right = values(9 * i + 7) - 1;
    const double next = j + 0.25 * 0.5 * (c * n + below * s + c * w + right * e);
    error = worst(error, std::abs(coefficient_of(own, d, {f(q0), f(1 / (q0 * (1 + q0)))}) - c));
    error = worst(error, std::abs(updated(own, d, f(c), below, right) - next));
  }
  return error;
}

void srad(Case& c) {
  const std::size_t rows = c.extent("rows"), columns = c.extent("cols"), steps = c.extent("steps");
  if (rows > std::size_t{1} << 31 || columns > std::size_t{1} << 31 || rows * columns > std::size_t{1} << 37)
    throw Skip("sums are counted in 64 bits, 2^26 a cell at most: take at most 2^37 cells", SkipKind::not_applicable);
  const auto values = uniform(c.seed(), 0, 1, 2.71828f);  // as the original has them after its exp()
  auto image = c.input_matrix<float>("image", rows, columns, values);
  auto result = c.output_matrix<float>("result", rows, columns);
  auto other = c.scratch<float>("other", result.size());
  auto sums = c.scratch<Sum>("statistics", 2 * (steps + 1));
  const auto side = c.integer("roi") == 0 ? std::max(rows, columns) : c.extent("roi");
  const Image shape{static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), image.pitch(),
                    static_cast<std::int64_t>(std::min(rows, side)),
                    static_cast<std::int64_t>(std::min(columns, side))};
  c.verify_all(result, [=](std::span<float> expected) { reference(shape, values, steps, expected); });
  c.verify("the original's formulas in double", [=] { return formula_error(values); }, 0x1p-15);
  c.verify_same(result);
  c.repeats(steps);

  const auto measure = [&](auto kernel, unsigned blocks, std::size_t tiles) {
    const double cells = static_cast<double>(rows) * static_cast<double>(columns);
    const device::LaunchShape launch{
        .grid = blocks, .block = threads, .shared_bytes = tiles * width * height * sizeof(float)};
    c.measure(Control::queued, [=](Run& run) {
      const std::size_t step = run.repeat();
      if (step == 0) {
        run.fill(sums, 0);
        run.launch(ISTHMUS_KERNEL(srad_statistics),
                   {.grid = static_cast<unsigned>(std::min<std::int64_t>(shape.roi_rows, 1024)), .block = threads},
                   {.bytes_read = 4 * shape.roi_cells(), .flops = 4 * shape.roi_cells()}, shape, image.device(),
                   sums.device());
      }
      float* const buffers[] = {other.device(), result.device()};  // the last step ends in the second
      const bool last = (steps - step) % 2 == 1;
      run.launch(kernel, launch, {.bytes_read = 4 * cells, .bytes_written = 4 * cells, .flops = 34 * cells}, shape,
                 step == 0 ? image.device() : buffers[last ? 0 : 1], buffers[last ? 1 : 0], sums.device() + 2 * step);
    });
  };
  const auto tiles = static_cast<unsigned>(shape.tiles());
  if (c.staging() == Staging::none) return measure(ISTHMUS_KERNEL(srad_plain), tiles, 2);
  const auto resident = std::min(tiles, static_cast<unsigned>(2 * c.device().multiprocessors));
  with_staging<ring>(c, [&](auto how, auto buffers) {
    measure(device::Kernel{"srad_staged", srad_staged<how(), buffers()>}, resident, buffers() + 1);
  });
}

Workload workload() {
  Workload w("apps/srad", srad);
  w.version(1)
      .summary("speckle-reducing anisotropic diffusion of an image, statistics of the next step in the same pass")
      .source("pipelining-taco2025, Table 2 (Rodinia's srad, version 2)")
      .tags({"app", "modes"})
      .placements(memory::all_placements())
      .stagings({Staging::none, Staging::direct, Staging::async, Staging::bulk})
      .axis(number_axis("rows", "rows of the image", 4096))
      .axis(number_axis("cols", "columns of the image", 4096))
      .axis(number_axis("steps", "steps of diffusion", 2))
      .axis(number_axis("roi", "side of the square, from the first cell on, that says what speckle is; 0: all cells",
                        128, 0));
  for (const auto& [name, n] : {std::pair{"tiny", 512},
                                {"small", 1024},
                                {"medium", 4096},
                                {"large", 8192},
                                {"super", 20480},
                                {"mega", 40960}})  // the paper's super and mega
    w.size(name, {{"rows", n}, {"cols", n}});
  add_paper_preset(w);
  return w;
}

const Registration registration = workload();

}  // namespace
}  // namespace isthmus::apps
