// y = A·x, A dense, row-major, rows padded to 128 bytes.

#include "microbench/kernels/choices.hpp"
#include "microbench/kernels/plain.hpp"

namespace isthmus::microbench {
namespace {

using namespace workload;
using device::BulkBarrier;
using device::TilePipeline;

// Number of rows that a block processes at once: x is read once for all of them, and four independent loads are in
// flight.
constexpr unsigned group_rows = 4;

using Tiles = Choices<256u, 512u, 1024u, 2048u>;
constexpr std::size_t unit = 64;  // rows per unit of `streamed`

__device__ inline float multiply(const float4& a, const float4& x, float sum) {
  return a.x * x.x + (a.y * x.y + (a.z * x.z + (a.w * x.w + sum)));
}

/// Adds up the group's sums over the block and writes them. Called by all threads. `partial` is in use until the next
/// barrier.
__device__ inline void reduce_and_write(const float (&sums)[group_rows], float* partial, float* y,
                                        std::size_t rows_left) {
#pragma unroll
  for (unsigned r = 0; r < group_rows; ++r) partial[r * blockDim.x + threadIdx.x] = sums[r];
  __syncthreads();
  for (unsigned threads = blockDim.x; threads > 1;) {
    const unsigned half = (threads + 1) / 2;
    if (threadIdx.x < threads / 2) {
#pragma unroll
      for (unsigned r = 0; r < group_rows; ++r) {
        partial[r * blockDim.x + threadIdx.x] += partial[r * blockDim.x + threadIdx.x + half];
      }
    }
    threads = half;
    __syncthreads();
  }
  if (threadIdx.x < group_rows && threadIdx.x < rows_left) y[threadIdx.x] = partial[threadIdx.x * blockDim.x];
}

// for (i = 0; i < rows; ++i)
//   for (y[i] = 0, j = 0; j < cols; ++j) y[i] += a[i][j] * x[j];
__global__ void gemv_none(const float* __restrict__ a, std::size_t pitch, const float* __restrict__ x, float* y,
                          std::size_t rows, std::size_t cols) {
  float* partial = device::dynamic_shared<float>();
  for (std::size_t row = std::size_t{blockIdx.x} * group_rows; row < rows; row += std::size_t{gridDim.x} * group_rows) {
    const float* line[group_rows];
#pragma unroll
    for (unsigned r = 0; r < group_rows; ++r) line[r] = a + (row + r < rows ? row + r : row) * pitch;
    float sums[group_rows] = {};
    const std::size_t whole = cols / 4 * 4;
#pragma unroll 2
    for (std::size_t j = std::size_t{threadIdx.x} * 4; j < whole; j += std::size_t{blockDim.x} * 4) {
      const float4 xs = *reinterpret_cast<const float4*>(x + j);
#pragma unroll
      for (unsigned r = 0; r < group_rows; ++r) {
        sums[r] = multiply(*reinterpret_cast<const float4*>(line[r] + j), xs, sums[r]);
      }
    }
    for (std::size_t j = whole + threadIdx.x; j < cols; j += blockDim.x) {
#pragma unroll
      for (unsigned r = 0; r < group_rows; ++r) sums[r] += line[r][j] * x[j];
    }
    reduce_and_write(sums, partial, y + row, rows - row);
    __syncthreads();  // the next rows overwrite `partial`
  }
}

// Computes the same from tiles of group_rows × Columns of A and the corresponding Columns of x in shared memory. One
// pipeline runs over all tiles of all groups of the block, so that the tiles of a new group are already loaded when it
// starts.
template <TileStaging staging, unsigned Depth, unsigned Columns>
__global__ void gemv_staged(const float* a, std::size_t pitch, const float* x, float* y, std::size_t rows,
                            std::size_t cols) {
  float* tiles = device::dynamic_shared<float>();
  constexpr unsigned tile_elements = (group_rows + 1) * Columns;
  float* partial = tiles + Depth * tile_elements;
  __shared__ BulkBarrier arrived[device::pipeline_barriers<staging, Depth>];
  TilePipeline<staging, Depth> pipeline(arrived);
  const std::uint64_t all = (rows + group_rows - 1) / group_rows;
  const std::uint64_t groups = blockIdx.x < all ? (all - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
  const std::uint64_t steps = (cols + Columns - 1) / Columns;

  std::size_t load_row = std::size_t{blockIdx.x} * group_rows, load_column = 0;
  std::size_t row = load_row, column = 0;
  float sums[group_rows] = {};
  pipeline.run(
      groups * steps,
      [&](auto& copier, unsigned stage, std::uint64_t) {
        float* tile = tiles + stage * tile_elements;
        const std::size_t columns_left = cols - load_column, rows_left = rows - load_row;
        const unsigned columns = columns_left < Columns ? static_cast<unsigned>(columns_left) : Columns;
        // Rows of A end at the pitch, but x ends at its last element, so elements of A beyond cols are multiplied by
        // zeros.
        const device::TileWindow inside{0, rows_left < group_rows ? static_cast<unsigned>(rows_left) : group_rows, 0,
                                        (columns + 3) / 4 * 4};
        const float* corner = a + load_row * pitch + load_column;
        copier.template rows<group_rows, Columns>(tile, Columns, inside,
                                                  [&](unsigned r) { return corner + r * pitch; });
        copier.run(tile + group_rows * Columns, x + load_column, columns);
        for (unsigned j = columns + threadIdx.x; j < Columns; j += blockDim.x) tile[group_rows * Columns + j] = 0;
        load_column += Columns;
        if (load_column >= cols) {
          load_column = 0;
          load_row += std::size_t{gridDim.x} * group_rows;
        }
      },
      [&](unsigned stage, std::uint64_t) {
        const float* tile = tiles + stage * tile_elements;
        for (unsigned j = threadIdx.x * 4; j < Columns; j += blockDim.x * 4) {
          const float4 xs = *reinterpret_cast<const float4*>(tile + group_rows * Columns + j);
#pragma unroll
          for (unsigned r = 0; r < group_rows; ++r) {
            sums[r] = multiply(*reinterpret_cast<const float4*>(tile + r * Columns + j), xs, sums[r]);
          }
        }
        column += Columns;
        if (column >= cols) {
          // The pipeline's barriers come before `partial` is written again.
          reduce_and_write(sums, partial, y + row, rows - row);
#pragma unroll
          for (unsigned r = 0; r < group_rows; ++r) sums[r] = 0;
          column = 0;
          row += std::size_t{gridDim.x} * group_rows;
        }
      });
}

void run(Case& c) {
  const std::size_t rows = c.extent("rows"), cols = c.extent("cols");
  const auto threads = static_cast<unsigned>(c.integer("threads"));
  const Staging staging = available_staging(c);

  const auto a_values = uniform(c.seed(), 0, -1, 1);
  const auto x_values = uniform(c.seed(), 1, -1, 1);
  auto a = c.input_matrix<float>("A", rows, cols, a_values, unit);
  auto x = c.input<float>("x", cols, x_values);
  auto y = c.output<float>("y", rows, {.unit_bytes = unit * sizeof(float), .halo = 0});
  c.chunks(divide_up(rows, unit));

  c.verify(
      y, [=](std::size_t i) { return gemv_element(i, cols, a_values, x_values); },
      {.absolute = gemv_tolerance(cols, threads), .relative = 0}, "double dot products");

  const auto measure = [&](auto kernel, std::size_t shared_bytes, unsigned waves) {
    const auto shape = prepare(c, kernel, threads, shared_bytes, divide_up(rows, group_rows), waves);
    c.measure(Control::queued, [=](Run& run) {
      const std::size_t first = run.chunk().first * unit, count = std::min(run.chunk().count * unit, rows - first);
      run.launch(
          kernel, shape_for_chunk(shape, divide_up(count, group_rows)),
          {.bytes_read = 4.0 * count * cols + 4.0 * cols, .bytes_written = 4.0 * count, .flops = 2.0 * count * cols},
          a.device() + first * a.pitch(), a.pitch(), x.device(), y.device() + first, count, cols);
    });
  };
  const std::size_t partial_bytes = group_rows * std::size_t{threads} * sizeof(float);
  if (staging == Staging::none) {
    measure(ISTHMUS_KERNEL(gemv_none), partial_bytes, 0);
  } else {
    with_pipeline(staging, c.integer("depth"), [&](auto how, auto depth) {
      Tiles::with(c.integer("tile"), [&](auto columns) {
        const std::size_t needed = depth() * (group_rows + 1) * columns() * sizeof(float) + partial_bytes;
        measure(device::Kernel{"gemv_staged", gemv_staged<how(), depth(), columns()>}, shared_bytes_for(c, needed), 1);
      });
    });
  }
}

Workload workload() {
  Workload w = micro_workload("gemv", run, "y = A*x, dense matrix times vector");
  w.axis(number_axis("rows", "rows of A", 1024)).axis(number_axis("cols", "columns of A", 1024));
  add_geometry_axes(w, {});
  w.axis({.name = "tile",
          .help = "columns of a staged tile of A, four rows high",
          .default_value = 1024,
          .choices = Tiles::allowed(),
          .minimum = 1});
  add_matrix_sizes(w, {"rows", "cols"}, 32, 64);
  add_paper_preset(w, {{"tile", 1024}});
  return w;
}

const Registration registration = workload();

}  // namespace

void queue_gemv(device::Stream& stream, const float* a, std::size_t pitch, const float* x, float* y, std::size_t rows,
                std::size_t cols) {
  constexpr unsigned threads = 256;
  const auto blocks = static_cast<unsigned>(divide_up(rows, group_rows));
  launch(stream, ISTHMUS_KERNEL(gemv_none),
         {.grid = blocks, .block = threads, .shared_bytes = group_rows * threads * sizeof(float)}, a, pitch, x, y, rows,
         cols);
}

}  // namespace isthmus::microbench
