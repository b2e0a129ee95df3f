// 3 × 3 × 3 convolution of a grid with constant coefficients, zero outside the grid; rows are padded to 128 bytes.

#include "microbench/kernels/choices.hpp"

namespace isthmus::microbench {
namespace {

using namespace workload;
using device::BulkBarrier;
using device::TilePipeline;

/// Returns a coefficient. All 27 differ and none is zero, so that a swapped index is noticed. They are exact in fp32.
__host__ __device__ constexpr float coefficient(int plane, int row, int column) {
  return (static_cast<float>((plane * 9 + row * 3 + column + 13) * 5 % 27) - 12.5f) / 64.0f;
}
constexpr double sum_of_magnitudes = 27 * 13.5 / 64;

constexpr unsigned halo_columns = 4;  // one is needed; four keep rows of a tile aligned to 16 bytes
constexpr unsigned threads = 256;

/// Output rows and columns of a staged tile, one plane deep; a thread computes a strip of rows of one column.
template <unsigned Rows, unsigned Columns>
struct TileShape {
  static constexpr unsigned rows = Rows, columns = Columns;
  static constexpr unsigned staged_rows = Rows + 2, staged_columns = Columns + 2 * halo_columns;
  static constexpr unsigned thread_rows = Rows * Columns / threads;
};
struct Tile16x16 : TileShape<16, 16> {
  static constexpr const char* name = "16x16";
};
struct Tile16x64 : TileShape<16, 64> {
  static constexpr const char* name = "16x64";
};
struct Tile8x128 : TileShape<8, 128> {
  static constexpr const char* name = "8x128";
};
struct Tile16x128 : TileShape<16, 128> {
  static constexpr const char* name = "16x128";
};
using Tiles = TileChoices<Tile16x16, Tile16x64, Tile8x128, Tile16x128>;

/// Grid, the planes of it that this launch writes, and the number of planes in a work item. `in` and `out` point to
/// plane 0.
struct Grid {
  std::size_t planes, rows, cols, pitch, first_plane, end_plane, run_planes;
  __host__ __device__ std::size_t runs() const { return (end_plane - first_plane + run_planes - 1) / run_planes; }
};

template <int plane, int row>
__device__ inline float add_row(float sum, float left, float middle, float right) {
  sum = sum + coefficient(plane, row, -1) * left;
  sum = sum + coefficient(plane, row, 0) * middle;
  return sum + coefficient(plane, row, 1) * right;
}

// for (h = 0; h < planes; ++h)
//   for (i = 0; i < rows; ++i)
//     for (j = 0; j < cols; ++j)
//       out[h][i][j] = sum over q, r, s in -1..1 of coefficient(q, r, s) * in[h + q][i + r][j + s], zero outside
//
// A thread processes four columns of two rows through a run of planes. It reads each input plane once, adds it to the
// three output planes to which it contributes, and writes the one that is complete.
constexpr unsigned none_rows = 2;
struct Row {
  float left;
  float4 middle;
  float right;
};
__device__ inline Row read_row(const float* in, const Grid& g, std::size_t plane, std::size_t row, std::size_t column) {
  if (plane >= g.planes || row >= g.rows) return {0, make_float4(0, 0, 0, 0), 0};  // also for plane -1 and row -1
  const float* at = in + (plane * g.rows + row) * g.pitch + column;
  return {column > 0 ? at[-1] : 0, *reinterpret_cast<const float4*>(at), column + 4 < g.cols ? at[4] : 0};
}
template <int plane, int row>
__device__ inline void add_row(float4& sum, const Row& in) {
  sum.x = add_row<plane, row>(sum.x, in.left, in.middle.x, in.middle.y);
  sum.y = add_row<plane, row>(sum.y, in.middle.x, in.middle.y, in.middle.z);
  sum.z = add_row<plane, row>(sum.z, in.middle.y, in.middle.z, in.middle.w);
  sum.w = add_row<plane, row>(sum.w, in.middle.z, in.middle.w, in.right);
}
template <int plane>
__device__ inline void add_plane(float4 (&sums)[none_rows], const Row (&rows)[none_rows + 2]) {
#pragma unroll
  for (unsigned r = 0; r < none_rows; ++r) {
    add_row<plane, -1>(sums[r], rows[r]);
    add_row<plane, 0>(sums[r], rows[r + 1]);
    add_row<plane, 1>(sums[r], rows[r + 2]);
  }
}
__global__ void __launch_bounds__(threads) conv3d_none(const float* __restrict__ in, float* __restrict__ out, Grid g) {
  const std::size_t groups = (g.cols + 3) / 4, strips = (g.rows + none_rows - 1) / none_rows;
  const std::size_t items = groups * strips * g.runs();
  for (std::size_t item = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; item < items;
       item += std::size_t{gridDim.x} * blockDim.x) {
    const std::size_t column = item % groups * 4, row = item / groups % strips * none_rows;
    const std::size_t first = g.first_plane + item / groups / strips * g.run_planes;
    const std::size_t end = first + g.run_planes < g.end_plane ? first + g.run_planes : g.end_plane;
    float4 above[none_rows] = {}, here[none_rows] = {}, below[none_rows] = {};
    for (std::size_t plane = first - 1; plane != end + 1; ++plane) {
      Row rows[none_rows + 2];
#pragma unroll
      for (unsigned r = 0; r < none_rows + 2; ++r) rows[r] = read_row(in, g, plane, row + r - 1, column);
      add_plane<1>(above, rows);
      add_plane<0>(here, rows);
      add_plane<-1>(below, rows);
      if (plane != first - 1 && plane != first) {
#pragma unroll
        for (unsigned r = 0; r < none_rows; ++r) {
          if (row + r >= g.rows) break;
          float* to = out + ((plane - 1) * g.rows + row + r) * g.pitch + column;
          if (column + 4 <= g.cols) {
            *reinterpret_cast<float4*>(to) = above[r];
          } else {
            to[0] = above[r].x;
            if (column + 1 < g.cols) to[1] = above[r].y;
            if (column + 2 < g.cols) to[2] = above[r].z;
          }
        }
      }
#pragma unroll
      for (unsigned r = 0; r < none_rows; ++r)
        above[r] = here[r], here[r] = below[r], below[r] = make_float4(0, 0, 0, 0);
    }
  }
}

/// Work item, which is a tile that extends through a run of planes, and the next of these planes.
template <class Tile>
struct Walk {
  std::size_t piece, row, column, plane, first, end;
  __device__ void start(const Grid& grid) {
    const std::size_t across = (grid.cols + Tile::columns - 1) / Tile::columns;
    const std::size_t down = (grid.rows + Tile::rows - 1) / Tile::rows;
    column = piece % across * Tile::columns;
    row = piece / across % down * Tile::rows;
    first = grid.first_plane + piece / across / down * grid.run_planes;
    end = first + grid.run_planes < grid.end_plane ? first + grid.run_planes : grid.end_plane;
    plane = first - 1;
  }
  __device__ void next(const Grid& grid) {
    if (plane == end) {
      piece += gridDim.x;
      start(grid);
    } else {
      ++plane;
    }
  }
};

/// Returns the number of planes in all work items of this block. All runs have the same length except the last.
template <class Tile>
__device__ inline std::uint64_t planes_of_block(const Grid& g) {
  const std::uint64_t per_run =
      ((g.cols + Tile::columns - 1) / Tile::columns) * ((g.rows + Tile::rows - 1) / Tile::rows);
  const std::uint64_t all = per_run * g.runs();
  if (blockIdx.x >= all) return 0;
  const std::uint64_t mine = (all - blockIdx.x + gridDim.x - 1) / gridDim.x;
  const std::uint64_t long_pieces = per_run * (g.runs() - 1);
  const std::uint64_t mine_long = blockIdx.x < long_pieces ? (long_pieces - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
  const std::uint64_t last_run = g.end_plane - g.first_plane - (g.runs() - 1) * g.run_planes;
  return mine_long * (g.run_planes + 2) + (mine - mine_long) * (last_run + 2);
}

// Computes the same from planes of a tile in shared memory, with a halo of one row and four columns on each side. The
// pipeline continues from work item to work item; loading and computing each go through the same sequence of planes.
template <TileStaging staging, unsigned Depth, class Tile>
__global__ void __launch_bounds__(threads)
    conv3d_staged(const float* __restrict__ in, float* __restrict__ out, Grid g) {
  float* tiles = device::dynamic_shared<float>();
  __shared__ BulkBarrier arrived[device::pipeline_barriers<staging, Depth>];
  TilePipeline<staging, Depth, threads> pipeline(arrived);
  constexpr unsigned tile_elements = Tile::staged_rows * Tile::staged_columns;

  // The planes are counted before the walks begin. If they were counted later, nvcc 13.0 would use 80 registers
  // instead of 64 for bulk staging, and one block in four would not fit.
  const std::uint64_t planes = planes_of_block<Tile>(g);
  Walk<Tile> loading{blockIdx.x, 0, 0, 0, 0, 0}, computing{blockIdx.x, 0, 0, 0, 0, 0};
  loading.start(g);
  computing.start(g);

  const unsigned j = threadIdx.x % Tile::columns, strip = threadIdx.x / Tile::columns * Tile::thread_rows;
  float above[Tile::thread_rows] = {}, here[Tile::thread_rows] = {}, below[Tile::thread_rows] = {};
  pipeline.run(
      planes,
      [&](auto& copier, unsigned stage, std::uint64_t) {
        const std::size_t row = loading.row, column = loading.column, plane = loading.plane;
        const std::size_t rows_left = g.rows + 1 - row, columns_left = g.pitch + halo_columns - column;
        device::TileWindow inside{
            row == 0 ? 1u : 0u, rows_left < Tile::staged_rows ? static_cast<unsigned>(rows_left) : Tile::staged_rows,
            column == 0 ? halo_columns : 0u,
            columns_left < Tile::staged_columns ? static_cast<unsigned>(columns_left) : Tile::staged_columns};
        if (plane >= g.planes) inside.last_row = inside.first_row = 0;  // also for plane -1
        copier.template rows<Tile::staged_rows, Tile::staged_columns>(
            tiles + stage * tile_elements, Tile::staged_columns, inside,
            [&](unsigned r) { return in + (plane * g.rows + row + r - 1) * g.pitch + column - halo_columns; });
        loading.next(g);
      },
      [&](unsigned stage, std::uint64_t) {
        const float* at = tiles + stage * tile_elements + strip * Tile::staged_columns + j + halo_columns;
#pragma unroll
        for (unsigned r = 0; r < Tile::thread_rows + 2; ++r) {
          const float left = at[-1], middle = at[0], right = at[1];
          at += Tile::staged_columns;
          // Input row r - 1 of the strip contributes to output rows r - 2, r - 1 and r.
          if (r >= 2) {
            above[r - 2] = add_row<1, 1>(above[r - 2], left, middle, right);
            here[r - 2] = add_row<0, 1>(here[r - 2], left, middle, right);
            below[r - 2] = add_row<-1, 1>(below[r - 2], left, middle, right);
          }
          if (r >= 1 && r <= Tile::thread_rows) {
            above[r - 1] = add_row<1, 0>(above[r - 1], left, middle, right);
            here[r - 1] = add_row<0, 0>(here[r - 1], left, middle, right);
            below[r - 1] = add_row<-1, 0>(below[r - 1], left, middle, right);
          }
          if (r < Tile::thread_rows) {
            above[r] = add_row<1, -1>(above[r], left, middle, right);
            here[r] = add_row<0, -1>(here[r], left, middle, right);
            below[r] = add_row<-1, -1>(below[r], left, middle, right);
          }
        }
        const std::size_t plane = computing.plane;
        const bool complete = plane != computing.first - 1 && plane != computing.first;
        if (complete && computing.column + j < g.cols) {
          float* to = out + ((plane - 1) * g.rows + computing.row + strip) * g.pitch + computing.column + j;
#pragma unroll
          for (unsigned r = 0; r < Tile::thread_rows; ++r) {
            if (computing.row + strip + r < g.rows) to[r * g.pitch] = above[r];
          }
        }
        const bool last = plane == computing.end;
#pragma unroll
        for (unsigned r = 0; r < Tile::thread_rows; ++r) {
          above[r] = last ? 0 : here[r];
          here[r] = last ? 0 : below[r];
          below[r] = 0;
        }
        computing.next(g);
      });
}

void run(Case& c) {
  const std::size_t planes = c.extent("planes"), rows = c.extent("rows"), cols = c.extent("cols");
  const Staging staging = available_staging(c);

  const auto values = uniform(c.seed(), 0, -1, 1);
  auto in = c.input_matrix<float>("in", planes * rows, cols, values, rows, 1);
  auto out = c.output_matrix<float>("out", planes * rows, cols, rows);
  c.chunks(planes);

  const auto expected = [=](std::size_t i) {
    const std::size_t plane = i / cols / rows, row = i / cols % rows, column = i % cols;
    double sum = 0;
    for (int q = -1; q <= 1; ++q) {
      for (int r = -1; r <= 1; ++r) {
        for (int s = -1; s <= 1; ++s) {
          const std::size_t z = plane + static_cast<std::size_t>(q), y = row + static_cast<std::size_t>(r),
                            x = column + static_cast<std::size_t>(s);
          if (z < planes && y < rows && x < cols) {
            sum += double{coefficient(q, r, s)} * values((z * rows + y) * cols + x);
          }
        }
      }
    }
    return sum;
  };
  // The 27 products and their sum round at most 28 times, each time by at most the sum of the coefficients' magnitudes.
  c.verify(out, expected, {.absolute = 28 * 0x1p-24 * sum_of_magnitudes, .relative = 0}, "serial reference");

  // A run of planes reads two more than it writes, so long runs save bytes; short runs give every multiprocessor work.
  const auto planes_per_run = [multiprocessors = c.device().multiprocessors](std::size_t count,
                                                                             std::uint64_t pieces_per_plane) {
    const std::uint64_t wanted = divide_up(std::uint64_t(multiprocessors) * 32, pieces_per_plane);
    return std::clamp<std::size_t>(count / std::max<std::uint64_t>(wanted, 1), 16, 96);
  };
  const auto measure = [&](auto kernel, std::size_t shared_bytes, unsigned waves, std::uint64_t per_plane) {
    const auto shape = prepare(c, kernel, threads, shared_bytes,
                               per_plane * divide_up(planes, planes_per_run(planes, per_plane)), waves);
    c.measure(Control::queued, [=](Run& run) {
      const auto [first, count] = run.chunk();
      const Grid g{planes, rows, cols, in.pitch(), first, first + count, planes_per_run(count, per_plane)};
      const double elements = static_cast<double>(count) * static_cast<double>(rows) * static_cast<double>(cols);
      run.launch(kernel, shape_for_chunk(shape, per_plane * g.runs()),
                 {.bytes_read = 4 * elements, .bytes_written = 4 * elements, .flops = 53 * elements}, in.device(),
                 out.device(), g);
    });
  };
  if (staging == Staging::none) {
    measure(ISTHMUS_KERNEL(conv3d_none), 0, 0, divide_up(divide_up(cols, 4) * divide_up(rows, none_rows), threads));
  } else {
    with_pipeline(staging, c.integer("depth"), [&](auto how, auto depth) {
      Tiles::with(c.choice("tile"), [&](auto tile) {
        using Tile = decltype(tile);
        const std::size_t needed = depth() * std::size_t{Tile::staged_rows * Tile::staged_columns} * sizeof(float);
        measure(device::Kernel{"conv3d_staged", conv3d_staged<how(), depth(), Tile>}, shared_bytes_for(c, needed), 1,
                divide_up(cols, Tile::columns) * divide_up(rows, Tile::rows));
      });
    });
  }
}

Workload workload() {
  Workload w =
      micro_workload("conv3d", run, "3x3x3 convolution of a grid, constant coefficients, zero outside", " (3DCONV)");
  w.axis(number_axis("planes", "planes of the grid", 128))
      .axis(number_axis("rows", "rows of a plane", 128))
      .axis(number_axis("cols", "columns of a plane", 128));
  add_geometry_axes(w, {threads});
  w.axis({.name = "tile",
          .help = "output rows x columns of a staged tile, without its halo; planes are staged in turn (the original's "
                  "tile is 12x12x12 and a halo)",
          .default_value = Tile16x128::name,
          .choices = Tiles::allowed()});
  w.sizes({"planes", "rows", "cols"}, {64, 128, 256, 512, 768, 1536});
  add_paper_preset(w, {{"tile", Tile16x16::name}});
  return w;
}

const Registration registration = workload();

}  // namespace
}  // namespace isthmus::microbench
