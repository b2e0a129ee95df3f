// C = A·B in fp32 on row-major matrices whose rows are padded to 128 bytes.

#include "device/kernel/matrix_tile.hpp"
#include "microbench/kernels/choices.hpp"
#include "microbench/kernels/plain.hpp"

namespace isthmus::microbench {
namespace {

using namespace workload;
using device::BulkBarrier;
using device::MatrixTile, device::TilePlace, device::TileSums, device::multiply_add, device::multiply_tiles;
using device::TilePipeline;

constexpr unsigned threads = device::matrix_threads;

struct Tile128x16 : MatrixTile<128, 128, 16> {
  static constexpr const char* name = "128x128x16";
};
struct Tile128x32 : MatrixTile<128, 128, 32, 4> {
  static constexpr const char* name = "128x128x32";
};
struct Tile64 : MatrixTile<64, 64, 16> {
  static constexpr const char* name = "64x64x16";
};
struct Tile32 : MatrixTile<32, 32, 32> {
  static constexpr const char* name = "32x32x32";
};
using Tiles = TileChoices<Tile128x16, Tile128x32, Tile64, Tile32>;
constexpr std::size_t unit = 128;  // rows of A and C per unit of `streamed`

/// Shapes and pitches, in elements.
struct Problem {
  std::size_t m, n, k, a_pitch, b_pitch, c_pitch;
};

/// Computes the corner of output tile `index`. Tiles are numbered down stripes 16 tiles high, so that blocks that run
/// at the same time share rows of A and columns of B in the L2 cache.
template <class Tile>
__device__ inline void tile_corner(std::uint64_t index, const Problem& p, std::size_t& row, std::size_t& column) {
  constexpr std::uint64_t stripe = 16;
  const std::uint64_t down = (p.m + Tile::rows - 1) / Tile::rows, across = (p.n + Tile::columns - 1) / Tile::columns;
  const std::uint64_t first = index / (stripe * across) * stripe;
  const std::uint64_t height = down - first < stripe ? down - first : stripe;
  const std::uint64_t inside = index - first * across;
  row = (first + inside % height) * Tile::rows;
  column = inside / height * Tile::columns;
}

template <class Tile>
__device__ inline void write_tile(const TileSums<Tile>& sums, const TilePlace<Tile>& place, float* c, const Problem& p,
                                  std::size_t row, std::size_t column) {
#pragma unroll
  for (unsigned i = 0; i < Tile::thread_rows; ++i) {
    const std::size_t at = row + place.row_of(i);
    if (at >= p.m) continue;
#pragma unroll
    for (unsigned j = 0; j < Tile::thread_columns; j += Tile::vector) {
      const std::size_t first = column + place.column_of(j);
      float* to = c + at * p.c_pitch + first;
      if (Tile::vector == 4 && first + 4 <= p.n) {
        *reinterpret_cast<float4*>(to) =
            make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + Tile::vector - 1]);
      } else {
#pragma unroll
        for (unsigned q = 0; q < Tile::vector; ++q) {
          if (first + q < p.n) to[q] = sums[i][j + q];
        }
      }
    }
  }
}

// for (i = 0; i < m; ++i)
//   for (j = 0; j < n; ++j)
//     for (c[i][j] = 0, l = 0; l < k; ++l) c[i][j] += a[i][l] * b[l][j];
//
// Operands go from global memory through the L1 cache into registers. Rows beyond m and columns beyond n are computed
// from existing elements, but not written.
template <class Tile>
__global__ void __launch_bounds__(threads, 2)
    gemm_none(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, Problem p) {
  const TilePlace<Tile> place;
  const std::uint64_t tiles = ((p.m + Tile::rows - 1) / Tile::rows) * ((p.n + Tile::columns - 1) / Tile::columns);
  for (std::uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    std::size_t row, column;
    tile_corner<Tile>(tile, p, row, column);
    // Offsets from the tile's corner fit in 32 bits. This saves registers, of which the kernel is short.
    const float* a_corner = a + row * p.a_pitch;
    const float* b_row = b + column;
    const unsigned rows = p.m - row < Tile::rows ? static_cast<unsigned>(p.m - row) : Tile::rows;
    const unsigned columns =
        p.b_pitch - column < Tile::columns ? static_cast<unsigned>(p.b_pitch - column) : Tile::columns;
    unsigned a_offset[Tile::thread_rows], b_offset[Tile::thread_columns / 4];
#pragma unroll
    for (unsigned i = 0; i < Tile::thread_rows; ++i) {
      const unsigned at = place.row_of(i);
      a_offset[i] = (at < rows ? at : rows - 1) * static_cast<unsigned>(p.a_pitch);
    }
#pragma unroll
    for (unsigned j = 0; j < Tile::thread_columns / 4; ++j) {
      const unsigned at = place.column_of(4 * j);
      b_offset[j] = at < columns ? at : 0;
    }
    TileSums<Tile> sums = {};
#pragma unroll 1
    for (std::size_t l = 0; l < p.k; ++l, ++a_corner, b_row += p.b_pitch) {
      float a_values[Tile::thread_rows], b_values[Tile::thread_columns];
#pragma unroll
      for (unsigned i = 0; i < Tile::thread_rows; ++i) a_values[i] = a_corner[a_offset[i]];
#pragma unroll
      for (unsigned j = 0; j < Tile::thread_columns / 4; ++j) {
        const float4 v = *reinterpret_cast<const float4*>(b_row + b_offset[j]);
        b_values[4 * j] = v.x, b_values[4 * j + 1] = v.y, b_values[4 * j + 2] = v.z, b_values[4 * j + 3] = v.w;
      }
      multiply_add<Tile>(sums, a_values, b_values);
    }
    write_tile<Tile>(sums, place, c, p, row, column);
  }
}

// Computes the same from tiles of A and B in shared memory, in the same layout as in global memory. A is read along k
// in vectors, so it need not be transposed, and 16-byte and bulk copies can load it.
template <TileStaging staging, unsigned Depth, class Tile>
__global__ void __launch_bounds__(threads, 2)
    gemm_staged(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, Problem p) {
  float* buffers = device::dynamic_shared<float>();
  __shared__ BulkBarrier arrived[device::pipeline_barriers<staging, Depth>];
  TilePipeline<staging, Depth, threads> pipeline(arrived);
  constexpr unsigned buffer_elements = Tile::a_elements + Tile::b_elements;
  const TilePlace<Tile> place;
  const std::uint64_t tiles = ((p.m + Tile::rows - 1) / Tile::rows) * ((p.n + Tile::columns - 1) / Tile::columns);
  const std::uint64_t steps = (p.k + Tile::depth - 1) / Tile::depth;
  for (std::uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    std::size_t row, column;
    tile_corner<Tile>(tile, p, row, column);
    // The window contains the rows that exist, and the columns up to the padding. Elements beyond k are zero in A
    // (padding or fill) or are not read.
    const unsigned rows = p.m - row < Tile::rows ? static_cast<unsigned>(p.m - row) : Tile::rows;
    const unsigned columns =
        p.b_pitch - column < Tile::columns ? static_cast<unsigned>(p.b_pitch - column) : Tile::columns;
    const float* a_corner = a + row * p.a_pitch;
    const float* b_corner = b + column;
    TileSums<Tile> sums = {};
    pipeline.run(
        steps,
        [&](auto& copier, unsigned stage, std::uint64_t step) {
          float* buffer = buffers + stage * buffer_elements;
          const std::size_t l = step * Tile::depth, left = p.k - l;
          const unsigned depth = left < Tile::depth ? static_cast<unsigned>(left) : Tile::depth;
          copier.template rows<Tile::rows, Tile::depth>(buffer, Tile::a_pitch, {0, rows, 0, (depth + 3) / 4 * 4},
                                                        [&](unsigned r) { return a_corner + r * p.a_pitch + l; });
          copier.template rows<Tile::depth, Tile::columns>(buffer + Tile::a_elements, Tile::columns,
                                                           {0, depth, 0, columns},
                                                           [&](unsigned r) { return b_corner + (l + r) * p.b_pitch; });
        },
        [&](unsigned stage, std::uint64_t) {
          float* buffer = buffers + stage * buffer_elements;
          multiply_tiles<Tile>(sums, place, buffer, buffer + Tile::a_elements);
        });
    write_tile<Tile>(sums, place, c, p, row, column);
  }
}

void run(Case& c) {
  const std::size_t m = c.extent("m"), n = c.extent("n"), k = c.extent("k");
  const Staging staging = available_staging(c);

  const auto a_values = uniform(c.seed(), 0, -1, 1);
  const auto b_values = uniform(c.seed(), 1, -1, 1);
  auto a = c.input_matrix<float>("A", m, k, a_values, unit);
  auto b = c.input_matrix<float>("B", k, n, b_values);
  auto out = c.output_matrix<float>("C", m, n, unit);
  c.chunks(divide_up(m, unit));

  c.verify(
      out, [=](std::size_t i) { return gemm_element(i / n, i % n, n, k, a_values, b_values); },
      {.absolute = gemm_tolerance(k), .relative = 0}, "double dot products");

  const auto measure = [&](auto kernel, auto tile, std::size_t shared_bytes) {
    using Tile = decltype(tile);
    const auto pieces = [=](std::size_t rows) { return divide_up(rows, Tile::rows) * divide_up(n, Tile::columns); };
    const auto shape = prepare(c, kernel, threads, shared_bytes, pieces(m), 0);
    c.measure(Control::queued, [=](Run& run) {
      const std::size_t first = run.chunk().first * unit, count = std::min(run.chunk().count * unit, m - first);
      run.launch(kernel, shape_for_chunk(shape, pieces(count)),
                 {.bytes_read = 4.0 * (count + n) * k, .bytes_written = 4.0 * count * n, .flops = 2.0 * count * n * k},
                 a.device() + first * a.pitch(), b.device(), out.device() + first * out.pitch(),
                 Problem{count, n, k, a.pitch(), b.pitch(), out.pitch()});
    });
  };
  if (staging == Staging::none) {
    measure(device::Kernel{"gemm_none", gemm_none<Tile128x16>}, Tile128x16{}, 0);
  } else {
    with_pipeline(staging, c.integer("depth"), [&](auto how, auto depth) {
      Tiles::with(c.choice("tile"), [&](auto tile) {
        using Tile = decltype(tile);
        const std::size_t needed = depth() * (Tile::a_elements + Tile::b_elements) * sizeof(float);
        measure(device::Kernel{"gemm_staged", gemm_staged<how(), depth(), Tile>}, tile, shared_bytes_for(c, needed));
      });
    });
  }
}

Workload workload() {
  Workload w = micro_workload("gemm", run, "C = A*B, dense matrices in fp32");
  w.axis(number_axis("m", "rows of A and C", 1024))
      .axis(number_axis("n", "columns of B and C", 1024))
      .axis(number_axis("k", "columns of A, rows of B", 1024));
  add_geometry_axes(w, {threads});
  w.axis({.name = "tile",
          .help = "rows x columns of C and depth along k of a staged tile (the original's is 32x32x32)",
          .default_value = Tile128x32::name,
          .choices = Tiles::allowed()});
  add_matrix_sizes(w, {"m", "n", "k"}, 16, 32);
  add_paper_preset(w, {{"tile", Tile32::name}});
  return w;
}

const Registration registration = workload();

}  // namespace

void queue_gemm(device::Stream& stream, const float* a, const float* b, float* c, std::size_t m, std::size_t n,
                std::size_t k) {
  using Tile = Tile128x16;
  const auto blocks = static_cast<unsigned>(divide_up(m, Tile::rows) * divide_up(n, Tile::columns));
  launch(stream, device::Kernel{"gemm_none", gemm_none<Tile>}, {.grid = blocks, .block = threads}, a, b, c,
         Problem{m, n, k, row_pitch<float>(k), row_pitch<float>(n), row_pitch<float>(n)});
}

}  // namespace isthmus::microbench
