// 3 × 3 convolution of a grid with constant coefficients, zero outside the grid; rows are padded to 128 bytes.

#include "microbench/kernels/choices.hpp"
#include "microbench/kernels/plain.hpp"

namespace isthmus::microbench {
namespace {

using namespace workload;
using device::BulkBarrier;
using device::TilePipeline;

__host__ __device__ constexpr float coefficient(int row, int column) {
  constexpr float values[3][3] = {{0.2f, 0.5f, -0.8f}, {-0.3f, 0.6f, -0.9f}, {0.4f, 0.7f, 0.1f}};
  return values[row + 1][column + 1];
}

constexpr unsigned halo_columns = 4;  // one is needed; four keep rows of a tile aligned to 16 bytes

/// Output rows and columns of a staged tile.
template <unsigned Rows, unsigned Columns>
struct TileShape {
  static constexpr unsigned rows = Rows, columns = Columns;
  static constexpr unsigned staged_rows = Rows + 2, staged_columns = Columns + 2 * halo_columns;
};
struct Tile32x32 : TileShape<32, 32> {
  static constexpr const char* name = "32x32";
};
struct Tile16x128 : TileShape<16, 128> {
  static constexpr const char* name = "16x128";
};
struct Tile32x128 : TileShape<32, 128> {
  static constexpr const char* name = "32x128";
};
using Tiles = TileChoices<Tile32x32, Tile16x128, Tile32x128>;

/// Grid, and the rows of it that this launch writes. `in` and `out` point to row 0.
struct Grid {
  std::size_t rows, cols, pitch, first_row, end_row;
};

/// Adds the part of the input row at offset `row` (-1, 0, 1) to an output row.
template <int row>
__device__ inline float add_row(float sum, float left, float middle, float right) {
  return sum + coefficient(row, -1) * left + coefficient(row, 0) * middle + coefficient(row, 1) * right;
}

// for (i = 0; i < rows; ++i)
//   for (j = 0; j < cols; ++j)
//     out[i][j] = sum over r, s in -1..1 of coefficient(r, s) * in[i + r][j + s], zero outside
//
// A thread computes four columns of a strip of rows. It reads each input row once and keeps the last three.
constexpr unsigned strip_rows = 8;
struct Row {
  float left;
  float4 middle;
  float right;
};
__device__ inline Row read_row(const float* in, const Grid& g, std::size_t row, std::size_t column) {
  if (row >= g.rows) return {0, make_float4(0, 0, 0, 0), 0};  // also for row -1, which wraps around
  const float* at = in + row * g.pitch + column;
  return {column > 0 ? at[-1] : 0, *reinterpret_cast<const float4*>(at), column + 4 < g.cols ? at[4] : 0};
}
template <int row>
__device__ inline void add_row(float4& sum, const Row& in) {
  sum.x = add_row<row>(sum.x, in.left, in.middle.x, in.middle.y);
  sum.y = add_row<row>(sum.y, in.middle.x, in.middle.y, in.middle.z);
  sum.z = add_row<row>(sum.z, in.middle.y, in.middle.z, in.middle.w);
  sum.w = add_row<row>(sum.w, in.middle.z, in.middle.w, in.right);
}
__global__ void conv2d_none(const float* __restrict__ in, float* __restrict__ out, Grid g) {
  const std::size_t groups = (g.cols + 3) / 4;
  const std::size_t items = groups * ((g.end_row - g.first_row + strip_rows - 1) / strip_rows);
  for (std::size_t item = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; item < items;
       item += std::size_t{gridDim.x} * blockDim.x) {
    const std::size_t column = item % groups * 4, first = g.first_row + item / groups * strip_rows;
    Row rows[strip_rows + 2];
#pragma unroll
    for (unsigned r = 0; r < strip_rows + 2; ++r) rows[r] = read_row(in, g, first + r - 1, column);
#pragma unroll
    for (unsigned r = 0; r < strip_rows; ++r) {
      if (first + r >= g.end_row) break;
      float4 sum = make_float4(0, 0, 0, 0);
      add_row<-1>(sum, rows[r]);
      add_row<0>(sum, rows[r + 1]);
      add_row<1>(sum, rows[r + 2]);
      float* to = out + (first + r) * g.pitch + column;
      if (column + 4 <= g.cols) {
        *reinterpret_cast<float4*>(to) = sum;
      } else {
        to[0] = sum.x;
        if (column + 1 < g.cols) to[1] = sum.y;
        if (column + 2 < g.cols) to[2] = sum.z;
      }
    }
  }
}

// Computes the same from tiles in shared memory, with a halo of one row and four columns on each side. A thread
// computes a strip of rows of one column, so that a warp reads consecutive words.
template <TileStaging staging, unsigned Depth, class Tile>
__global__ void conv2d_staged(const float* __restrict__ in, float* __restrict__ out, Grid g) {
  float* tiles = device::dynamic_shared<float>();
  __shared__ BulkBarrier arrived[device::pipeline_barriers<staging, Depth>];
  TilePipeline<staging, Depth> pipeline(arrived);
  constexpr unsigned tile_elements = Tile::staged_rows * Tile::staged_columns;
  const std::uint64_t across = (g.cols + Tile::columns - 1) / Tile::columns;
  const std::uint64_t all = across * ((g.end_row - g.first_row + Tile::rows - 1) / Tile::rows);
  const std::uint64_t mine = blockIdx.x < all ? (all - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
  const auto first_row = [&](std::uint64_t tile) {
    return g.first_row + (blockIdx.x + tile * gridDim.x) / across * Tile::rows;
  };
  const auto first_column = [&](std::uint64_t tile) {
    return (blockIdx.x + tile * gridDim.x) % across * Tile::columns;
  };
  pipeline.run(
      mine,
      [&](auto& copier, unsigned stage, std::uint64_t tile) {
        const std::size_t row = first_row(tile), column = first_column(tile);
        const std::size_t rows_left = g.rows + 1 - row, columns_left = g.pitch + halo_columns - column;
        const device::TileWindow inside{
            row == 0 ? 1u : 0u, rows_left < Tile::staged_rows ? static_cast<unsigned>(rows_left) : Tile::staged_rows,
            column == 0 ? halo_columns : 0u,
            columns_left < Tile::staged_columns ? static_cast<unsigned>(columns_left) : Tile::staged_columns};
        copier.template rows<Tile::staged_rows, Tile::staged_columns>(
            tiles + stage * tile_elements, Tile::staged_columns, inside,
            [&](unsigned r) { return in + (row + r - 1) * g.pitch + column - halo_columns; });
      },
      [&](unsigned stage, std::uint64_t tile) {
        const float* staged = tiles + stage * tile_elements;
        const std::size_t row = first_row(tile), column = first_column(tile);
        constexpr unsigned strips = Tile::rows / strip_rows;
        for (unsigned item = threadIdx.x; item < strips * Tile::columns; item += blockDim.x) {
          const unsigned j = item % Tile::columns, strip = item / Tile::columns * strip_rows;
          if (column + j >= g.cols) continue;
          const float* at = staged + strip * Tile::staged_columns + j + halo_columns;
          float* to = out + (row + strip) * g.pitch + column + j;
          const std::size_t left = row + strip < g.end_row ? g.end_row - row - strip : 0;
          float above[3] = {at[-1], at[0], at[1]};
          at += Tile::staged_columns;
          float middle[3] = {at[-1], at[0], at[1]};
#pragma unroll
          for (unsigned r = 0; r < strip_rows; ++r) {
            at += Tile::staged_columns;
            const float below[3] = {at[-1], at[0], at[1]};
            float sum = add_row<-1>(0, above[0], above[1], above[2]);
            sum = add_row<0>(sum, middle[0], middle[1], middle[2]);
            sum = add_row<1>(sum, below[0], below[1], below[2]);
            if (r < left) to[r * g.pitch] = sum;
#pragma unroll
            for (unsigned s = 0; s < 3; ++s) above[s] = middle[s], middle[s] = below[s];
          }
        }
      });
}

void run(Case& c) {
  const std::size_t rows = c.extent("rows"), cols = c.extent("cols");
  const auto threads = static_cast<unsigned>(c.integer("threads"));
  const Staging staging = available_staging(c);

  const auto values = uniform(c.seed(), 0, -1, 1);
  constexpr std::size_t unit = 32;  // rows per unit of `streamed`
  auto in = c.input_matrix<float>("in", rows, cols, values, unit, 1);
  auto out = c.output_matrix<float>("out", rows, cols, unit);
  c.chunks(divide_up(rows, unit));

  c.verify(
      out, [=](std::size_t i) { return conv2d_element(i / cols, i % cols, rows, cols, values); },
      {.absolute = kConv2dTolerance, .relative = 0}, "serial reference");

  const auto measure = [&](auto kernel, std::size_t shared_bytes, unsigned waves, auto pieces) {
    const auto shape = prepare(c, kernel, threads, shared_bytes, pieces(rows), waves);
    c.measure(Control::queued, [=](Run& run) {
      const std::size_t first = run.chunk().first * unit, count = std::min(run.chunk().count * unit, rows - first);
      const double elements = static_cast<double>(count) * static_cast<double>(cols);
      run.launch(kernel, shape_for_chunk(shape, pieces(count)),
                 {.bytes_read = 4 * elements, .bytes_written = 4 * elements, .flops = 17 * elements}, in.device(),
                 out.device(), Grid{rows, cols, in.pitch(), first, first + count});
    });
  };
  if (staging == Staging::none) {
    measure(ISTHMUS_KERNEL(conv2d_none), 0, 0,
            [=](std::size_t count) { return divide_up(divide_up(cols, 4) * divide_up(count, strip_rows), threads); });
  } else {
    with_pipeline(staging, c.integer("depth"), [&](auto how, auto depth) {
      Tiles::with(c.choice("tile"), [&](auto tile) {
        using Tile = decltype(tile);
        const std::size_t needed = depth() * std::size_t{Tile::staged_rows * Tile::staged_columns} * sizeof(float);
        measure(device::Kernel{"conv2d_staged", conv2d_staged<how(), depth(), Tile>}, shared_bytes_for(c, needed), 1,
                [=](std::size_t count) { return divide_up(cols, Tile::columns) * divide_up(count, Tile::rows); });
      });
    });
  }
}

Workload workload() {
  Workload w =
      micro_workload("conv2d", run, "3x3 convolution of a grid, constant coefficients, zero outside", " (2DCONV)");
  w.axis(number_axis("rows", "rows of the grid", 1024)).axis(number_axis("cols", "columns of the grid", 1024));
  add_geometry_axes(w, {});
  w.axis({.name = "tile",
          .help = "output rows x columns of a staged tile, without its halo (the original's is 32x32)",
          .default_value = Tile32x128::name,
          .choices = Tiles::allowed()});
  add_matrix_sizes(w, {"rows", "cols"}, 32, 64);
  add_paper_preset(w, {{"tile", Tile32x32::name}});
  return w;
}

const Registration registration = workload();

}  // namespace

void queue_conv2d(device::Stream& stream, const float* in, float* out, std::size_t rows, std::size_t cols) {
  constexpr unsigned threads = 256;
  const auto blocks = static_cast<unsigned>(divide_up(divide_up(cols, 4) * divide_up(rows, strip_rows), threads));
  launch(stream, ISTHMUS_KERNEL(conv2d_none), {.grid = blocks, .block = threads}, in, out,
         Grid{rows, cols, row_pitch<float>(cols), 0, rows});
}

double conv2d_element(std::size_t row, std::size_t column, std::size_t rows, std::size_t cols,
                      const std::function<float(std::size_t)>& in) {
  double sum = 0;
  for (int r = -1; r <= 1; ++r) {
    for (int s = -1; s <= 1; ++s) {
      const std::size_t y = row + static_cast<std::size_t>(r), x = column + static_cast<std::size_t>(s);
      if (y < rows && x < cols) sum += double{coefficient(r, s)} * in(y * cols + x);
    }
  }
  return sum;
}

}  // namespace isthmus::microbench
