// Geometric multigrid for Poisson's equation: V-cycles with two red-black sweeps before and after each coarser level.

#include <array>
#include <cmath>
#include <vector>

#include "apps/poisson.hpp"
#include "apps/watched.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;

constexpr int coarsest = 4, coarsest_sweeps = 16;  // coarsest cells per side; sweeps on them for an error of 2^-16

/// Returns three quarters of the nearer value plus a quarter of the farther one: linear interpolation between centres.
__host__ __device__ inline double between(double near, double far) {
  return fma(0.25, far - near, near);
}
/// Returns a fine cell's correction, interpolated from the eight coarse cells around it; value(x, y, z) returns the
/// value of a coarse cell. A cell beyond a wall has the value of the cell at the wall with the opposite sign.
template <class Value>
__host__ __device__ double prolonged(const Cube& coarse, int x, int y, int z, const Value& value) {
  struct Two {
    int near, far;
    double sign;
    __host__ __device__ Two(const Cube& cube, int i) : near(i / 2), far(i % 2 == 0 ? near - 1 : near + 1), sign(1) {
      if (!cube.has(far)) far = near, sign = -1;
    }
  };
  const Two along_x(coarse, x), along_y(coarse, y), along_z(coarse, z);
  const auto line = [&](int at_y, int at_z) {
    return between(value(along_x.near, at_y, at_z), along_x.sign * value(along_x.far, at_y, at_z));
  };
  const auto sheet = [&](int at_z) {
    return between(line(along_y.near, at_z), along_y.sign * line(along_y.far, at_z));
  };
  return between(sheet(along_z.near), along_z.sign * sheet(along_z.far));
}
/// Returns the residual of a cell's equation.
__host__ __device__ inline double residual(double gathered, double own, unsigned walls) {
  return fma(-(6.0 + walls), own, gathered);
}
/// Returns the right-hand side of a coarse cell from the four red cells in it. Residuals of black cells are zero except
/// for rounding, because these were relaxed last. The result is the mean of eight residuals, times four for the square
/// of a cell's side.
__host__ __device__ inline double restricted(double a, double b, double c, double d) {
  return 0.5 * ((a + b) + (c + d));
}

/// Initial values of a sweep: zero, or a field plus the coarser level's correction.
struct Zero {
  __device__ double operator()(std::int64_t, unsigned, int, int, int) const { return 0; }
};
struct Corrected {
  const double* __restrict__ field;
  const double* __restrict__ correction;
  Cube coarse;
  __device__ double operator()(std::int64_t at, unsigned share, int x, int y, int z) const {
    const auto value = [&](int i, int j, int k) { return correction[coarse.at(i, j, k)]; };
    return (field + at)[share] + prolonged(coarse, x, y, z, value);
  }
};

// for (each coarse cell) right_side = restricted(residuals of its red cells);
__global__ void restrict_residual(Cube fine, Cube coarse, const double* __restrict__ u, const double* __restrict__ f,
                                  double* __restrict__ right_side) {
  const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y), z = static_cast<int>(blockIdx.z);
  if (x >= coarse.n || y >= coarse.n) return;
  const auto left = [&](int i, int j, int k) {
    const std::int64_t at = fine.at(i, j, k);
    const auto other = [&](int where, int step, std::int64_t stride) {
      return fine.has(where + step) ? u[at + step * stride] : 0.0;
    };
    const double sum = gathered(other(i, -1, 1), other(j, -1, fine.pitch), other(k, -1, fine.plane()), other(i, 1, 1),
                                other(j, 1, fine.pitch), other(k, 1, fine.plane()), f[at]);
    return residual(sum, u[at], fine.walls(i) + fine.walls(j) + fine.walls(k));
  };
  right_side[coarse.at(x, y, z)] = restricted(left(2 * x, 2 * y, 2 * z), left(2 * x + 1, 2 * y + 1, 2 * z),
                                              left(2 * x + 1, 2 * y, 2 * z + 1), left(2 * x, 2 * y + 1, 2 * z + 1));
}

// Solves the coarsest level, starting from zero, in one block with one cell per thread.
__global__ void __launch_bounds__(coarsest* coarsest* coarsest)
    solve_coarsest(Cube cube, const double* __restrict__ f, double* __restrict__ u) {
  constexpr int edge = coarsest + 2;  // includes zeros beyond the walls
  __shared__ double cells[edge * edge * edge];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y), z = static_cast<int>(threadIdx.z);
  for (int i = (z * coarsest + y) * coarsest + x; i < edge * edge * edge; i += coarsest * coarsest * coarsest)
    cells[i] = 0;
  double* own = cells + ((z + 1) * edge + y + 1) * edge + x + 1;
  const double own_f = f[cube.at(x, y, z)];
  const unsigned walls = cube.walls(x) + cube.walls(y) + cube.walls(z);
  for (int half = 0; half < 2 * coarsest_sweeps; ++half) {
    __syncthreads();
    if ((x + y + z) % 2 != half % 2) continue;
    *own = relaxed(gathered(own[-1], own[-edge], own[-edge * edge], own[1], own[edge], own[edge * edge], own_f), walls);
  }
  u[cube.at(x, y, z)] = *own;
}

/// Computes one V-cycle on the host.
void serial_cycle(const Field& u, const Field& f) {
  const auto twice = [&] {
    for (int i = 0; i < 2; ++i) u.sweep_red_black(f);
  };
  if (u.cube.n == coarsest) {
    for (int i = 0; i < coarsest_sweeps; ++i) u.sweep_red_black(f);
    return;
  }
  twice();
  const auto n = static_cast<std::size_t>(u.cube.n / 2);
  std::vector<double> corrections(n * n * n), right_sides(n * n * n);
  const Field correction(n, corrections), right_side(n, right_sides);
  right_side.for_cells([&](int x, int y, int z) {
    const auto left = [&](int i, int j, int k) {
      i += 2 * x, j += 2 * y, k += 2 * z;
      return residual(u.gathered_at(i, j, k, f.at(i, j, k)), u.at(i, j, k), u.walls(i, j, k));
    };
    right_side.at(x, y, z) = restricted(left(0, 0, 0), left(1, 1, 0), left(1, 0, 1), left(0, 1, 1));
  });
  serial_cycle(correction, right_side);
  u.for_cells([&](int x, int y, int z) {
    u.at(x, y, z) += prolonged(correction.cube, x, y, z, [&](int i, int j, int k) { return correction.at(i, j, k); });
  });
  twice();
}

/// Problem -Δu = f with the solution u = p(x) p(y) p(z), which is zero on the walls. The degree of p is four, because
/// the seven-point stencil is exact for lower degrees.
struct Problem {
  std::size_t n;
  double centre(std::size_t i) const { return (static_cast<double>(i) + 0.5) / static_cast<double>(n); }
  static double p(double t) { return t * (1 - t) * (1 + t * (1 - t)); }
  static double minus_second_derivative(double t) { return 12 * t * (1 - t); }
  std::array<double, 3> place(std::size_t i) const { return {centre(i % n), centre(i / n % n), centre(i / n / n)}; }
  double solution(std::size_t i) const {
    const auto [x, y, z] = place(i);
    return p(x) * p(y) * p(z);
  }
  /// Returns the right-hand side of cell i, times the square of a cell's side.
  double right_side(std::size_t i) const {
    const auto [x, y, z] = place(i);
    const double sum = minus_second_derivative(x) * p(y) * p(z) + p(x) * minus_second_derivative(y) * p(z) +
                       p(x) * p(y) * minus_second_derivative(z);
    return sum / static_cast<double>(n * n);
  }
};

/// Returns the largest error of prolongation for a function that is linear between coarse cells and falls to zero at a
/// wall. The numbers used here are exact in double.
double prolongation_error() {
  const Cube coarse = cube_of(4), fine = cube_of(8);
  return worst_of(512, 512, [=](std::size_t i) {
    const int at[] = {static_cast<int>(i % 8), static_cast<int>(i / 8 % 8), static_cast<int>(i / 64)};
    double right = 1;
    for (const int j : at) right *= fine.walls(j) > 0 ? 0.5 * (j == 0 ? 1 : 4) : 0.25 + 0.5 * (j + 1);
    return std::abs(right - prolonged(coarse, at[0], at[1], at[2],
                                      [](int x, int y, int z) { return (x + 1.0) * (y + 1.0) * (z + 1.0); }));
  });
}

/// Returns the sum of squared residuals over all cells; value(i) returns element i of u, whose rows are `pitch`
/// elements apart.
template <class Value>
double squared_residuals(const Problem& problem, std::size_t pitch, const Value& value) {
  const auto n = static_cast<int>(problem.n);
  const Cube cube{n, static_cast<std::int64_t>(pitch)};
  const Cube dense{n, n};
  return sums_of<double, 1>(problem.n * problem.n, 256, [&](std::size_t row, auto& sums) {
    const int y = static_cast<int>(row) % n, z = static_cast<int>(row) / n;
    for (int x = 0; x < n; ++x) {
      const auto at = [&](int i, int j, int k) {
        return cube.has(i) && cube.has(j) && cube.has(k) ? value(static_cast<std::size_t>(cube.at(i, j, k))) : 0.0;
      };
      const double f = problem.right_side(static_cast<std::size_t>(dense.at(x, y, z)));
      const double sum = gathered(at(x - 1, y, z), at(x, y - 1, z), at(x, y, z - 1), at(x + 1, y, z), at(x, y + 1, z),
                                  at(x, y, z + 1), f);
      const double left = residual(sum, at(x, y, z), cube.walls(x) + cube.walls(y) + cube.walls(z));
      sums[0] += left * left;
    }
  })[0];
}

/// Returns the cubes of all levels, finest first.
std::vector<Cube> levels_of(std::size_t n) {
  std::vector<Cube> levels;
  for (; n >= coarsest; n /= 2) levels.push_back(cube_of(n));
  return levels;
}

void multigrid(Case& c) {
  const std::size_t n = c.extent("n"), cycles = c.extent("cycles");
  std::size_t coarse = n;
  while (coarse > coarsest && coarse % 2 == 0) coarse /= 2;
  refuse_if(n < 2 * coarsest || coarse != coarsest, "levels end at 4 cells a side: choose 8, 16, 32 and so on");
  refuse_if(n > 65535, "a grid has at most 65535 blocks along a side: choose fewer cells");
  const Problem problem{n};
  const std::vector<Cube> levels = levels_of(n);
  // Offset of each level in the buffers that contain all levels except the finest.
  std::vector<std::size_t> begins{0, 0};
  for (std::size_t l = 1; l < levels.size(); ++l) begins.push_back(begins.back() + levels[l].size());

  auto u = c.inout_matrix<double>("u", n * n, n, [](std::size_t) { return 0.0; });
  auto f = c.input_matrix<double>("f", n * n, n, [=](std::size_t i) { return problem.right_side(i); });
  auto other = c.scratch<double>("other", u.size());
  auto corrections = c.scratch<double>("corrections of coarser levels", begins.back());
  auto right_sides = c.scratch<double>("right-hand sides of coarser levels", begins.back());

  if (n <= 32) {
    c.verify_all(u, [=](std::span<double> expected) {
      std::vector<double> right_side(expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) right_side[i] = problem.right_side(i), expected[i] = 0;
      for (std::size_t i = 0; i < cycles; ++i) serial_cycle(Field(n, expected), Field(n, right_side));
    });
  }
  // The first cycle reduces the residual to about a seventh, each later one to a tenth, until only rounding is left.
  c.verify(
      "each cycle leaves at most an eighth of the residual, the first a sixth",
      [=] {
        const double before = squared_residuals(problem, u.pitch(), [](std::size_t) { return 0.0; });
        const double after = squared_residuals(problem, u.pitch(), [&](std::size_t i) { return u.host()[i]; });
        return std::sqrt(after / before) * 6 *
               std::pow(8.0, static_cast<double>(std::min<std::size_t>(cycles, 10) - 1));
      },
      1);
  // For n = 8 to 1024, the error times n² is within 4% of its limit, so convergence is of second order.
  if (cycles >= 10) {
    c.verify(
        "the error over the square of a cell's side",
        [=] {
          const double error = worst_of(n * n, 256, [&](std::size_t row) {
            double worst = 0;
            for (std::size_t x = 0; x < n; ++x) {
              const double right = problem.solution(row * n + x);
              worst = workload::worst(worst, std::abs(u.host()[row * u.pitch() + x] - right));
            }
            return worst;
          });
          return std::abs(error * static_cast<double>(n * n) / 0.02345 - 1);
        },
        0.05);
  }
  c.verify("a cell's equation", [seed = c.seed()] { return equation_error(seed); }, 8 * 0x1p-53);
  c.verify("what a coarse level gives to a finer one", [] { return prolongation_error(); }, 0);
  c.verify_same(u);
  c.repeats(cycles);

  c.measure(Control::queued, [=, device = c.device()](Run& run) {
    const auto of_level = [&](const Buffer<double>& finest, const Buffer<double>& coarser, std::size_t l) {
      return l == 0 ? finest.device() : coarser.device() + begins[l];
    };
    const auto traffic = [&](const Cube& cube, double read, double written, double flops) {
      return Traffic{.bytes_read = 8 * read * cube.cells(),
                     .bytes_written = 8 * written * cube.cells(),
                     .flops = flops * cube.cells()};
    };
    const auto sweep = [&](std::size_t l, const auto& start, double read, double flops, double* to) {
      using Start = std::decay_t<decltype(start)>;
      red_black::queue(run, device, device::Kernel{"red_black_sweep", red_black::sweep<Start>},
                       traffic(levels[l], read, 1, flops), levels[l], start, of_level(f, right_sides, l), to);
    };
    const std::size_t last = levels.size() - 1;
    for (std::size_t l = 0; l < last; ++l) {
      double* here = of_level(u, corrections, l);
      if (l == 0) {
        sweep(l, red_black::Given{here}, 2, 7, other.device());
      } else {
        sweep(l, Zero{}, 1, 7, other.device());
      }
      sweep(l, red_black::Given{other.device()}, 2, 7, here);
      const auto side = static_cast<unsigned>(levels[l + 1].n);
      run.launch(ISTHMUS_KERNEL(restrict_residual),
                 {.grid = {(side + 31) / 32, (side + 7) / 8, side}, .block = {32, 8}},
                 traffic(levels[l], 2, 0.125, 4.5), levels[l], levels[l + 1], here, of_level(f, right_sides, l),
                 right_sides.device() + begins[l + 1]);
    }
    run.launch(ISTHMUS_KERNEL(solve_coarsest), {.block = {coarsest, coarsest, coarsest}},
               traffic(levels[last], 1, 1, 7 * coarsest_sweeps), levels[last], right_sides.device() + begins[last],
               corrections.device() + begins[last]);
    for (std::size_t l = last; l-- > 0;) {
      double* here = of_level(u, corrections, l);
      sweep(l, Corrected{here, corrections.device() + begins[l + 1], levels[l + 1]}, 2.125, 18, other.device());
      sweep(l, red_black::Given{other.device()}, 2, 7, here);
    }
  });
}

}  // namespace

Workload multigrid_program(const std::string& name) {
  return Workload(name, multigrid)
      .version(1)
      .summary("V(2,2)-cycles of geometric multigrid for Poisson's equation in fp64, red-black, down to 4³ cells")
      .source("uvm-batches-taco2024, Table 2 (HPGMG)")
      .tags({"app", "uvm-batches"})
      .placements(memory::all_placements())
      .stagings({Staging::none})
      .axis(number_axis("n", "cells per side of the cube: 8, 16, 32 and so on", 64))
      .axis(number_axis("cycles", "V-cycles, one repeat each", 10))
      .axis(submission_axis())
      .sizes({"n"}, {16, 64, 128, 256, 512, 1024});
}
const Registration registration = multigrid_program("apps/multigrid");

}  // namespace isthmus::apps
