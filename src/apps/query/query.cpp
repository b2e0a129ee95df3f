// Sums of columns over the taxi trips that take longer than 9,000 seconds. One column, the durations, determines which
// elements of the other columns are needed.

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "apps/checks.hpp"
#include "paging/array.hpp"
#include "workload/paged.hpp"
#include "workload/workload.hpp"

namespace isthmus::apps {
namespace {

using namespace workload;
using Sum = unsigned long long;  // type of CUDA's atomics; sums of negative numbers wrap correctly

constexpr unsigned threads = 256;
constexpr unsigned in_flight = 8;                   // trips that a thread loads at once
constexpr std::size_t unit = std::size_t{1} << 16;  // trips in one unit of `streamed`
constexpr int limit = 9000;                         // seconds

// Columns that queries Q1 to Q5 sum, in hundredths of a mile and in cents.
constexpr unsigned columns = 5;
constexpr const char* column_names[columns] = {"miles", "fares", "extras", "tips", "tolls"};
constexpr unsigned extras = 2;
constexpr unsigned results = columns + 1;  // the sums, and the number of trips

/// Data of all trips. Each number is a function of the trip's index, and small enough for every type of column.
struct Trips {
  std::uint64_t seed;
  std::size_t first_long, long_trips;  // range of long trips, if clustered
  unsigned selectivity;                // long trips per 10,000, if scattered
  bool clustered;

  constexpr bool is_long(std::size_t i) const {
    return clustered ? i - first_long < long_trips : hash(seed, 0, i) % 10000 < selectivity;
  }
  /// Returns a trip's duration. Durations of exactly the limit and of one second more both occur.
  constexpr int seconds(std::size_t i) const {
    const auto some = static_cast<int>(hash(seed, 1, i) % (limit + 600));
    return is_long(i) ? limit + 1 + some % 256 : some < limit ? some : limit;
  }
  constexpr int value(unsigned column, std::size_t i) const {
    return static_cast<int>(hash(seed, 2 + column, i) % 10001) - (column == extras ? 10000 : 0);
  }
};

__device__ inline void add_up(Sum part, Sum* sum) {
  for (int half = device::warp_size() / 2; half > 0; half /= 2)
    part += device::shuffle_down(device::full_warp(), part, static_cast<unsigned>(half));
  if (device::lane() == 0 && part != 0) atomicAdd(sum, part);
}

/// One lane's trips of a piece, which are interleaved with those of the other lanes.
template <class T>
struct Piece {
  T seconds[in_flight];

  __device__ Piece(const T* column, std::size_t first, std::size_t n) {
#pragma unroll
    for (unsigned j = 0; j < in_flight; ++j) seconds[j] = at(first, j) < n ? column[at(first, j)] : 0;
  }
  __device__ static std::size_t at(std::size_t first, unsigned j) {
    return first + j * static_cast<unsigned>(device::warp_size()) + static_cast<unsigned>(device::lane());
  }
  __device__ unsigned count() const {
    unsigned count = 0;
#pragma unroll
    for (unsigned j = 0; j < in_flight; ++j) count += seconds[j] > limit ? 1 : 0;
    return count;
  }
  __device__ Sum sum(const T* column, std::size_t first) const {
    T value[in_flight];
#pragma unroll
    for (unsigned j = 0; j < in_flight; ++j) value[j] = seconds[j] > limit ? column[at(first, j)] : 0;
    Sum sum = 0;
#pragma unroll
    for (unsigned j = 0; j < in_flight; ++j) sum += static_cast<Sum>(static_cast<long long>(value[j]));
    return sum;
  }
};
__device__ inline std::size_t piece() {
  return std::size_t{in_flight} * static_cast<unsigned>(device::warp_size());
}
__device__ inline std::size_t warp_in_grid() {
  return std::size_t{blockIdx.x} * (threads / static_cast<unsigned>(device::warp_size())) +
         static_cast<unsigned>(device::warp_in_block());
}
__device__ inline std::size_t warps_in_grid() {
  return std::size_t{gridDim.x} * (threads / static_cast<unsigned>(device::warp_size()));
}

template <class T, unsigned count>
struct Columns {
  const T* of[count];
};

// for (i = 0; i < n; ++i)
//   if (seconds[i] > 9000) for (++trips, c = 0; c < count; ++c) sums[c] += column[c][i];
template <class T, unsigned count>
__global__ void __launch_bounds__(threads)
    query_plain(std::size_t n, const T* __restrict__ seconds, Columns<T, count> column, Sum* sums, Sum* trips) {
  Sum sum[count] = {}, found = 0;
  for (std::size_t first = warp_in_grid() * piece(); first < n; first += warps_in_grid() * piece()) {
    const Piece<T> trip(seconds, first, n);
    found += trip.count();
#pragma unroll
    for (unsigned c = 0; c < count; ++c) sum[c] += trip.sum(column.of[c], first);
  }
  add_up(found, trips);
#pragma unroll
  for (unsigned c = 0; c < count; ++c) add_up(sum[c], sums + c);
}

/// Durations, the column that selects trips, in paged memory (FetchedSeconds) or on the device (ResidentSeconds).
template <class T>
struct FetchedSeconds {
  paging::Array<T> column;
  __device__ auto window(std::size_t first, const paging::Lanes& lanes) const { return column.window(first, lanes); }
};
template <class T>
struct ResidentSeconds {
  struct Window {
    const T* seconds;
    __device__ const T* data() const { return seconds; }
  };
  const T* column;
  __device__ Window window(std::size_t first, const paging::Lanes&) const { return {column + first}; }
};

struct PagedColumns {
  paging::Region of[columns];
  unsigned count;
};

// Does the same as query_plain with one page per warp. A page of a summed column is fetched only if it contains a
// selected trip. Columns are summed one after the other, so that a warp uses one page of them at a time, in addition to
// the page of durations.
template <class T, class Seconds>
__global__ void __launch_bounds__(threads, 2) query_paged(Seconds seconds, PagedColumns paged, Sum* sums, Sum* trips) {
  const auto lanes = paging::Lanes::full_warp();
  for (std::size_t page = warp_in_grid();; page += warps_in_grid()) {
    const paging::Array<T> any(paged.of[0]);  // all columns have the same pages
    const auto number = static_cast<std::uint32_t>(page);
    const std::size_t begin = any.first_of(number);
    if (begin >= any.size()) return;
    const std::size_t n = any.last_of(number) - begin;
    const auto window = seconds.window(begin, lanes);
#pragma unroll 1
    for (unsigned c = 0; c < paged.count; ++c) {
      const paging::Array<T> column(paged.of[c]);
      auto reader = column.reader(lanes);
      Sum sum = 0, found = 0;
      for (std::size_t first = 0; first < n; first += piece()) {
        const Piece<T> trip(window.data(), first, n);
        const unsigned wanted = trip.count();
        if (!device::any(device::full_warp(), wanted > 0)) continue;
        reader.move_to(begin);
        found += wanted;
        sum += trip.sum(reader.data(), first);
      }
      if (c == 0) add_up(found, trips);
      add_up(sum, sums + c);
    }
  }
}

/// Generates the durations on the device.
template <class T>
__global__ void __launch_bounds__(threads) query_make(std::size_t first, std::size_t n, Trips trips, T* seconds) {
  const std::size_t all = std::size_t{gridDim.x} * threads;
  for (std::size_t i = std::size_t{blockIdx.x} * threads + threadIdx.x; i < n; i += all)
    seconds[i] = static_cast<T>(trips.seconds(first + i));
}

// Copies the sums to the output buffer, so that atomics never cross a link.
__global__ void query_write(const Sum* sums, Sum* out) {
  if (threadIdx.x < results) out[threadIdx.x] = sums[threadIdx.x];
}

/// Computes the sums by their definition.
void reference(const Trips& trips, std::size_t n, unsigned first, unsigned count, std::span<Sum> out) {
  const auto sums = sums_of<Sum, results>(n, 1 << 16, [&](std::size_t i, auto& part) {
    if (trips.seconds(i) <= limit) return;
    for (unsigned c = 0; c < count; ++c) part[c] += static_cast<Sum>(static_cast<long long>(trips.value(first + c, i)));
    ++part[columns];
  });
  std::ranges::copy(sums, out.begin());
}

template <class T>
void run_of(Case& c) {
  const std::size_t n = c.extent("trips");
  const auto selectivity = static_cast<unsigned>(c.integer("selectivity"));
  refuse_if(selectivity > 10000, "selectivity counts trips per 10,000: choose at most 10000");
  refuse_if(n >> 40 != 0, "sums have 64 bits: choose fewer than 2^40 trips");
  const std::size_t together = n / 10000 * selectivity + n % 10000 * selectivity / 10000;
  const Trips trips{c.seed(), (n - together) / 2, together, selectivity, c.choice("layout") == "clustered"};
  const bool resident = c.choice("predicate") == "resident", pages = c.placement()->paged;
  const auto query = c.choice("query");
  const unsigned first_column = query == "all" ? 0 : static_cast<unsigned>(query[1] - '1'),
                 count = query == "all" ? columns : 1;

  const memory::Split split{.unit_bytes = unit * sizeof(T), .halo = 0};
  const auto fill = [=](std::size_t i) { return static_cast<T>(trips.seconds(i)); };
  auto seconds = resident ? c.scratch<T>("seconds", n) : c.input<T>("seconds", n, fill, split);
  std::vector<Buffer<T>> values;
  PagedBuffers paged_ones;
  if (!resident) paged_ones = paged(seconds);
  for (unsigned k = first_column; k < first_column + count; ++k) {
    values.push_back(
        c.input<T>(column_names[k], n, [=](std::size_t i) { return static_cast<T>(trips.value(k, i)); }, split));
    paged_ones.indices.push_back(values.back().index());
  }
  auto sums = c.scratch<Sum>("sums so far", results);
  auto out = c.output<Sum>("sums", results);
  c.chunks((n + unit - 1) / unit);
  c.verify_all(out, [=](std::span<Sum> expected) { reference(trips, n, first_column, count, expected); });
  c.verify_same(out);

  const auto info = c.device();
  const auto wave = static_cast<std::size_t>(info.multiprocessors) * 8;
  c.measure(
      Control::queued,
      [=](Run& run) {
        const std::size_t first = run.chunk().first * unit, here = std::min(run.chunk().count * unit, n - first);
        const auto all = static_cast<double>(here);
        const double some = all * selectivity / 10000, bytes = sizeof(T);
        const Traffic traffic{.bytes_read = bytes * (all + some * count)};
        const auto of_threads = [=](std::size_t each) {
          const std::size_t blocks = (here + threads * each - 1) / (threads * each);
          return device::LaunchShape{.grid = static_cast<unsigned>(std::min(blocks, wave)), .block = threads};
        };
        if (first == 0) run.fill(sums, 0);
        if (resident)
          run.launch(ISTHMUS_KERNEL(query_make<T>), of_threads(1), {.bytes_written = bytes * all}, first, here, trips,
                     seconds.device() + first);
        if (pages) {
          PagedColumns all_paged{};
          all_paged.count = count;
          for (unsigned k = 0; k < columns; ++k) all_paged.of[k] = run.paged(values[k < count ? k : 0]);
          const auto& [a, b, d, e, f] = all_paged.of;
          const auto& predicate = resident ? a : run.paged(seconds);
          const auto shape = warp_a_page(a, threads, info, {a, b, d, e, f, predicate});
          if (resident) {
            run.launch(device::Kernel{"query_paged<resident>", query_paged<T, ResidentSeconds<T>>}, shape, traffic,
                       ResidentSeconds<T>{seconds.device()}, all_paged, sums.device(), sums.device() + columns);
          } else {
            run.launch(device::Kernel{"query_paged<fetched>", query_paged<T, FetchedSeconds<T>>}, shape, traffic,
                       FetchedSeconds<T>{paging::Array<T>(predicate)}, all_paged, sums.device(),
                       sums.device() + columns);
          }
        } else if (count == 1) {
          run.launch(device::Kernel{"query_plain<1>", query_plain<T, 1>}, of_threads(in_flight), traffic, here,
                     seconds.device() + first, Columns<T, 1>{{values[0].device() + first}}, sums.device(),
                     sums.device() + columns);
        } else {
          Columns<T, columns> addresses{};
          for (unsigned k = 0; k < columns; ++k) addresses.of[k] = values[k].device() + first;
          run.launch(device::Kernel{"query_plain<5>", query_plain<T, columns>}, of_threads(in_flight), traffic, here,
                     seconds.device() + first, addresses, sums.device(), sums.device() + columns);
        }
        run.launch(ISTHMUS_KERNEL(query_write), {.block = 32}, {}, sums.device(), out.device());
      },
      paged_ones);
}

void run(Case& c) {
  c.choice("width") == "8" ? run_of<std::int64_t>(c) : run_of<std::int32_t>(c);
}

const Registration registration =
    Workload("apps/query", run)
        .version(1)
        .summary("sums of columns over the taxi trips longer than 9,000 seconds")
        .source("gpuvm-2024, section 5.5 and Figure 15, on columns of our own")
        .tags({"app", "gpuvm"})
        .placements(memory::all_placements())
        .paged()
        .stagings({Staging::none})
        .no_flops()
        .axis(number_axis("trips", "rows of the table", 1 << 22))
        .axis(choice_axis("query",
                          "column that is summed: miles, fares, extras, tips, tolls, or all of them in one pass",
                          {"Q1", "Q2", "Q3", "Q4", "Q5", "all"}))
        .axis(number_axis("selectivity", "trips longer than 9,000 seconds, per 10,000; the paper's 0.08% is 8", 8, 0))
        .axis(choice_axis("layout", "where such trips are: scattered, or all in one place", {"scattered", "clustered"}))
        .axis(how(choice_axis("width", "bytes of a column's element", {"8", "4"})))
        .axis(how(choice_axis("predicate",
                              "where the column of seconds is: transferred like the others, or generated on the device",
                              {"travels", "resident"})))
        .sizes({"trips"}, {1 << 17, 1 << 20, 1 << 22, 1 << 25, 1 << 27, 1 << 28});

}  // namespace
}  // namespace isthmus::apps
