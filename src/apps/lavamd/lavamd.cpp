// Particles in the boxes of a cube: the potential and the force on each particle from all particles in its box and in
// the adjacent boxes.

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "apps/checks.hpp"
#include "apps/modes.hpp"
#include "memory/parallel.hpp"
#include "workload/workload.hpp"
#include "workload/worst.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;

constexpr double alpha = 0.5, decay = 2 * alpha * alpha;   // a pair's weight is exp(-decay · distance)
constexpr double decay_of_2 = decay * 1.4426950408889634;  // exp(-decay · d) = exp2(-decay_of_2 · d)
constexpr unsigned threads = 128, own = 4;                 // threads per block, which has one box; particles per thread
constexpr unsigned most = 110;                             // particles per box
constexpr unsigned ring = 2;
constexpr unsigned largest = 1290;  // boxes per direction: a grid has at most 2^31 - 1 blocks

struct Space {
  unsigned boxes;  // boxes per direction
  unsigned particles;
};

/// Boxes inside the cube that are adjacent to a box, including the box itself.
struct Neighbours {
  unsigned boxes, first[3], count[3];

  __host__ __device__ Neighbours(const Space& space, std::size_t box) : boxes(space.boxes) {
    for (unsigned d = 0; d < 3; ++d, box /= boxes) {
      const auto at = static_cast<unsigned>(box % boxes);
      first[d] = at > 0 ? at - 1 : 0;
      count[d] = (at + 1 < boxes ? at + 2 : boxes) - first[d];
    }
  }
  __host__ __device__ unsigned size() const { return count[0] * count[1] * count[2]; }
  __host__ __device__ std::size_t box(unsigned number) const {
    const unsigned x = first[0] + number % count[0], y = first[1] + number / count[0] % count[1];
    const std::size_t z = first[2] + number / (count[0] * count[1]);
    return (z * boxes + y) * boxes + x;
  }
};

/// Returns 2^y for |y| < 1022. The whole number nearest to y becomes the exponent; a minimax polynomial on [-1/2, 1/2]
/// computes the power of the difference. The relative error is 2.2e-16.
__device__ inline double power_of_2(double y) {
  constexpr double whole = 0x1.8p52;
  const double shifted = y + whole, f = y - (shifted - whole);
  double p = fma(0x1.e3991cb9beddap-28, f, 0x1.b6740fa6a1738p-24);
  p = fma(p, f, 0x1.62c157efb1e68p-20);
  p = fma(p, f, 0x1.ffcb55e84feccp-17);
  p = fma(p, f, 0x1.4309126055b94p-13);
  p = fma(p, f, 0x1.5d87fe9cc5ca4p-10);
  p = fma(p, f, 0x1.3b2ab6fbde0fcp-7);
  p = fma(p, f, 0x1.c6b08d703d48ap-5);
  p = fma(p, f, 0x1.ebfbdff82c3b9p-3);
  p = fma(p, f, 0x1.62e42fefa3a17p-1);
  p = fma(p, f, 1.0);
  const auto bits = static_cast<unsigned long long>(__double_as_longlong(p));
  const auto exponent = static_cast<unsigned long long>(__double_as_longlong(shifted)) << 52;
  return __longlong_as_double(static_cast<long long>(bits + exponent));
}

// for (i in the box)
//   for (b in the boxes around it)
//     for (j in b) {
//       w = q[j] * exp(-decay * (v[i] + v[j] - x[i]·x[j]))
//       potential[i] += w, force[i] += 2 * w * (x[i] - x[j])
//     }
//
// Each group of threads has all particles of the box, `own` per thread; the surrounding particles are divided among the
// groups. The force is computed as 2 (x[i] Σ w - Σ w x[j]).
struct Share {
  const double* home;  // v, x, y, z of each particle of the box
  unsigned particles, lanes, groups, next;
  double v[own], x[own], y[own], z[own];  // multiplied by `decay_of_2`, v by its negative
  double sum[own], sum_x[own], sum_y[own], sum_z[own];

  __device__ Share(const Space& space, const double* home_)
      : home(home_), particles(space.particles), lanes((particles + own - 1) / own), groups(threads / lanes) {
    next = threadIdx.x < lanes * groups ? threadIdx.x / lanes : particles;
#pragma unroll
    for (unsigned k = 0; k < own; ++k) {
      const unsigned i = threadIdx.x % lanes + k * lanes;
      const double* mine = home + 4 * (i < particles ? i : 0);
      v[k] = -decay_of_2 * mine[0];
      x[k] = decay_of_2 * mine[1];
      y[k] = decay_of_2 * mine[2];
      z[k] = decay_of_2 * mine[3];
      sum[k] = sum_x[k] = sum_y[k] = sum_z[k] = 0;
    }
  }

  /// Adds the particles of one adjacent box.
  __device__ void add(const double* positions, const double* charges) {
    for (unsigned j = next; j < particles; j += groups) {
      const double2 vx = reinterpret_cast<const double2*>(positions)[2 * j];
      const double2 yz = reinterpret_cast<const double2*>(positions)[2 * j + 1];
      const double charge = charges[j];
#pragma unroll
      for (unsigned k = 0; k < own; ++k) {
        const double near = fma(-decay_of_2, vx.x, v[k]);
        const double power = power_of_2(fma(x[k], vx.y, fma(y[k], yz.x, fma(z[k], yz.y, near)))), w = charge * power;
        sum[k] = fma(charge, power, sum[k]);
        sum_x[k] = fma(w, vx.y, sum_x[k]);
        sum_y[k] = fma(w, yz.x, sum_y[k]);
        sum_z[k] = fma(w, yz.y, sum_z[k]);
      }
    }
  }

  /// Adds up the groups' sums and writes the potential and the force of each particle.
  __device__ void finish(double* out) const {
    __shared__ double parts[threads][4];
    const unsigned i = threadIdx.x / 4, component = threadIdx.x % 4;
#pragma unroll
    for (unsigned k = 0; k < own; ++k) {
      __syncthreads();
      double* mine = parts[threadIdx.x];
      mine[0] = sum[k];
      mine[1] = sum_x[k];
      mine[2] = sum_y[k];
      mine[3] = sum_z[k];
      __syncthreads();
      const unsigned particle = i + k * lanes;
      if (i >= lanes || particle >= particles) continue;
      double weights = 0, along = 0;
      for (unsigned group = 0; group < groups; ++group) {
        weights += parts[group * lanes + i][0];
        along += parts[group * lanes + i][component];
      }
      const double force = 2 * fma(home[4 * particle + component], weights, -along);
      out[4 * particle + component] = component == 0 ? weights : force;
    }
  }
};

__global__ void __launch_bounds__(threads, 4)
    lavamd_plain(Space space, std::size_t first, const double* __restrict__ positions,
                 const double* __restrict__ charges, double* __restrict__ out) {
  const std::size_t box = first + blockIdx.x, particles = space.particles;
  const Neighbours around(space, box);
  Share share(space, positions + box * particles * 4);
  for (unsigned number = 0; number < around.size(); ++number) {
    const std::size_t at = around.box(number) * particles;
    share.add(positions + 4 * at, charges + at);
  }
  share.finish(out + box * particles * 4);
}

/// Returns the number of doubles that a box needs in shared memory, rounded up to a multiple of 16 bytes.
__host__ __device__ inline unsigned tile_doubles(const Space& space) {
  return (5 * space.particles + 1) / 2 * 2;
}

// Does the same as lavamd_plain, with the adjacent boxes copied into shared memory one after the other.
template <TileStaging staging, unsigned depth>
__global__ void __launch_bounds__(threads, 4) lavamd_staged(Space space, std::size_t first, const double* positions,
                                                            const double* charges, double* __restrict__ out) {
  __shared__ BulkBarrier arrived[device::pipeline_barriers<staging, depth>];
  double* tiles = device::dynamic_shared<double>();
  const std::size_t box = first + blockIdx.x;
  const unsigned particles = space.particles;
  const Neighbours around(space, box);
  Share share(space, positions + box * particles * 4);
  device::TilePipeline<staging, depth, threads> pipeline(arrived);
  pipeline.run(
      around.size(),
      [&](auto& copier, unsigned stage, std::uint64_t number) {
        const std::size_t at = around.box(static_cast<unsigned>(number)) * particles;
        double* to = tiles + stage * tile_doubles(space);
        copier.run(to, positions + 4 * at, 4 * particles);
        // With an odd number of particles, a box's charges may begin at an odd multiple of 8 bytes.
        copier.gather(to + 4 * particles, particles, [&](unsigned j) { return charges + at + j; });
      },
      [&](unsigned stage, std::uint64_t) {
        const double* tile = tiles + stage * tile_doubles(space);
        share.add(tile, tile + 4 * particles);
      });
  share.finish(out + box * particles * 4);
}

/// Input: v, x, y and z of each particle and its charge, in tenths from 0.1 to 1 like the original program's.
struct Particles {
  std::uint64_t seed;
  double tenth(std::uint64_t stream, std::size_t i) const {
    return static_cast<double>(((hash(seed, stream, i) >> 32) * 10 >> 32) + 1) / 10;
  }
  double position(std::size_t i) const { return tenth(0, i); }
  double charge(std::size_t i) const { return tenth(1, i); }
};

/// Returns the potentials and forces of a box, computed by the original program's formulas.
std::vector<double> expected_of(const Particles& values, const Space& space, std::size_t box) {
  const std::size_t n = space.particles;
  std::vector<double> out(4 * n), home(4 * n), other(4 * n), charge(n);
  const auto read = [&](std::vector<double>& to, std::size_t from) {
    for (std::size_t i = 0; i < 4 * n; ++i) to[i] = values.position(from * n * 4 + i);
  };
  read(home, box);
  const Neighbours around(space, box);
  for (unsigned number = 0; number < around.size(); ++number) {
    read(other, around.box(number));
    for (std::size_t j = 0; j < n; ++j) charge[j] = values.charge(around.box(number) * n + j);
    for (std::size_t i = 0; i < n; ++i) {
      const double* a = &home[4 * i];
      for (std::size_t j = 0; j < n; ++j) {
        const double* b = &other[4 * j];
        const double distance = a[0] + b[0] - (a[1] * b[1] + a[2] * b[2] + a[3] * b[3]);
        const double weight = std::exp(-2 * 0.5 * 0.5 * distance);
        out[4 * i] += charge[j] * weight;
        for (std::size_t d = 1; d < 4; ++d) out[4 * i + d] += charge[j] * (2 * weight * (a[d] - b[d]));
      }
    }
  }
  return out;
}

/// Returns the largest error in 500 boxes: the first, the last, and random others.
double sampled_error(const Particles& values, const Space& space, std::size_t boxes, const double* actual) {
  return worst_of(std::min<std::size_t>(boxes, 500), 4, [&](std::size_t k) {
    const std::size_t end = k % 2 == 0 ? 0 : boxes - 1;
    const std::size_t box = boxes <= 500 ? k : k < 2 ? end : hash(values.seed, 2, k) % boxes;
    const auto expected = expected_of(values, space, box);
    double error = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
      error = worst(error, std::abs(actual[box * expected.size() + i] - expected[i]));
    return error;
  });
}

/// Returns the sum of charges times forces over all particles, relative to the sum of charges times potentials. Two
/// particles exert equal and opposite forces on each other, so the result should be zero.
double unbalanced(const Particles& values, std::size_t particles, const double* actual) {
  const auto sums = sums_of<double, 4>(particles, 1 << 14, [&](std::size_t i, auto& part) {
    const double charge = values.charge(i);
    for (std::size_t d = 0; d < 4; ++d) part[d] += charge * actual[4 * i + d];
  });
  double error = 0;
  for (std::size_t d = 1; d < 4; ++d) error = worst(error, std::abs(sums[d]) / sums[0]);
  return error;
}

void lavamd(Case& c) {
  const std::size_t side = c.extent("boxes"), each = c.extent("particles");
  refuse_if(each > most, "a box has at most 110 particles, like the original's block: choose 110 or fewer");
  refuse_if(side > largest,
            "a grid has at most 2^31 - 1 blocks, one per box: choose at most 1290 boxes in each direction");
  const Particles values{c.seed()};
  const Space space{static_cast<unsigned>(side), static_cast<unsigned>(each)};
  const std::size_t plane = side * side, boxes = plane * side, particles = boxes * each;
  const auto split = [&](std::size_t bytes, std::size_t halo) { return memory::Split{plane * each * bytes, halo}; };
  auto positions =
      c.input<double>("positions", 4 * particles, [=](std::size_t i) { return values.position(i); }, split(32, 1));
  auto charges = c.input<double>("charges", particles, [=](std::size_t i) { return values.charge(i); }, split(8, 1));
  auto out = c.output<double>("forces", 4 * particles, split(32, 0));
  c.chunks(side);

  // Bound on rounding: 27 boxes, weights below e^1.4 = 4.1, differences below 1, and one rounding of each sum per term.
  const double parts = 27.0 * static_cast<double>(each), tolerance = 2 * 4.1 * parts * (parts + 20) * 0x1p-53;
  if (boxes <= 512) {
    c.verify_all(out,
                 [=](std::span<double> expected) {
                   memory::parallel_for(boxes, 1, [&](std::size_t first, std::size_t last) {
                     for (std::size_t box = first; box < last; ++box)
                       std::ranges::copy(expected_of(values, space, box),
                                         expected.begin() + static_cast<std::ptrdiff_t>(4 * each * box));
                   });
                 },
                 {.absolute = tolerance});
  } else {
    c.verify(
        "500 boxes by the original's formulas", [=] { return sampled_error(values, space, boxes, out.host()); },
        tolerance);
  }
  c.verify("forces sum to zero", [=] { return unbalanced(values, particles, out.host()); }, 1e-12);
  c.verify_same(out);

  const auto measure = [&](auto kernel, std::size_t shared_bytes) {
    c.measure(Control::queued, [=](Run& run) {
      const auto [first, count] = run.chunk();
      const double across = 3 * static_cast<double>(side) - 2, in = static_cast<double>(count * plane * each);
      double planes = 0;  // pairs of planes: one of the chunk, one adjacent or equal
      for (std::size_t z = first; z < first + count; ++z) planes += 1 + (z > 0 ? 1 : 0) + (z + 1 < side ? 1 : 0);
      const double pairs = planes * across * across * static_cast<double>(each * each);
      run.launch(kernel, {.grid = static_cast<unsigned>(count * plane), .block = threads, .shared_bytes = shared_bytes},
                 {.bytes_read = 40 * in, .bytes_written = 32 * in, .flops = 38 * pairs}, space, first * plane,
                 positions.device(), charges.device(), out.device());
    });
  };
  if (c.staging() == Staging::none) return measure(ISTHMUS_KERNEL(lavamd_plain), 0);
  with_staging<ring>(c, [&](auto how, auto depth) {
    if constexpr (how() != TileStaging::bulk)
      measure(Kernel{"lavamd_staged", lavamd_staged<how(), depth()>}, depth() * tile_doubles(space) * sizeof(double));
  });
}

const Registration registration =
    paper_program("apps/lavamd", lavamd, "Rodinia's lavaMD")
        .summary("potential and force on particles in boxes, from the neighbouring boxes, in fp64")
        .stagings({Staging::none, Staging::direct, Staging::async})
        .axis(number_axis("boxes", "boxes in each direction", 32))
        .axis(number_axis("particles", "particles per box", 100))
        .sizes({"boxes"}, {3, 16, 32, 48, 64, 128})
        .size("tiny", {{"particles", 20}});

}  // namespace
}  // namespace isthmus::apps
