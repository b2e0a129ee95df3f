// The ten records nearest to a position. One pass over the records computes distances and selects the nearest.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "apps/checks.hpp"
#include "apps/modes.hpp"
#include "apps/nearest.hpp"
#include "apps/unified.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;

constexpr unsigned nearest = 10;
constexpr unsigned threads = 256, merging = 1024;                   // threads per block, and in the merging block
constexpr unsigned in_flight = 4, piece = threads * in_flight * 2;  // two-record vectors per thread; records per block
constexpr std::size_t unit = std::size_t{1} << 16;                  // records per unit of `streamed`, in whole pieces

struct Position {
  float latitude, longitude;
};
constexpr Position target{30, 90};

/// Returns the squared distance to the target. The explicit fma makes the host and every GPU compute the same bits.
__host__ __device__ inline float apart(float latitude, float longitude) {
  const float north = latitude - target.latitude, east = longitude - target.longitude;
  return fmaf(north, north, east * east);
}

/// Sorted list of the nearest records that a warp has read so far, one per lane. Records after the tenth are never
/// used.
class Best {
 public:
  __device__ float limit() const { return distance_of(last_); }
  /// Adds one key per lane.
  __device__ void add(Key key) {
    for (device::LaneMask left = device::ballot(device::full_warp(), key < last_); left != 0; left &= left - 1)
      mine_ = inserted(mine_, device::shuffle(device::full_warp(), key, __ffsll(static_cast<long long>(left)) - 1));
    last_ = device::shuffle(device::full_warp(), mine_, static_cast<int>(nearest) - 1);
  }
  /// Adds this warp's share of sorted lists. Each lane reads one list; all lanes advance through their lists together.
  __device__ void add_lists(const Key* lists, unsigned count, unsigned warp, unsigned warps) {
    const auto lanes = static_cast<unsigned>(device::warp_size());
    for (unsigned first = warp * lanes; first < count; first += warps * lanes) {
      const unsigned list = first + static_cast<unsigned>(device::lane());
      for (unsigned place = 0; place < nearest; ++place) {
        const Key key = list < count ? lists[std::size_t{list} * nearest + place] : none;
        if (!device::any(device::full_warp(), key < last_)) break;
        add(key);
      }
    }
  }
  /// Merges the block's lists into the first warp. All threads of the block must call it.
  template <unsigned size>
  __device__ void join() {
    __shared__ Key lists[size / 32 * nearest];
    const auto warp = static_cast<unsigned>(device::warp_in_block());
    write(lists + warp * nearest);
    __syncthreads();
    if (warp == 0) add_lists(lists + nearest, size / static_cast<unsigned>(device::warp_size()) - 1, 0, 1);
  }
  __device__ void write(Key* to) const {
    if (device::lane() < static_cast<int>(nearest)) to[device::lane()] = mine_;
  }

 private:
  Key mine_ = none, last_ = none;
};

// for (i = 0; i < n; ++i) distance[i] = apart(records[i]);
// lists[block] = the ten smallest of (distance[i], first + i)
//
// Distances are not stored, because a record farther than the tenth of its warp is never needed, and few are nearer.
__global__ void __launch_bounds__(threads)
    nn_select(std::size_t n, std::size_t first, const Position* __restrict__ records, Key* lists) {
  Best best;
  for (std::size_t begin = std::size_t{blockIdx.x} * piece; begin < n; begin += std::size_t{gridDim.x} * piece) {
    float distance[in_flight][2];
    const auto index = [&](unsigned j) { return begin + (std::size_t{j} * threads + threadIdx.x) * 2; };
    if (begin + piece <= n) {
      float4 two[in_flight];
#pragma unroll
      for (unsigned j = 0; j < in_flight; ++j) two[j] = *reinterpret_cast<const float4*>(records + index(j));
#pragma unroll
      for (unsigned j = 0; j < in_flight; ++j)
        distance[j][0] = apart(two[j].x, two[j].y), distance[j][1] = apart(two[j].z, two[j].w);
    } else {
#pragma unroll
      for (unsigned j = 0; j < in_flight; ++j) {
#pragma unroll
        for (unsigned k = 0; k < 2; ++k) {
          const std::size_t i = index(j) + k;
          distance[j][k] =
              i < n ? apart(records[i].latitude, records[i].longitude) : std::numeric_limits<float>::infinity();
        }
      }
    }
    float least = distance[0][0];
#pragma unroll
    for (unsigned j = 0; j < in_flight; ++j) least = fminf(least, fminf(distance[j][0], distance[j][1]));
    if (!device::any(device::full_warp(), least <= best.limit())) continue;
#pragma unroll
    for (unsigned j = 0; j < in_flight; ++j) {
#pragma unroll
      for (unsigned k = 0; k < 2; ++k)
        best.add(distance[j][k] <= best.limit() ? key_of(distance[j][k], first + index(j) + k) : none);
    }
  }
  best.join<threads>();
  if (device::warp_in_block() == 0) best.write(lists + std::size_t{blockIdx.x} * nearest);
}

/// Distances and indices of the records nearest to the target.
struct Result {
  float* distance;
  unsigned* index;

  __device__ void write(unsigned place, Key key) const {
    distance[place] = sqrtf(distance_of(key));
    index[place] = static_cast<unsigned>(key);
  }
};

// Merges all lists, including the result of earlier chunks.
__global__ void __launch_bounds__(merging)
    nn_merge(const Key* lists, unsigned count, bool earlier, Key* all, Result result) {
  Best best;
  best.add_lists(lists, count, static_cast<unsigned>(device::warp_in_block()),
                 merging / static_cast<unsigned>(device::warp_size()));
  best.join<merging>();
  if (device::warp_in_block() != 0) return;
  if (earlier) best.add_lists(all, 1, 0, 1);
  device::sync_warp(device::full_warp());
  best.write(all);
  device::sync_warp(device::full_warp());
  if (threadIdx.x < nearest) result.write(threadIdx.x, all[threadIdx.x]);
}

// Stores all distances, among which the host selects, as in the original program.
__global__ void __launch_bounds__(threads)
    nn_distances(std::size_t n, const Position* __restrict__ records, float* __restrict__ distance) {
  const std::size_t i = std::size_t{blockIdx.x} * threads + threadIdx.x;
  if (i < n) distance[i] = apart(records[i].latitude, records[i].longitude);
}
struct Keys {
  Key of[nearest];
};
__global__ void nn_write(Keys keys, Result result) {
  if (threadIdx.x < nearest) result.write(threadIdx.x, keys.of[threadIdx.x]);
}

/// Returns the ten smallest of key(0) … key(n - 1), sorted.
template <class KeyOf>
Keys least_of(std::size_t n, const KeyOf& key) {
  struct Least {
    std::vector<Key> keys = std::vector<Key>(nearest, none);
    void add(Key candidate) {
      if (candidate >= keys.back()) return;
      keys.insert(std::ranges::upper_bound(keys, candidate), candidate);
      keys.pop_back();
    }
  } all;
  for_parts<Least>(
      n, 1 << 16, [&](std::size_t i, Least& part) { part.add(key(i)); },
      [&](const Least& part) {
        for (const Key each : part.keys) all.add(each);
      });
  Keys keys{};
  std::ranges::copy(all.keys, keys.of);
  return keys;
}

/// Hurricane records like those that the original program's generator writes.
struct Records {
  Uniform latitude, longitude;
  Position operator()(std::size_t i) const { return {latitude(i), longitude(i)}; }
};

/// Returns a reader of the original program's files, joined into one. In each line, latitude and longitude begin at
/// fixed columns.
std::function<void(std::span<Position>)> open_records(const InputFile& file, std::size_t records) {
  constexpr std::size_t latitude = 28, longitude = 33, wide = 5;
  return
      [text = TextNumbers(file, "use a file with one Rodinia record per line, and set records to the number of lines"),
       left = records](std::span<Position> row) mutable {
        for (Position& record : row) {
          const auto line = text.line();
          if (line.size() < longitude + wide) text.fail("the line is too short for a record");
          const auto field = [&](std::size_t from) { return text.number_of(line.substr(from, wide), -1e4f, 1e4f); };
          record = {field(latitude), field(longitude)};
        }
        if ((left -= row.size()) == 0) text.end();
      };
}

void nn(Case& c) {
  const std::size_t n = c.extent("records");
  refuse_if(n < nearest, "the ten nearest are searched: choose at least 10 records");
  refuse_if(n > std::size_t{1} << 32, "a record's number has 32 bits: choose at most 2^32 records");
  const bool on_host = c.choice("loop") == "host";
  Values<Position, Records> values(Records{uniform(c.seed(), 0, 7, 70), uniform(c.seed(), 1, 0, 358)});
  const UserFile<Position> file(c, n, [n](const InputFile& from) { return open_records(from, n); });
  values.take(file);
  auto records = c.input<Position>("records", n, values, {.unit_bytes = unit * sizeof(Position), .halo = 0});
  file.fills(c, records);
  auto distance = c.output<float>("distance", nearest);
  auto index = c.output<unsigned>("index", nearest);
  const std::size_t wave = 8 * static_cast<std::size_t>(c.device().multiprocessors);
  auto lists = c.scratch<Key>("nearest of each block", wave * nearest);
  auto all = c.scratch<Key>("nearest so far", nearest);
  auto distances = c.scratch<float>("all distances", on_host ? n : 1);
  c.chunks((n + unit - 1) / unit);
  c.verify_all(index, [=](std::span<unsigned> expected) {
    const Keys right = least_of(n, [&](std::size_t i) {
      const Position at = values(i);
      return key_of(apart(at.latitude, at.longitude), i);
    });
    for (std::size_t k = 0; k < nearest; ++k) expected[k] = static_cast<unsigned>(right.of[k]);
  });
  c.verify(distance,
           [=](std::size_t k) {
             const Position at = values(index.host()[k]);
             return std::hypot(double{at.latitude} - target.latitude, double{at.longitude} - target.longitude);
           },
           {.relative = 0x1p-22});  // five roundings of 2^-24; the root halves four of them
  c.verify_same(distance);
  c.verify_same(index);

  c.measure(on_host ? Control::waits : Control::queued, [=](Run& run) {
    const Result result{distance.device(), index.device()};
    const std::size_t first = run.chunk().first * unit, here = std::min(run.chunk().count * unit, n - first);
    const auto count = static_cast<double>(here);
    const Traffic once{.bytes_read = count * sizeof(Position), .flops = 5 * count};
    if (on_host) {
      run.launch(ISTHMUS_KERNEL(nn_distances),
                 {.grid = static_cast<unsigned>((n + threads - 1) / threads), .block = threads},
                 Traffic{once.bytes_read, 4 * count, once.flops}, n, records.device(), distances.device());
      const auto found = run.read(distances, 0, n);
      const auto keys = least_of(found.size(), [&](std::size_t i) { return key_of(found[i], i); });
      return run.launch(ISTHMUS_KERNEL(nn_write), {.block = 32}, {}, keys, result);
    }
    const auto blocks = static_cast<unsigned>(std::min((here + piece - 1) / piece, wave));
    run.launch(ISTHMUS_KERNEL(nn_select), {.grid = blocks, .block = threads}, once, here, first,
               records.device() + first, lists.device());
    run.launch(ISTHMUS_KERNEL(nn_merge), {.block = merging}, {.bytes_read = 8.0 * nearest * blocks}, lists.device(),
               blocks, first > 0, all.device(), result);
  });
}

const Registration registration =
    with_data(Workload("apps/nn", nn)
                  .version(1)
                  .summary("the ten records nearest to a position, selected in the same pass")
                  .source("mi300a-upm-2025, Table II (Rodinia's nn)")
                  .tags({"app", "mi300a"})
                  .placements(memory::all_placements())
                  .stagings({Staging::none})
                  .axis(number_axis("records", "positions to search", 1 << 24))
                  .axis(loop_axis("where the nearest are selected"))
                  .preset(unified_preset({{"loop", "host"}}))
                  .sizes({"records"}, {1 << 16, 1 << 20, 1 << 24, 1 << 26, 1 << 28, 1 << 29}),
              "ISTHMUS_NN", "a text file of records, one per line (Rodinia's cane4_*.db, concatenated)");

}  // namespace
}  // namespace isthmus::apps
