// mvt, atax and bicg: a matrix and its transpose times vectors. The matrix is read once for both products if possible.

#include <algorithm>
#include <string>
#include <vector>

#include "apps/inputs.hpp"
#include "device/kernel/relaxed.hpp"
#include "device/kernel/staging.hpp"
#include "memory/parallel.hpp"
#include "paging/array.hpp"
#include "paging/optimum.hpp"
#include "paging/placement.hpp"
#include "workload/paged.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;

constexpr unsigned threads = 256, rows_in_flight = 4;
constexpr unsigned tile_rows = 256, tile_columns = 4 * threads;
constexpr unsigned rows_together = 8;  // rows between barriers, without which warps would refetch shared pages

__device__ inline float dot(const float4& a, const float4& b, float sum) {
  return a.x * b.x + (a.y * b.y + (a.z * b.z + (a.w * b.w + sum)));
}
__device__ inline void add(float4& sum, float factor, const float4& a) {
  sum.x += factor * a.x;
  sum.y += factor * a.y;
  sum.z += factor * a.z;
  sum.w += factor * a.w;
}
/// Returns four elements of a vector of length `n`, with zeros beyond its end.
__device__ inline float4 four(const float* x, std::size_t i, std::size_t n) {
  return make_float4(i < n ? x[i] : 0, i + 1 < n ? x[i + 1] : 0, i + 2 < n ? x[i + 2] : 0, i + 3 < n ? x[i + 3] : 0);
}

// for (i = 0; i < rows; ++i)
//   for (j = 0; j < columns; ++j) by_rows[i] += a[i][j] * right[j], by_columns[j] += left[i] * a[i][j];
//
// Each block has a tile of the matrix, and each thread four of its columns. Partial sums are written to
// by_rows[tile][i] and by_columns[tile][j]; add_parts adds them up, always in the same order.
//
// `cells` identifies the tile and returns the four elements at an offset from its corner. If Cells::together is true,
// the warp fetches pages, and lanes without elements must take part in each read.
template <bool rows_too, bool columns_too, unsigned rows_in_flight, class Cells>
__device__ __forceinline__ void multiply_cells(Cells& cells, std::size_t rows, std::size_t columns, std::size_t pitch,
                                               const float* __restrict__ right, const float* __restrict__ left,
                                               float* by_rows, float* by_columns) {
  __shared__ float sums[threads / 32][tile_rows];  // sum of each warp and row
  const std::size_t column = std::size_t{cells.across()} * tile_columns + threadIdx.x * 4;
  const std::size_t first = std::size_t{cells.down()} * tile_rows;
  const unsigned count = rows - first < tile_rows ? static_cast<unsigned>(rows - first) : tile_rows;
  const bool inside = column < columns;  // rows are padded with zeros to a multiple of four
  const float4 factors = rows_too ? four(right, column, columns) : make_float4(0, 0, 0, 0);
  cells.start(first * pitch, column);
  float4 total = make_float4(0, 0, 0, 0);
  for (unsigned row = 0; row < count; row += rows_in_flight) {
    if constexpr (Cells::together) {
      if (row % rows_together == 0) __syncthreads();
    }
    float4 values[rows_in_flight];
#pragma unroll
    for (unsigned j = 0; j < rows_in_flight; ++j) {
      if constexpr (Cells::together) {
        values[j] = cells.read(inside && row + j < count, (row + j) * pitch);
      } else {
        values[j] = inside && row + j < count ? cells[(row + j) * pitch] : make_float4(0, 0, 0, 0);
      }
    }
#pragma unroll
    for (unsigned j = 0; j < rows_in_flight; ++j) {
      if (row + j >= count) break;
      if constexpr (columns_too) add(total, left[first + row + j], values[j]);
      if constexpr (rows_too) {
        float sum = dot(values[j], factors, 0);
        for (int half = device::warp_size() / 2; half > 0; half /= 2)
          sum += device::shuffle_down(device::full_warp(), sum, static_cast<unsigned>(half));
        if (device::lane() == 0) sums[device::warp_in_block()][row + j] = sum;
      }
    }
  }
  if constexpr (columns_too) {
    if (inside) *reinterpret_cast<float4*>(by_columns + cells.down() * pitch + column) = total;
  }
  if constexpr (rows_too) {
    __syncthreads();
    for (unsigned row = threadIdx.x; row < count; row += threads) {
      float sum = 0;
      for (unsigned warp = 0; warp < threads / static_cast<unsigned>(device::warp_size()); ++warp)
        sum += sums[warp][row];
      by_rows[cells.across() * rows + first + row] = sum;
    }
  }
}

/// Cells of a tile in directly addressable memory.
struct Near {
  static constexpr bool together = false;
  const float* corner;
  __device__ static unsigned across() { return blockIdx.x; }
  __device__ static unsigned down() { return blockIdx.y; }
  __device__ __forceinline__ void start(std::size_t row, std::size_t column) { corner = corner + row + column; }
  __device__ __forceinline__ const float4& operator[](std::size_t at) const {
    return *reinterpret_cast<const float4*>(corner + at);
  }
};
template <bool rows_too, bool columns_too>
__global__ void __launch_bounds__(threads, 4)
    multiply_tile(std::size_t rows, std::size_t columns, std::size_t pitch, const float* __restrict__ a,
                  const float* __restrict__ right, const float* __restrict__ left, float* by_rows, float* by_columns) {
  Near cells{a};
  multiply_cells<rows_too, columns_too, rows_in_flight>(cells, rows, columns, pitch, right, left, by_rows, by_columns);
}

/// Four elements of a matrix whose pages the kernels fetch. float4 is not trivially copyable under HIP.
struct alignas(16) Four {
  float x, y, z, w;
};
struct Far {
  static constexpr bool together = true;
  paging::Array<Four>::Reader& reader;
  unsigned tile_across, tile_down;
  std::size_t corner;
  __device__ unsigned across() const { return tile_across; }
  __device__ unsigned down() const { return tile_down; }
  __device__ __forceinline__ void start(std::size_t row, std::size_t column) { corner = row + column; }
  __device__ __forceinline__ float4 read(bool there, std::size_t at) const {
    const Four four = reader.read(there ? (corner + at) / 4 : ~std::size_t{0});
    return make_float4(four.x, four.y, four.z, four.w);
  }
};
// Each block processes several tiles, one row at a time because each row is on different pages.
template <bool rows_too, bool columns_too>
__global__ void __launch_bounds__(threads, 2)
    multiply_pages(std::size_t rows, std::size_t columns, std::size_t pitch, paging::Array<Four> a,
                   const float* __restrict__ right, const float* __restrict__ left, float* by_rows, float* by_columns) {
  auto reader = a.reader(paging::Lanes::full_warp());
  const auto across = static_cast<unsigned>((columns + tile_columns - 1) / tile_columns),
             down = static_cast<unsigned>((rows + tile_rows - 1) / tile_rows);
  for (std::size_t tile = blockIdx.x; tile < std::size_t{across} * down; tile += gridDim.x) {
    Far cells{reader, static_cast<unsigned>(tile % across), static_cast<unsigned>(tile / across), 0};
    multiply_cells<rows_too, columns_too, 1>(cells, rows, columns, pitch, right, left, by_rows, by_columns);
    if constexpr (rows_too) __syncthreads();  // until all sums are read
  }
}

// for (i = 0; i < n; ++i)
//   for (out[i] = kept ? out[i] : 0, k = 0; k < count; ++k) out[i] += parts[k][i];
__global__ void __launch_bounds__(threads)
    add_parts(std::size_t n, std::size_t count, std::size_t pitch, const float* __restrict__ parts, bool kept,
              float* __restrict__ out) {
  const std::size_t i = std::size_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= n) return;
  float sum = kept ? out[i] : 0;
#pragma unroll 16
  for (std::size_t k = 0; k < count; ++k) sum += parts[k * pitch + i];
  out[i] = sum;
}

// Constants of multiply_twice: each block has `tile_columns` columns, each thread four of them and every teams-th row.
constexpr unsigned twice_threads = 1024, vectors = tile_columns / 4, teams = twice_threads / vectors;
constexpr unsigned strip = 8, rows_of_thread = strip / teams;  // rows
constexpr unsigned ring = 7, held = 4;                         // strips in shared memory; strips that wait for products
constexpr std::size_t ring_bytes = std::size_t{ring} * strip * tile_columns * sizeof(float);
constexpr unsigned no_number = ~0u;  // initial value of `parts`: a NaN, which a sum of finite numbers never is

/// Sums each of `N` values over the lanes of a warp. Every lane gets one of the N sums: the first lanes get the first
/// sum, and so on.
template <unsigned N>
__device__ inline float warp_sums(float (&values)[N]) {
  int lanes = device::warp_size() / 2;
#pragma unroll
  for (unsigned n = N / 2; n > 0; n /= 2, lanes /= 2) {
    const bool upper = (device::lane() & lanes) != 0;
#pragma unroll
    for (unsigned i = 0; i < n; ++i) {
      const float theirs = upper ? values[i] : values[i + n];
      values[i] = (upper ? values[i + n] : values[i]) + device::shuffle_xor(device::full_warp(), theirs, lanes);
    }
  }
  for (; lanes > 0; lanes /= 2) values[0] += device::shuffle_xor(device::full_warp(), values[0], lanes);
  return values[0];
}

// for (i = 0; i < rows; ++i)
//   for (ax = dot(a[i], x), j = 0; j < columns; ++j) y[j] += ax * a[i][j];
//
// A group consists of `across` blocks, which have the same rows and different columns. A group processes every
// groups-th strip of rows. A block publishes its part of strip k's products while it works on strip k + 1, and loads
// the other blocks' parts while it works on strip k + held - 1. This hides two barriers and two trips through memory
// behind the copies, with one barrier per strip. A part is published as soon as its value differs from `no_number`. A
// group's sums are written to by_columns[group][j].
__global__ void __launch_bounds__(twice_threads, 1)
    multiply_twice(unsigned rows, std::size_t columns, std::size_t pitch, unsigned across, const float* __restrict__ a,
                   const float* __restrict__ x, unsigned* parts, float* by_columns) {
  __shared__ float sums[2][twice_threads / 32][rows_of_thread], products[2][strip];
  float* tiles = device::dynamic_shared<float>();
  const unsigned block = blockIdx.x % across, group = blockIdx.x / across, groups = gridDim.x / across;
  const unsigned vector = threadIdx.x % vectors, team = threadIdx.x / vectors;
  const auto lanes = static_cast<unsigned>(device::warp_size()), lane = static_cast<unsigned>(device::lane());
  const auto warp = static_cast<unsigned>(device::warp_in_block());
  const std::size_t left = std::size_t{block} * tile_columns, column = left + vector * 4;
  const auto width = static_cast<unsigned>(pitch - left < tile_columns ? pitch - left : tile_columns);
  const unsigned begin = group * strip, step = groups * strip;  // rows
  const unsigned mine = rows > begin ? (rows - begin - 1) / step + 1 : 0;
  const auto cells = [&](unsigned stage, unsigned i) -> const float4& {
    return reinterpret_cast<const float4*>(tiles)[(stage * strip + team + i * teams) * vectors + vector];
  };
  const float4 factors = four(x, column, columns);
  float4 total = make_float4(0, 0, 0, 0);

  unsigned copied = begin;  // beginning of the next strip to be copied
  const float* corner = a + std::size_t{begin} * pitch + left;
  const auto copy = [&](auto& copier, unsigned stage, std::uint64_t) {
    copier.template rows<strip, tile_columns>(tiles + stage * strip * tile_columns, tile_columns,
                                              {0, rows - copied < strip ? rows - copied : strip, 0, width},
                                              [&](unsigned r) { return corner + r * pitch; });
    copied += step;
    corner += step * pitch;
  };
  unsigned told = begin + threadIdx.x;  // the first `strip` threads have a row each
  const auto tell = [&](unsigned k) {
    if (threadIdx.x >= strip || told >= rows) return;
    const unsigned warps = vectors / lanes;
    float sum = 0;
    for (unsigned w = 0; w < warps; ++w) sum += sums[k % 2][threadIdx.x % teams * warps + w][threadIdx.x / teams];
    device::store_relaxed(parts + told * across + block, __float_as_uint(sum));
    told += step;
  };
  unsigned asked = begin + warp, part = no_number;  // the first `strip` warps have a row each
  const auto ask = [&] {
    if (warp < strip && asked < rows && lane < across) part = device::load_relaxed(parts + asked * across + lane);
  };
  const auto add_parts_of = [&](unsigned k) {
    if (warp >= strip) return;
    float sum = 0;
    for (unsigned other = lane; asked < rows && other - lane < across; other += lanes) {
      device::spin_until([&] {
        if (other < across && part == no_number) part = device::load_relaxed(parts + asked * across + other);
        return other >= across || part != no_number;
      });
      if (other < across) sum += __uint_as_float(part);
      part = no_number;
    }
    for (unsigned half = lanes / 2; half > 0; half /= 2)
      sum += device::shuffle_xor(device::full_warp(), sum, static_cast<int>(half));
    if (lane == 0) products[k % 2][warp] = sum;
    asked += step;
  };
  const auto add_products = [&](unsigned k, unsigned stage) {
#pragma unroll
    for (unsigned i = 0; i < rows_of_thread; ++i) add(total, products[k % 2][team + i * teams], cells(stage, i));
  };

  device::TilePipeline<device::TileStaging::async, ring, twice_threads, held> pipeline(nullptr);
  unsigned k = 0, summed = 0;
  pipeline.run(mine, copy, [&](unsigned stage, std::uint64_t) {
    if (k > 0) tell(k - 1);
    float values[rows_of_thread];
#pragma unroll
    for (unsigned i = 0; i < rows_of_thread; ++i) values[i] = dot(cells(stage, i), factors, 0);
    const float sum = warp_sums(values);
    if (lane % (lanes / rows_of_thread) == 0) sums[k % 2][warp][lane / (lanes / rows_of_thread)] = sum;
    if (k >= held) add_products(k - held, stage < held ? stage + ring - held : stage - held);
    if (++k < held) return;
    add_parts_of(summed++);
    ask();
  });
  if (mine > 0) tell(mine - 1);
  for (k = mine > held ? mine - held : 0; k < mine; ++k) {
    if (k == summed) add_parts_of(summed++);
    __syncthreads();
    add_products(k, k % ring);
  }
  __syncthreads();
  float4* totals = reinterpret_cast<float4*>(tiles);
  totals[threadIdx.x] = total;
  __syncthreads();
  if (team > 0 || column >= columns) return;
  for (unsigned other = 1; other < teams; ++other) add(total, 1, totals[other * vectors + vector]);
  *reinterpret_cast<float4*>(by_columns + group * pitch + column) = total;
}

/// Matrix with its buffers and its products with vectors. Elements of matrix and vectors are functions of their index.
struct Matrix {
  std::size_t rows, columns;
  bool paged, twice;  ///< twice: each product reads the matrix in a separate pass
  device::DeviceInfo info;
  OddNumbers values;
  Buffer<float> a, row_parts, column_parts;

  explicit Matrix(Case& c)
      : rows(c.extent("rows")),
        columns(c.extent("cols")),
        paged(c.placement()->paged),
        twice(c.choice("passes") == "two"),
        info(c.device()),
        values{c.seed(), 0},
        a(c.input_matrix<float>("A", rows, columns, values)),
        row_parts(c.scratch<float>("row parts", tiles(columns, tile_columns) * rows)),
        column_parts(c.scratch<float>("column parts", tiles(rows, tile_rows) * a.pitch())) {
    if (tiles(rows, tile_rows) > 65535)
      throw Skip("a grid has at most 65,535 tiles of 256 rows: choose at most 16,776,960 rows",
                 SkipKind::not_applicable);
    if (rows > 1 << 20 || columns > 1 << 20)
      throw Skip("sums of more than 2^20 products are not exact: choose at most 1048576 rows and columns",
                 SkipKind::not_applicable);
  }
  static std::size_t tiles(std::size_t n, std::size_t tile) { return (n + tile - 1) / tile; }

  template <class X>
  double row_times(std::size_t i, X x) const {
    double sum = 0;
    for (std::size_t j = 0; j < columns; ++j) sum += double{values(i * columns + j)} * x(j);
    return sum;
  }
  template <class X>
  double column_times(std::size_t j, X x) const {
    double sum = 0;
    for (std::size_t i = 0; i < rows; ++i) sum += double{values(i * columns + j)} * x(i);
    return sum;
  }

  /// Reports the minimum number of page fetches that this many passes need, for comparison with a paged case's fetches.
  void observe_optimum(Case& c, unsigned passes) const {
    if (!paged) return;
    const std::size_t pages = paging::pages_of(a.size() * sizeof(float), c.extent(kPageAxis)),
                      frames = paging::frames_of(pages, c.extent(kFramesAxis));
    c.report(count_metric("optimal_fetches"),
             static_cast<double>(paging::optimal_fetches(paging::passes_over(pages, passes), frames)));
  }

  /// Computes by_rows = A·right and by_columns = left·A, added to the previous contents if `kept`. Skips the product of
  /// a vector that is nullptr.
  void multiply(Run& run, const float* right, float* by_rows, const float* left, float* by_columns, bool kept) const {
    const auto tile = right == nullptr  ? device::Kernel{"multiply_tile<columns>", multiply_tile<false, true>}
                      : left == nullptr ? device::Kernel{"multiply_tile<rows>", multiply_tile<true, false>}
                                        : device::Kernel{"multiply_tile<both>", multiply_tile<true, true>};
    const auto across = tiles(columns, tile_columns), down = tiles(rows, tile_rows);
    const auto high = static_cast<double>(rows), wide = static_cast<double>(columns), cells = high * wide,
               products = (right != nullptr ? 1.0 : 0) + (left != nullptr ? 1.0 : 0);
    const Traffic traffic{.bytes_read = 4 * cells, .flops = 2 * cells * products};
    if (paged) {
      const auto kernel = right == nullptr  ? device::Kernel{"multiply_pages<columns>", multiply_pages<false, true>}
                          : left == nullptr ? device::Kernel{"multiply_pages<rows>", multiply_pages<true, false>}
                                            : device::Kernel{"multiply_pages<both>", multiply_pages<true, true>};
      const auto& pages = run.paged(a);
      run.launch(kernel, within_frames({.grid = static_cast<unsigned>(across * down), .block = threads}, info, {pages}),
                 traffic, rows, columns, a.pitch(), paging::Array<Four>(pages), right, left, row_parts.device(),
                 column_parts.device());
    } else {
      run.launch(tile, {.grid = {static_cast<unsigned>(across), static_cast<unsigned>(down)}, .block = threads},
                 traffic, rows, columns, a.pitch(), a.device(), right, left, row_parts.device(), column_parts.device());
    }
    if (right != nullptr) add_up(run, rows, across, rows, row_parts, by_rows, kept);
    if (left != nullptr) add_up(run, columns, down, a.pitch(), column_parts, by_columns, kept);
  }
  /// Computes both products, in one pass or two.
  void multiply_by_both(Run& run, const float* right, float* by_rows, const float* left, float* by_columns,
                        bool kept) const {
    if (!twice) return multiply(run, right, by_rows, left, by_columns, kept);
    multiply(run, right, by_rows, nullptr, nullptr, kept);
    multiply(run, nullptr, nullptr, left, by_columns, kept);
  }

  /// Returns the number of groups of blocks for multiply_twice, all of which are resident at once; 0 if Aᵀ·(A·x) has to
  /// read the matrix twice.
  unsigned groups() const {
    const int blocks = info.max_resident_blocks > 0 ? info.max_resident_blocks : info.multiprocessors;
    if (paged || twice || !info.cooperative || !info.async_shared_copy || info.shared_per_block < ring_bytes + 1024)
      return 0;
    return static_cast<unsigned>(
        std::min(static_cast<std::size_t>(blocks) / tiles(columns, tile_columns), tiles(rows, tile_rows)));
  }

  /// Computes y = Aᵀ·(A·x), reading the matrix once.
  void multiply_both(Run& run, unsigned groups, const float* x, float* y) const {
    const auto across = static_cast<unsigned>(tiles(columns, tile_columns));
    const auto cells = static_cast<double>(rows) * static_cast<double>(columns);
    run.fill(row_parts, 0xff);
    run.launch(ISTHMUS_KERNEL(multiply_twice),
               {.grid = groups * across, .block = twice_threads, .shared_bytes = ring_bytes, .cooperative = true},
               {.bytes_read = 4 * cells, .flops = 4 * cells}, rows, columns, a.pitch(), across, a.device(), x,
               reinterpret_cast<unsigned*>(row_parts.device()), column_parts.device());
    add_up(run, columns, groups, a.pitch(), column_parts, y, false);
  }

 private:
  static void add_up(Run& run, std::size_t n, std::size_t count, std::size_t pitch, const Buffer<float>& parts,
                     float* out, bool kept) {
    const auto traffic = static_cast<double>(n) * 4;
    run.launch(ISTHMUS_KERNEL(add_parts), {.grid = static_cast<unsigned>(tiles(n, threads)), .block = threads},
               {.bytes_read = kept ? 2 * traffic : traffic, .bytes_written = traffic}, n, count, pitch, parts.device(),
               kept, out);
  }
};

// x1 += A·y1, x2 += Aᵀ·y2
void mvt(Case& c) {
  const Matrix m(c);
  const OddNumbers y1_values{c.seed(), 1}, y2_values{c.seed(), 2}, x1_values{c.seed(), 3}, x2_values{c.seed(), 4};
  auto y1 = c.input<float>("y1", m.columns, y1_values);
  auto y2 = c.input<float>("y2", m.rows, y2_values);
  auto x1 = c.inout<float>("x1", m.rows, x1_values);
  auto x2 = c.inout<float>("x2", m.columns, x2_values);
  c.verify(x1, [=](std::size_t i) { return x1_values(i) + m.row_times(i, y1_values); }, {}, "sums of whole numbers");
  c.verify(x2, [=](std::size_t j) { return x2_values(j) + m.column_times(j, y2_values); }, {}, "sums of whole numbers");
  c.verify_same(x1);
  c.verify_same(x2);
  c.measure(
      Control::queued,
      [=](Run& run) { m.multiply_by_both(run, y1.device(), x1.device(), y2.device(), x2.device(), true); }, paged(m.a));
  m.observe_optimum(c, m.twice ? 2 : 1);
}

// q = A·p, s = Aᵀ·r
void bicg(Case& c) {
  const Matrix m(c);
  const OddNumbers p_values{c.seed(), 1}, r_values{c.seed(), 2};
  auto p = c.input<float>("p", m.columns, p_values);
  auto r = c.input<float>("r", m.rows, r_values);
  auto q = c.output<float>("q", m.rows);
  auto s = c.output<float>("s", m.columns);
  c.verify(q, [=](std::size_t i) { return m.row_times(i, p_values); }, {}, "sums of whole numbers");
  c.verify(s, [=](std::size_t j) { return m.column_times(j, r_values); }, {}, "sums of whole numbers");
  c.verify_same(q);
  c.verify_same(s);
  c.measure(
      Control::queued,
      [=](Run& run) { m.multiply_by_both(run, p.device(), q.device(), r.device(), s.device(), false); }, paged(m.a));
  m.observe_optimum(c, m.twice ? 2 : 1);
}

// y = Aᵀ·(A·x)
void atax(Case& c) {
  const Matrix m(c);
  const OddNumbers x_values{c.seed(), 1};
  auto x = c.input<float>("x", m.columns, x_values);
  auto y = c.output<float>("y", m.columns);
  auto ax = c.scratch<float>("A x", m.rows);
  const auto right_ax = c.shared<std::vector<double>>("A x", m.rows * sizeof(double), [=] {
    std::vector<double> all(m.rows);
    memory::parallel_for(m.rows, 64, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) all[i] = m.row_times(i, x_values);
    });
    return all;
  });
  c.verify(
      y, [=](std::size_t j) { return m.column_times(j, [&](std::size_t i) { return (*right_ax)[i]; }); }, {},
      "sums of whole numbers");
  c.verify_same(y);
  const unsigned groups = m.groups();
  c.measure(
      Control::queued,
      [=](Run& run) {
        if (groups > 0) return m.multiply_both(run, groups, x.device(), y.device());
        m.multiply(run, x.device(), ax.device(), nullptr, nullptr, false);
        m.multiply(run, nullptr, nullptr, ax.device(), y.device(), false);
      },
      paged(m.a));
  m.observe_optimum(c, 2);
}

Workload workload(const std::string& name, void (*function)(Case&), const std::string& summary) {
  Workload w("apps/" + name, function);
  w.version(1)
      .summary(summary)
      .source("gpuvm-2024, transfer-bound set (PolyBench)")
      .tags({"app", "gpuvm"})
      .placements(memory::all_placements())
      .paged()
      .stagings({Staging::none})
      .axis(number_axis("rows", "rows of A", 4096))
      .axis(number_axis("cols", "columns of A", 4096))
      .axis(how(choice_axis("passes",
                            "passes over A: as few as the kernels need, or one for each product as in the paper",
                            {"fewest", "two"})))
      .reported({"optimal_fetches"});
  for (const auto& [size, n] :
       {std::pair{"tiny", 512}, {"small", 1024}, {"medium", 4096}, {"large", 8192}, {"super", 16384}, {"mega", 32768}})
    w.size(size, {{"rows", n}, {"cols", n}});
  return w;
}

const Registration registrations[] = {
    workload("mvt", mvt, "a matrix and its transpose, each times a vector, with the matrix read once"),
    workload("atax", atax, "product of a matrix's transpose, the matrix and a vector"),
    workload("bicg", bicg, "the two products of a BiCG step, with the matrix read once"),
};

}  // namespace
}  // namespace isthmus::apps
