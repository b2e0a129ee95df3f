#pragma once

// Poisson's equation on the n³ cells of a cube, with zero on its walls and a seven-point stencil: the update of a cell,
// for host and device; a serial sweep; and the kernel of a red-black sweep, which several programs use.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "apps/checks.hpp"
#include "workload/choices.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {

/// Shape of a cube of cells, stored with x varying fastest. A cell is red if the sum of its coordinates is even,
/// otherwise black.
struct Cube {
  int n;
  std::int64_t pitch;  ///< elements from one row to the next

  __host__ __device__ std::int64_t plane() const { return n * pitch; }
  __host__ __device__ std::int64_t at(int x, int y, int z) const { return (std::int64_t{z} * n + y) * pitch + x; }
  __host__ __device__ bool has(int i) const { return i >= 0 && i < n; }
  /// Returns the number of walls that a cell touches along one direction. The centre of such a cell is half a cell from
  /// the wall.
  __host__ __device__ unsigned walls(int i) const { return (i == 0 ? 1u : 0u) + (i == n - 1 ? 1u : 0u); }
  double cells() const { return std::pow(n, 3); }
  std::size_t size() const { return static_cast<std::size_t>(n * plane()); }
};
inline Cube cube_of(std::size_t n) {
  return {static_cast<int>(n), static_cast<std::int64_t>(workload::row_pitch<double>(n))};
}

// A cell beyond a wall has the value of the cell at the wall with the opposite sign. The factor of u accounts for that:
// (6 + walls) u - the neighbours inside = f, where f has been multiplied by the square of a cell's side.

/// Returns the sum of a cell's six neighbours and its right-hand side. Pass 0 for a neighbour outside the cube.
__host__ __device__ inline double gathered(double left, double front, double below, double right, double back,
                                           double above, double f) {
  return ((left + front) + below) + ((right + back) + (above + f));
}
/// Returns the value that solves a cell's equation. The fma is explicit because a compiler could otherwise fuse the
/// product with a sum that uses the value. With it, the host, every GPU and every program compute the same bits.
__host__ __device__ inline double relaxed(double gathered, unsigned walls) {
  const double share = walls == 0 ? 1.0 / 6 : walls == 1 ? 1.0 / 7 : walls == 2 ? 1.0 / 8 : 1.0 / 9;
  return fma(gathered, share, 0.0);
}

/// Returns the largest relative error of relaxed() for the equations of random cells, including cells at walls.
inline double equation_error(std::uint64_t seed) {
  return worst_of(4096, 64, [=](std::size_t i) {
    const workload::Uniform values = workload::uniform(seed, i, 1, 2);
    const Cube cube = cube_of(2 + i % 3);
    const auto coordinate = [&](std::uint64_t d) { return static_cast<int>(workload::hash(seed, d, i) % (2 + i % 3)); };
    double around[6], sum = 0, factor = 0;
    unsigned walls = 0;
    for (std::size_t side = 0; side < 6; ++side) {
      const int here = coordinate(side / 2);
      const bool inside = cube.has(here + (side % 2 == 0 ? -1 : 1));
      around[side] = inside ? double{values(side)} : 0.0;
      sum += around[side];
      factor += inside ? 1 : 2;  // the value beyond a wall is minus the cell's own
      if (side % 2 == 0) walls += cube.walls(here);
    }
    const double f = double{values(6)};
    const double u = relaxed(gathered(around[0], around[2], around[4], around[1], around[3], around[5], f), walls);
    return std::abs(factor * u - sum - f) / (sum + f);
  });
}

/// Cube of values on the host, without padding.
struct Field {
  Cube cube;
  std::span<double> values;

  Field(std::size_t n, std::span<double> values_)
      : cube{static_cast<int>(n), static_cast<std::int64_t>(n)}, values(values_) {}
  double& at(int x, int y, int z) const { return values[static_cast<std::size_t>(cube.at(x, y, z))]; }
  double or_zero(int x, int y, int z) const { return cube.has(x) && cube.has(y) && cube.has(z) ? at(x, y, z) : 0.0; }
  double gathered_at(int x, int y, int z, double f) const {
    return gathered(or_zero(x - 1, y, z), or_zero(x, y - 1, z), or_zero(x, y, z - 1), or_zero(x + 1, y, z),
                    or_zero(x, y + 1, z), or_zero(x, y, z + 1), f);
  }
  unsigned walls(int x, int y, int z) const { return cube.walls(x) + cube.walls(y) + cube.walls(z); }
  void relax(int x, int y, int z, double f) const { at(x, y, z) = relaxed(gathered_at(x, y, z, f), walls(x, y, z)); }
  /// Calls use(z) for each plane, on all of the host's processors.
  template <class Use>
  void for_planes(const Use& use) const {
    memory::parallel_for(static_cast<std::size_t>(cube.n), 8, [&](std::size_t first, std::size_t last) {
      for (std::size_t z = first; z < last; ++z) use(static_cast<int>(z));
    });
  }

  /// Calls use(x, y, z) for each cell, plane by plane.
  template <class Use>
  void for_cells(const Use& use) const {
    for_planes([&](int z) {
      for (int y = 0; y < cube.n; ++y) {
        for (int x = 0; x < cube.n; ++x) use(x, y, z);
      }
    });
  }

  /// Does one sweep: relaxes all red cells, then all black ones.
  void sweep_red_black(const Field& f) const {
    for (int black = 0; black < 2; ++black) {
      for_planes([&](int z) {
        for (int y = 0; y < cube.n; ++y) {
          for (int x = (y + z + black) % 2; x < cube.n; x += 2) relax(x, y, z, f.at(x, y, z));
        }
      });
    }
  }
};

// A block moves up through the cube, plane by plane, with `wide` × `high` cells per plane, including a rim; a thread
// has two columns and `depth` rows of these cells. Values stay in registers on the way up. Neighbours in a row come
// from adjacent lanes, and neighbours in other threads' rows come through shared memory. A row has `lanes` threads,
// whatever the warp size is; the lane at either end is the rim.
namespace red_black {

constexpr int lanes = 32, groups = 8, depth = 4, rim = 2;
constexpr int wide = 2 * lanes, high = groups * depth, columns = wide - 2 * rim, rows = high - 2 * rim;

/// Number of walls that each of a thread's eight cells in a plane touches; 8 for a cell outside the cube.
class Walls {
 public:
  __device__ Walls(const Cube& cube, int x, int y) {
    for (int r = 0; r < depth; ++r) {
      for (int c = 0; c < 2; ++c) {
        const unsigned here = cube.has(x + c) && cube.has(y + r) ? cube.walls(x + c) + cube.walls(y + r) : outside;
        of_ |= here << (4 * (2 * r + c));
      }
    }
  }
  __device__ unsigned of(int r, int c) const { return of_ >> (4 * (2 * r + c)) & 15u; }
  __device__ bool has(int r, int c) const { return of(r, c) != outside; }

 private:
  static constexpr unsigned outside = 8;
  unsigned of_ = 0;
};

/// Source of a sweep's initial values. Only black cells are read, because the result does not depend on the red ones.
struct Given {
  const double* __restrict__ field;
  __device__ double operator()(std::int64_t at, unsigned share, int, int, int) const { return (field + at)[share]; }
};

// for (z …) for (y …) for (x of red cells …)   u[z][y][x] = relaxed(gathered(neighbours, f[z][y][x]), walls);
// for (z …) for (y …) for (x of black cells …) u[z][y][x] = relaxed(gathered(neighbours, f[z][y][x]), walls);
//
// Both colours are relaxed in one pass: a plane's red cells need the black cells of the adjacent planes, and once they
// are done, the black cells of the plane below can be relaxed. The kernel reads and writes different buffers, so two
// blocks may both compute the cells of a rim.
template <class Start>
__global__ void __launch_bounds__(lanes* groups, 2)
    sweep(Cube cube, int planes, Start start, const double* __restrict__ f, double* __restrict__ to) {
  __shared__ double ends[2][2][2][groups][lanes];  // [step][black or red][first or last row]
  const int lane = static_cast<int>(threadIdx.x), group = static_cast<int>(threadIdx.y);
  // `left`, `front` and `first` are even, so row and plane determine which of a thread's two cells in a row is red.
  const int left = static_cast<int>(blockIdx.x) * columns - rim, front = static_cast<int>(blockIdx.y) * rows - rim;
  const int x = left + 2 * lane, y = front + group * depth;
  const int first = static_cast<int>(blockIdx.z) * planes, last = min(first + planes, cube.n);
  const Walls walls(cube, x, y);

  // Addresses are split into a part that is common to all threads and the offset of this thread.
  const std::int64_t corner = cube.at(left, front, 0), plane = cube.plane(), pitch = cube.pitch;
  const auto share = static_cast<unsigned>(group * depth * static_cast<int>(pitch) + 2 * lane);
  const auto at = [&](int z, int r) { return corner + z * plane + r * pitch; };

  const auto black = [&](int z, int r, int c) {
    return walls.has(r, c) && cube.has(z) ? start(at(z, r) + c, share, x + c, y + r, z) : 0.0;
  };
  const auto right_side = [&](int z, int r, int c) {
    return walls.has(r, c) && cube.has(z) ? (f + at(z, r) + c)[share] : 0.0;
  };
  // State at plane z: old black values of planes z - 1, z and z + 1, and new red values of planes z - 2 and z - 1.
  double below[depth], own[depth], above[depth], red_below[depth], red[depth], f_of_red[depth];
#pragma unroll
  for (int r = 0; r < depth; ++r) {
    const int c = (r + 1) % 2;
    below[r] = black(first - 2, r, c);
    own[r] = black(first - 1, r, 1 - c);
    above[r] = black(first, r, c);
    f_of_red[r] = right_side(first - 1, r, c);
    red_below[r] = red[r] = 0;
  }

  // Updates the red cells of plane z and the black cells of the plane below, which are in the same one of two columns.
  const auto step = [&](auto odd, int z) {
    double next[depth], next_f[depth], f_of_black[depth];
#pragma unroll
    for (int r = 0; r < depth; ++r) {
      const int c = (r + odd()) % 2;
      next[r] = black(z + 2, r, 1 - c);
      next_f[r] = right_side(z + 1, r, 1 - c);
      f_of_black[r] = right_side(z - 1, r, c);  // cached, because adjacent red cells have already loaded it
    }

    auto& end = ends[odd()];
    end[0][0][group][lane] = own[0];
    end[0][1][group][lane] = own[depth - 1];
    end[1][0][group][lane] = red[0];
    end[1][1][group][lane] = red[depth - 1];
    __syncthreads();
    const int before = max(group - 1, 0), after = min(group + 1, groups - 1);
    const auto update = [&](const double(&row)[depth], int colour, int r, int height, double under, double over,
                            double side) {
      const int c = (r + odd()) % 2;
      const double previous = r > 0 ? row[r > 0 ? r - 1 : 0] : end[colour][1][before][lane];
      const double following = r + 1 < depth ? row[r + 1 < depth ? r + 1 : r] : end[colour][0][after][lane];
      const double neighbour = c == 0 ? device::shuffle_up(device::full_warp(), row[r], 1)
                                      : device::shuffle_down(device::full_warp(), row[r], 1);
      const double sum =
          gathered(c == 0 ? neighbour : row[r], previous, under, c == 0 ? row[r] : neighbour, following, over, side);
      return walls.has(r, c) && cube.has(height) ? relaxed(sum, walls.of(r, c) + cube.walls(height)) : 0.0;
    };
    double new_red[depth];
#pragma unroll
    for (int r = 0; r < depth; ++r) new_red[r] = update(own, 0, r, z, below[r], above[r], f_of_red[r]);
#pragma unroll
    for (int r = 0; r < depth; ++r) {
      const bool low = (r + odd()) % 2 == 0;
      const double new_black = update(red, 1, r, z - 1, red_below[r], new_red[r], f_of_black[r]);
      const int row = group * depth + r;
      if (z > first && lane > 0 && lane + 1 < lanes && row >= rim && row < high - rim && walls.has(r, 0)) {
        double* here = to + at(z - 1, r) + share;
        if (walls.has(r, 1)) {
          *reinterpret_cast<double2*>(here) = low ? make_double2(new_black, red[r]) : make_double2(red[r], new_black);
        } else {
          *here = low ? new_black : red[r];
        }
      }
    }
#pragma unroll
    for (int r = 0; r < depth; ++r) {
      below[r] = own[r];
      own[r] = above[r];
      above[r] = next[r];
      red_below[r] = red[r];
      red[r] = new_red[r];
      f_of_red[r] = next_f[r];
    }
  };
  step(workload::Constant<1>{}, first - 1);
  for (int z = first; z <= last; z += 2) {
    step(workload::Constant<0>{}, z);
    if (z < last) step(workload::Constant<1>{}, z + 1);
  }
}

/// Queues a sweep of `cube` that reads its initial values from `start` and writes to `to`.
template <class Start>
void queue(workload::Run& run, const device::DeviceInfo& device,
           device::Kernel<Cube, int, Start, const double*, double*> kernel, const workload::Traffic& traffic,
           const Cube& cube, const Start& start, const double* right_side, double* to) {
  const auto parts = [](int n, int size) { return (n + size - 1) / size; };
  const int across = parts(cube.n, columns), along = parts(cube.n, rows);
  // Two waves of blocks, with two blocks per multiprocessor; each block has an even number of planes.
  const int cuts = std::max(1, 4 * device.multiprocessors / (across * along));
  const int planes = 2 * parts(parts(cube.n, cuts), 2);
  run.launch(kernel,
             {.grid = {static_cast<unsigned>(across), static_cast<unsigned>(along),
                       static_cast<unsigned>(parts(cube.n, planes))},
              .block = {lanes, groups}},
             traffic, cube, planes, start, right_side, to);
}

}  // namespace red_black
}  // namespace isthmus::apps
