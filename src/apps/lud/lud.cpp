// LU decomposition without pivoting, in place: our own kernels decompose panels, and the library's GEMM does the rest.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "apps/checks.hpp"
#include "memory/parallel.hpp"
#include "workload/library.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;

constexpr unsigned block = 64;           // columns that the kernels eliminate at once
constexpr unsigned threads = 4 * block;  // four per line of a block: thread q has number 16i + 4q + j as own[i][j]
using Factor = float[block][block + 4];  // [k][i]: multiple of number k to subtract from number i; 0 if i <= k

/// Calls use(index in the line, own[i][j]) for each number that this thread has.
template <class Use>
__device__ inline void each(float (&own)[4][4], Use use) {
#pragma unroll
  for (unsigned i = 0; i < 16; ++i) use(i / 4 * 16 + threadIdx.x % 4 * 4 + i % 4, own[i / 4][i % 4]);
}
/// Subtracts multiples of each number of a line from the numbers after it; times(k, number) returns number k, scaled.
/// One loop is not unrolled, which keeps the code small enough for the instruction caches.
template <class Times>
__device__ inline void eliminate(float (&own)[4][4], const Factor& factor, Times times) {
  const unsigned q = threadIdx.x % 4;
#pragma unroll
  for (unsigned step = 0; step < 4; ++step) {
#pragma unroll 1
    for (unsigned owner = 0; owner < 4; ++owner) {
#pragma unroll
      for (unsigned of = 0; of < 4; ++of) {
        const unsigned k = 16 * step + 4 * owner + of;
        const int lane = device::lane() - static_cast<int>(q) + static_cast<int>(owner);
        const float taken = times(k, device::shuffle(device::full_warp(), own[step][of], lane));
#pragma unroll
        for (unsigned i = 4 * step; i < 16; ++i)
          own[i / 4][i % 4] = fmaf(-factor[k][i / 4 * 16 + q * 4 + i % 4], taken, own[i / 4][i % 4]);
      }
    }
  }
}

// for (k = 0; k < size; ++k)
//   for (r = k + 1; r < size; ++r)
//     for (a[r][k] /= a[k][k], c = k + 1; c < size; ++c) a[r][c] -= a[r][k] * a[k][c];
//
// Lines are columns here. At step k, a line needs only column k of L from other lines.
__global__ void __launch_bounds__(threads) lud_diagonal(float* a, std::size_t pitch, unsigned size) {
  alignas(16) __shared__ Factor factor;
  __shared__ float scale[block];  // final scale of column k of L
  const unsigned c = threadIdx.x / 4;
  float own[4][4];
  each(own,
       [&](unsigned r, float& value) { value = r < size && c < size ? a[r * pitch + c] : static_cast<float>(r == c); });
  eliminate(own, factor, [&](unsigned k, float number) {
    if (c == k) {
      each(own, [&](unsigned r, float value) { factor[k][r] = r > k ? value : 0; });
      if (threadIdx.x % 4 == 0) scale[k] = 1 / number;
    }
    __syncthreads();
    return c > k ? number * scale[k] : 0;
  });
  each(own, [&](unsigned r, float value) {
    if (r < size && c < size) a[r * pitch + c] = r > c ? value * scale[c] : value;
  });
}

// for (c = block; c < block + length; ++c)                                    strip to the right of the block: U
//   for (k = 0; k < block; ++k)
//     for (r = k + 1; r < block; ++r) a[r][c] -= a[r][k] * a[k][c];
// for (r = block; r < block + length; ++r)                                    strip below the block: L
//   for (k = 0; k < block; ++k)
//     for (a[r][k] /= a[k][k], c = k + 1; c < block; ++c) a[r][c] -= a[r][k] * a[k][c];
//
// Lines are columns in the right strip and rows in the lower strip. Both strips run the same loop, the right one with
// the block's L and the lower one with its transposed U. Strips are read and written row by row, and transposed in
// shared memory.
__global__ void __launch_bounds__(threads) lud_strips(float* a, std::size_t pitch, std::size_t length) {
  alignas(16) __shared__ Factor factor, lines;
  __shared__ float scale[block];  // final scale of number k
  const bool below = blockIdx.y == 1;
  const std::size_t first = std::size_t{blockIdx.x} * block;
  const auto count = static_cast<unsigned>(length - first < block ? length - first : block);
  float* strip = a + (block + first) * (below ? pitch : 1);
  const unsigned c = threadIdx.x % block, line = threadIdx.x / 4;
#pragma unroll
  for (unsigned i = 0; i < block; i += threads / block) {
    const unsigned r = i + threadIdx.x / block;
    (below ? factor[r][c] : factor[c][r]) = (below ? r < c : c < r) ? a[r * pitch + c] : 0;
    (below ? lines[r][c] : lines[c][r]) = (below ? r : c) < count ? strip[r * pitch + c] : 0;
  }
  if (threadIdx.x < block) scale[c] = below ? 1 / a[c * pitch + c] : 1;
  __syncthreads();
  float own[4][4];
  each(own, [&](unsigned k, float& value) { value = lines[line][k]; });
  eliminate(own, factor, [&](unsigned k, float number) { return number * scale[k]; });
  each(own, [&](unsigned k, float value) { lines[line][k] = value * scale[k]; });
  __syncthreads();
  for (unsigned r = threadIdx.x / block; r < block; r += threads / block) {
    if ((below ? r : c) < count) strip[r * pitch + c] = below ? lines[r][c] : lines[c][r];
  }
}

/// Input matrix: uniform numbers, with twice the root of n added to the diagonal so that pivoting is unnecessary
/// (NOTES.md).
struct Matrix {
  std::size_t n;
  Uniform values;
  float operator()(std::size_t i) const {
    return values(i) + (i % (n + 1) == 0 ? 2 * std::sqrt(static_cast<float>(n)) : 0.0f);
  }
};

void serial_lud(const Matrix& matrix, std::span<float> factors) {
  const std::size_t n = matrix.n;
  std::vector<double> a(n * n);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = matrix(i);
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t r = k + 1; r < n; ++r) {
      const double part = a[r * n + k] /= a[k * n + k];
      for (std::size_t c = k + 1; c < n; ++c) a[r * n + c] -= part * a[k * n + c];
    }
  }
  for (std::size_t i = 0; i < a.size(); ++i) factors[i] = static_cast<float>(a[i]);
}

/// Returns the largest element of |(LU - A)x|, where x has random signs.
double residual(const Matrix& matrix, std::uint64_t seed, const float* factors, std::size_t pitch) {
  const std::size_t n = matrix.n;
  std::vector<double> x(n), ux(n);
  for (std::size_t c = 0; c < n; ++c) x[c] = hash(seed, 1, c) % 2 == 0 ? 1 : -1;
  memory::parallel_for(n, 16, [&](std::size_t first, std::size_t last) {
    for (std::size_t r = first; r < last; ++r)
      ux[r] = std::inner_product(factors + r * pitch + r, factors + r * pitch + n, &x[r], 0.0);
  });
  return worst_of(n, 16, [&](std::size_t r) {
    const float* row = factors + r * pitch;
    double sum = std::inner_product(row, row + r, ux.begin(), ux[r]);  // L's diagonal is 1
    for (std::size_t c = 0; c < n; ++c) sum -= x[c] * matrix(r * n + c);
    return std::abs(sum);
  });
}

void lud(Case& c) {
  const auto n = c.integer("n"), width = c.integer("panel");
  const Matrix matrix{c.extent("n"), uniform(c.seed(), 0, -1, 1)};
  auto a = c.inout_matrix<float>("matrix", matrix.n, matrix.n, matrix);
  const auto blas = load_library<device::Blas>();

  const double roundoff = 0x1p-24, length = static_cast<double>(n), root = std::sqrt(length);
  if (n <= 512)
    c.verify_all(a, [=](std::span<float> expected) { serial_lud(matrix, expected); },
                 {.absolute = 32 * root * roundoff, .relative = 16 * root * roundoff});
  c.verify(
      "(LU - A)x for random x", [=, seed = c.seed()] { return residual(matrix, seed, a.host(), a.pitch()); },
      20 * length * roundoff);

  c.measure(Control::queued, [=](Run& run) {
    const auto pitch = static_cast<std::int64_t>(a.pitch());
    const auto at = [&](std::int64_t row, std::int64_t column) { return a.device() + row * pitch + column; };
    // Applies steps [from, to) to rows [top, bottom) and columns [left, right).
    const auto update = [&](const char* name, std::int64_t top, std::int64_t bottom, std::int64_t left,
                            std::int64_t right, std::int64_t from, std::int64_t to) {
      const auto rows = static_cast<double>(bottom - top), columns = static_cast<double>(right - left),
                 depth = static_cast<double>(to - from), all = rows * columns;
      if (all == 0) return;
      run.call(name, {4 * (rows * depth + depth * columns + all), 4 * all, 2 * all * depth}, [&](auto& stream) {
        blas->sgemm(stream, bottom - top, right - left, to - from, at(top, from), pitch, at(from, left), pitch,
                    at(top, left), pitch, -1, 1);
      });
    };
    for (std::int64_t panel = 0, end = 0; panel < n; panel = end) {
      end = std::min(panel + width, n);
      for (std::int64_t k = panel, next = 0; k < end; k = next) {
        next = std::min<std::int64_t>(k + block, n);
        const auto rest = n - next, tiles = (rest + block - 1) / block;
        const auto size = static_cast<double>(next - k), area = size * size,
                   adjacent = 2 * size * static_cast<double>(rest);
        run.launch(ISTHMUS_KERNEL(lud_diagonal), {.block = threads}, {4 * area, 4 * area, area * size * 2 / 3},
                   at(k, k), pitch, next - k);
        if (rest == 0) return;
        run.launch(ISTHMUS_KERNEL(lud_strips), {.grid = {static_cast<unsigned>(tiles), 2}, .block = threads},
                   {4 * (area + adjacent), 4 * adjacent, adjacent * size}, at(k, k), pitch, rest);
        update("panel_gemm", next, n, next, end, k, next);  // the panel's columns, down to the last row
        update("panel_gemm", next, end, end, n, k, next);   // the panel's rows
      }
      update("trailing_gemm", end, n, end, n, panel, end);
    }
  });
}

const Registration registration =
    Workload("apps/lud", lud)
        .version(1)
        .summary("LU decomposition in place, without pivoting: panels by our kernels, the rest by the library's GEMM")
        .source("pipelining-taco2025, Table 2 (Rodinia's lud), its super and mega")
        .tags({"app", "pipelining"})
        .placements(memory::all_placements())
        .stagings({Staging::none})
        .axis(number_axis("n", "rows and columns of the matrix", 4096))
        .axis(
            how(choice_axis("panel", "columns between two updates of the remaining matrix", {256, 64, 128, 512, 1024})))
        .axis(submission_axis())
        .sizes({"n"}, {256, 1024, 4096, 8192, 16384, 65536});

}  // namespace
}  // namespace isthmus::apps
