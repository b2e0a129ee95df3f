// Gauss-Seidel relaxation of Poisson's equation: red-black with both colours in one pass, or in natural order by tiles,
// one wavefront of tiles after the other.

#include <vector>

#include "apps/poisson.hpp"
#include "apps/watched.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;

// Size of a tile in natural order. A thread relaxes one row of the tile; the cells before the tile are stored with it.
constexpr int side = 16, stride = side + 2;  // a row, the previous row and the previous plane begin in different banks

// for (z = 0; z < n; ++z)
//   for (y = 0; y < n; ++y)
//     for (x = 0; x < n; ++x) u[z][y][x] = relaxed(gathered(neighbours, f[z][y][x]), walls);
//
// The kernel relaxes the tiles whose x, y and z numbers add up to `wave`. No two of them are adjacent; the tiles before
// them have been relaxed by earlier waves, and the tiles after them have not. Within a tile, the cells of a wavefront
// are likewise relaxed at once. The values after a cell are known when the tile is read, so the cell's element contains
// their sum with f until the cell is relaxed.
__global__ void __launch_bounds__(side* side)
    natural_wave(Cube cube, int wave, const double* __restrict__ right_side, double* u) {
  __shared__ double cells[side + 1][side + 1][stride];
  const int first_x = static_cast<int>(blockIdx.x) * side, first_y = static_cast<int>(blockIdx.y) * side;
  const int first_z = (wave - static_cast<int>(blockIdx.x) - static_cast<int>(blockIdx.y)) * side;
  if (first_z < 0 || first_z >= cube.n) return;
  const auto read = [&](int x, int y, int z) {
    return cube.has(x) && cube.has(y) && cube.has(z) ? u[cube.at(x, y, z)] : 0.0;
  };
  const int a = static_cast<int>(threadIdx.x), b = static_cast<int>(threadIdx.y);
  const int x = first_x + a, y = first_y + b;
  cells[0][b + 1][a + 1] = read(x, y, first_z - 1);
  cells[b + 1][0][a + 1] = read(x, first_y - 1, first_z + b);
  cells[b + 1][a + 1][0] = read(first_x - 1, first_y + a, first_z + b);
  const bool inside = cube.has(x) && cube.has(y);
#pragma unroll 4
  for (int c = 0; c < side; ++c) {
    const int z = first_z + c;
    if (inside && z < cube.n)
      cells[c + 1][b + 1][a + 1] =
          (read(x + 1, y, z) + read(x, y + 1, z)) + (read(x, y, z + 1) + right_side[cube.at(x, y, z)]);
  }
  // Each thread now has the row at (a, b) across the tile.
  const unsigned across = cube.walls(first_y + a) + cube.walls(first_z + b);
  const bool row_inside = cube.has(first_y + a) && cube.has(first_z + b);
  for (int front = 0; front < 3 * side - 2; ++front) {
    __syncthreads();
    const int c = front - a - b;
    if (c < 0 || c >= side || !row_inside || first_x + c >= cube.n) continue;
    double& own = cells[b + 1][a + 1][c + 1];
    own = relaxed(((cells[b + 1][a + 1][c] + cells[b + 1][a][c + 1]) + cells[b][a + 1][c + 1]) + own,
                  across + cube.walls(first_x + c));
  }
  __syncthreads();
#pragma unroll 4
  for (int c = 0; c < side; ++c) {
    if (inside && first_z + c < cube.n) u[cube.at(x, y, first_z + c)] = cells[c + 1][b + 1][a + 1];
  }
}

/// Computes the result of `sweeps` sweeps serially; the sweeps are in natural order if `natural`, otherwise red-black.
void serial(bool natural, std::size_t sweeps, const Uniform& start, const Uniform& right_side, std::size_t n,
            std::span<double> result) {
  std::vector<double> right_sides(result.size());
  const Field u(n, result), f(n, right_sides);
  u.for_planes([&](int z) {
    const auto first = static_cast<std::size_t>(u.cube.at(0, 0, z));
    for (std::size_t i = first; i < first + n * n; ++i) result[i] = start(i), right_sides[i] = right_side(i);
  });
  for (std::size_t sweep = 0; sweep < sweeps; ++sweep) {
    if (!natural) {
      u.sweep_red_black(f);
      continue;
    }
    for (int z = 0; z < u.cube.n; ++z) {
      for (int y = 0; y < u.cube.n; ++y) {
        for (int x = 0; x < u.cube.n; ++x) u.relax(x, y, z, f.at(x, y, z));
      }
    }
  }
}

void gauss_seidel(Case& c) {
  const std::size_t n = c.extent("n"), sweeps = c.extent("sweeps");
  const bool natural = c.choice("order") == "natural";
  refuse_if(n < 2,
            "a single cell touches all six walls, which this kernel cannot compute: choose at least 2 cells a side");
  refuse_if(n > 65535, "a grid has at most 65535 blocks along a side: choose fewer cells");
  refuse_if(!natural && sweeps % 2 != 0, "sweeps alternate between two buffers: choose an even number");
  const Uniform start = uniform(c.seed(), 0, -1, 1), right_side = uniform(c.seed(), 1, -1, 1);
  auto u = c.inout_matrix<double>("u", n * n, n, start);
  auto f = c.input_matrix<double>("f", n * n, n, right_side);
  auto other = c.scratch<double>("other", natural ? 1 : u.size());
  c.verify_all(u, [=](std::span<double> expected) { serial(natural, sweeps, start, right_side, n, expected); });
  c.verify("a cell's equation", [seed = c.seed()] { return equation_error(seed); }, 8 * 0x1p-53);
  c.verify_same(u);
  c.repeats(sweeps);

  const Cube cube = cube_of(n);
  const double cells = cube.cells();
  c.measure(Control::queued, [=, device = c.device()](Run& run) {
    if (!natural) {
      const bool even = run.repeat() % 2 == 0;
      return red_black::queue(run, device, device::Kernel{"red_black_sweep", red_black::sweep<red_black::Given>},
                              {.bytes_read = 16 * cells, .bytes_written = 8 * cells, .flops = 7 * cells}, cube,
                              red_black::Given{even ? u.device() : other.device()}, f.device(),
                              even ? other.device() : u.device());
    }
    const int tiles = (cube.n + side - 1) / side, waves = 3 * tiles - 2;
    const auto wide = static_cast<unsigned>(tiles);
    for (int wave = 0; wave < waves; ++wave) {
      const double share = cells / waves;
      run.launch(ISTHMUS_KERNEL(natural_wave), {.grid = {wide, wide}, .block = {side, side}},
                 {.bytes_read = 16 * share, .bytes_written = 8 * share, .flops = 7 * share}, cube, wave, f.device(),
                 u.device());
    }
  });
}

}  // namespace

Workload gauss_seidel_program(const std::string& name) {
  return Workload(name, gauss_seidel)
      .version(1)
      .summary("Gauss-Seidel sweeps of Poisson's equation in fp64, both colours in one pass, or in the natural order")
      .source("uvm-batches-taco2024, Table 2")
      .tags({"app", "uvm-batches"})
      .placements(memory::all_placements())
      .stagings({Staging::none})
      .axis(number_axis("n", "cells per side of the cube", 64))
      .axis(number_axis("sweeps", "sweeps over the cube, one repeat each; must be even with order=red-black", 4))
      .axis(choice_axis("order", "order of cells: all red, then all black; or row by row", {"red-black", "natural"}))
      .axis(submission_axis())
      .sizes({"n"}, {16, 64, 128, 256, 512, 1024});
}
const Registration registration = gauss_seidel_program("apps/gauss_seidel");

}  // namespace isthmus::apps
