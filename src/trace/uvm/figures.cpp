#include "trace/uvm/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace isthmus::trace::uvm {

namespace {

/// Maximum nanoseconds of a batch or a move; longer times mean that the clock jumped.
constexpr std::uint64_t kLongest = 60'000'000'000;

using Key = std::tuple<std::uint8_t, Client, std::uint32_t>;

struct OpenBatch {
  Batch batch;
  std::uint64_t begin = std::numeric_limits<std::uint64_t>::max(), last = 0;
  std::optional<std::uint64_t> replay, gpu_replay;
  std::set<std::uint64_t> pages;
  std::map<std::uint64_t, std::size_t> faults_of_block;
  std::set<std::pair<std::uint16_t, std::uint16_t>> clients;
  std::set<std::uint16_t> gpcs;
  std::vector<std::uint64_t> written;  ///< times when the GPU wrote the batch's page faults
};

/// Returns the kind of client. Drivers from before the second kind was added leave the kind in a replay at 0, which
/// means gpc.
Client kind_of(Client stated) {
  return stated == Client::hub ? Client::hub : Client::gpc;
}

Spread spread_of(const std::vector<double>& values) {
  Spread spread;
  spread.count = values.size();
  if (values.empty()) return spread;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  spread.least = *least;
  spread.most = *most;
  for (const double value : values) spread.mean += value;
  spread.mean /= static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  spread.deviation = std::sqrt(squares / static_cast<double>(values.size()));
  return spread;
}

double seconds(std::uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-9;
}

/// Returns whether a move has times; a move has none if nothing waited for its end.
bool is_timed(const Migration& move) {
  return move.gpu_begin != 0 && move.gpu_end != 0;
}

/// Returns the duration of a timed move in seconds; nullopt if it is impossible.
std::optional<double> seconds_of(const Migration& move) {
  if (move.gpu_end < move.gpu_begin || move.gpu_end - move.gpu_begin > kLongest) return std::nullopt;
  return seconds(move.gpu_end - move.gpu_begin);
}

/// Returns a quantile in seconds, interpolated between neighbouring values; `sorted` must not be empty.
double quantile(const std::vector<std::uint64_t>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const auto above = std::min(below + 1, sorted.size() - 1);
  const double part = at - static_cast<double>(below);
  return seconds(sorted[below]) * (1 - part) + seconds(sorted[above]) * part;
}

/// Returns how many nanoseconds are covered by at least one interval.
std::uint64_t covered(std::vector<std::pair<std::uint64_t, std::uint64_t>> spans) {
  std::sort(spans.begin(), spans.end());
  std::uint64_t total = 0, until = 0;
  for (const auto& [begin, end] : spans) {
    const auto from = std::max(begin, until);
    if (end <= from) continue;
    total += end - from;
    until = end;
  }
  return total;
}

/// Pages on each GPU, as far as they can be known from moves.
class EvictionReckoning {
 public:
  /// Forgets the block's copies on GPUs. When the host touches a block, copies on a GPU may become invalid without a
  /// move (read-mostly), so pages that arrive afterwards count as new.
  void touched_by_host(std::uint64_t address) {
    for (auto& [processor, gpu] : gpus_) gpu.pages.erase(address / kBlockBytes);
  }

  void moved(const Migration& move) {
    // Ignore values that no driver reports.
    if (move.bytes == 0 || move.bytes > kMostBytes || move.address >= kMostAddress) return;
    const std::uint64_t first = move.address / kPageBytes;
    const std::uint64_t end = (move.address + move.bytes - 1) / kPageBytes + 1;
    for (std::uint64_t page = first; page < end;) {
      const std::uint64_t block = page / kPagesOfBlock, until = std::min(end, (block + 1) * kPagesOfBlock);
      Pages pages;
      for (std::uint64_t each = page; each < until; ++each) pages.set(each % kPagesOfBlock);
      if (move.source > 0) left(gpus_[move.source], block, pages, move.cause == Cause::eviction);
      if (move.destination > 0) arrived(gpus_[move.destination], block, pages, move.begin);
      page = until;
    }
  }

  Evictions evictions() && {
    if (ages_ > 0) found_.age = age_sum_ / static_cast<double>(ages_);
    return found_;
  }

 private:
  static constexpr std::uint64_t kPagesOfBlock = kBlockBytes / kPageBytes;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30, kMostAddress = std::uint64_t{1} << 57;
  using Pages = std::bitset<kPagesOfBlock>;
  using Place = std::pair<std::uint64_t, std::uint64_t>;  // time when a block arrived, and the block's number
  struct Gpu {
    std::map<std::uint64_t, Pages> pages, gone;  ///< pages of each block; gone: pages that were evicted and have not
                                                 ///< come back
    std::map<std::uint64_t, std::uint64_t> arrived;
    std::vector<Place> order;
    std::set<std::uint64_t> evicted;
  };

  /// Removes a block. Returns its position in the order of arrival; nullopt if it was not on the GPU.
  static std::optional<std::size_t> leave(Gpu& gpu, std::uint64_t block) {
    const auto known = gpu.arrived.find(block);
    if (known == gpu.arrived.end()) return std::nullopt;
    const auto at = std::lower_bound(gpu.order.begin(), gpu.order.end(), Place(known->second, block));
    const auto place = static_cast<std::size_t>(at - gpu.order.begin());
    gpu.order.erase(at);
    gpu.arrived.erase(known);
    return place;
  }

  void left(Gpu& gpu, std::uint64_t block, const Pages& pages, bool evicted) {
    auto& there = gpu.pages[block];
    there &= ~pages;
    if (!evicted) {
      if (there.none()) leave(gpu, block);
      return;
    }
    gpu.gone[block] |= pages;
    const auto place = leave(gpu, block);
    if (!place) return;
    ++found_.blocks;
    gpu.evicted.insert(block);
    if (gpu.order.empty()) return;
    ++ages_;
    age_sum_ += static_cast<double>(*place) / static_cast<double>(gpu.order.size());
  }

  void arrived(Gpu& gpu, std::uint64_t block, const Pages& pages, std::uint64_t when) {
    auto& there = gpu.pages[block];
    found_.discarded_bytes += (there & pages).count() * kPageBytes;
    there |= pages;
    leave(gpu, block);
    gpu.arrived[block] = when;
    const Place place(when, block);
    gpu.order.insert(std::lower_bound(gpu.order.begin(), gpu.order.end(), place), place);
    if (const auto gone = gpu.gone.find(block); gone != gpu.gone.end()) {
      found_.returned_bytes += (gone->second & pages).count() * kPageBytes;
      gone->second &= ~pages;
    }
    if (gpu.evicted.erase(block) > 0) ++found_.returned;
  }

  std::map<std::uint8_t, Gpu> gpus_;
  Evictions found_;
  std::size_t ages_ = 0;
  double age_sum_ = 0;
};

class Reckoning {
 public:
  void operator()(const CpuFault& fault) {
    ++found_.cpu_faults;
    cpu_faults_.emplace_back(fault.time, fault.address);
    see(fault.time);
  }
  void operator()(const FatalFault& fault) {
    ++found_.fatal_faults;
    see(fault.time);
  }
  void operator()(const ReadDuplicate& event) { see(event.time); }
  void operator()(const ReadDuplicateEnd& event) { see(event.time); }
  void operator()(const Thrashing& event) {
    ++found_.thrashings;
    see(event.time);
  }
  void operator()(const RemoteMap& event) {
    ++found_.remote_maps;
    see(event.time);
  }
  void operator()(const Other&) { ++found_.others; }
  void operator()(const Throttling& event) {
    const bool begins = event.type == Type::throttling_start;
    if (begins) ++found_.throttlings;
    (begins ? throttled_[{event.processor, event.address}].first : throttled_[{event.processor, event.address}].second)
        .push_back(event.time);
    see(event.time);
  }
  void operator()(const Migration& move) {
    const auto cause = static_cast<std::size_t>(move.cause);
    found_.bytes[cause < std::size(found_.bytes) ? cause : 0] += move.bytes;
    moves_.push_back(move);
    see(move.begin);
  }
  void operator()(const GpuFault& fault) {
    auto& open = open_[{fault.gpu, kind_of(fault.client_kind), fault.batch}];
    ++found_.faults;
    ++open.batch.faults;
    pages_.push_back(fault.address / kPageBytes);
    open.pages.insert(fault.address / kPageBytes);
    ++open.faults_of_block[fault.address / kBlockBytes];
    open.clients.insert({fault.gpc, fault.client});
    open.gpcs.insert(fault.gpc);
    open.begin = std::min(open.begin, fault.time);
    open.last = std::max(open.last, fault.time);
    open.written.push_back(fault.gpu_time);
    see(fault.time);
  }
  void operator()(const Replay& replay) {
    replays_.push_back(replay);
    see(replay.time);
  }

  Figures figures() && {
    join_replays();
    join_moves();
    count_batches();
    add_moves();
    add_evictions();
    add_times();
    found_.began = first_;
    return std::move(found_);
  }

 private:
  void see(std::uint64_t time) { first_ = std::min(first_, time); }
  double since_first(std::uint64_t time) const {
    return time >= first_ ? seconds(time - first_) : -seconds(first_ - time);
  }
  void doubt(std::size_t how_many, std::size_t of, const char* what) {
    if (how_many > 0)
      found_.problems.push_back(
          fmt::format("{} of {} {}, so a clock jumped and this sample's times are left out", how_many, of, what));
  }

  void join_replays() {
    for (const auto& replay : replays_) {
      const auto found = open_.find({replay.gpu, kind_of(replay.client_kind), replay.batch});
      if (found == open_.end()) continue;
      ++found_.replays;
      auto& open = found->second;
      // A batch that is replayed in several parts ends with the last part.
      open.replay = std::max(open.replay.value_or(0), replay.time);
      open.gpu_replay = std::max(open.gpu_replay.value_or(0), replay.gpu_time);
    }
  }

  /// Assigns moves to batches. A GPU services one batch at a time; all pages that it moves in and evicts during that
  /// time are part of the batch's work.
  void join_moves() {
    std::map<std::uint8_t, std::vector<OpenBatch*>> of_gpu;
    for (auto& [key, open] : open_) of_gpu[std::get<0>(key)].push_back(&open);
    for (auto& [gpu, list] : of_gpu)
      std::stable_sort(list.begin(), list.end(), [](const auto* a, const auto* b) { return a->begin < b->begin; });
    for (const auto& move : moves_) {
      const bool evicts = move.cause == Cause::eviction;
      if (!evicts && move.cause != Cause::fault && move.cause != Cause::prefetch) continue;
      const auto found = of_gpu.find(evicts ? move.source : move.destination);
      if (found == of_gpu.end()) continue;
      const auto& list = found->second;
      const auto next = std::upper_bound(list.begin(), list.end(), move.begin,
                                         [](std::uint64_t time, const auto* open) { return time < open->begin; });
      if (next == list.begin()) continue;
      auto& open = **(next - 1);
      if (!open.replay || move.begin > *open.replay) continue;
      ++open.batch.moves;
      open.batch.bytes += move.bytes;
      if (is_timed(move)) open.batch.transfer += seconds_of(move).value_or(0);
    }
  }

  void count_batches() {
    std::sort(pages_.begin(), pages_.end());
    found_.pages = static_cast<std::size_t>(std::unique(pages_.begin(), pages_.end()) - pages_.begin());
    std::vector<double> faults, blocks, clients, gpcs, faults_of_block;
    for (auto& [key, open] : open_) {
      auto& batch = open.batch;
      std::tie(batch.gpu, batch.client_kind, batch.number) = key;
      batch.pages = open.pages.size();
      batch.blocks = open.faults_of_block.size();
      batch.clients = open.clients.size();
      batch.gpcs = open.gpcs.size();
      batch.begin = since_first(open.begin);
      batch.last = since_first(open.last);
      if (open.replay) batch.replay = since_first(*open.replay);
      faults.push_back(static_cast<double>(batch.faults));
      blocks.push_back(static_cast<double>(batch.blocks));
      clients.push_back(static_cast<double>(batch.clients));
      gpcs.push_back(static_cast<double>(batch.gpcs));
      for (const auto& [block, count] : open.faults_of_block) faults_of_block.push_back(static_cast<double>(count));
      found_.batches.push_back(batch);
    }
    std::stable_sort(found_.batches.begin(), found_.batches.end(),
                     [](const Batch& a, const Batch& b) { return a.begin < b.begin; });
    found_.faults_of_batch = spread_of(faults);
    found_.blocks_of_batch = spread_of(blocks);
    found_.clients_of_batch = spread_of(clients);
    found_.gpcs_of_batch = spread_of(gpcs);
    found_.faults_of_block = spread_of(faults_of_block);
  }

  void add_moves() {
    std::size_t impossible = 0, timed = 0;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> spans;
    std::stable_sort(moves_.begin(), moves_.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    for (const auto& move : moves_) {
      Moved moved{move.cause, move.source, move.destination, move.address, move.bytes, since_first(move.begin), {}};
      if (is_timed(move)) {
        ++timed;
        moved.seconds = seconds_of(move);
        if (moved.seconds)
          spans.emplace_back(move.gpu_begin, move.gpu_end);
        else
          ++impossible;
      }
      found_.migrations.push_back(moved);
    }
    transfer_ = seconds(covered(std::move(spans)));
    doubt(impossible, timed, "migrations end before they begin or take over a minute");
  }

  /// Processes moves and CPU page faults in order of time; moves_ is already sorted.
  void add_evictions() {
    const auto evicts = [](const Migration& move) { return move.cause == Cause::eviction; };
    if (std::none_of(moves_.begin(), moves_.end(), evicts)) return;
    std::sort(cpu_faults_.begin(), cpu_faults_.end());
    EvictionReckoning reckoning;
    auto fault = cpu_faults_.begin();
    for (const auto& move : moves_) {
      for (; fault != cpu_faults_.end() && fault->first < move.begin; ++fault) reckoning.touched_by_host(fault->second);
      reckoning.moved(move);
    }
    found_.evictions = std::move(reckoning).evictions();
  }

  void add_times() {
    Figures::Times times;
    times.transfer = transfer_;
    std::size_t backwards = 0, replayed = 0, early = 0;
    std::vector<std::uint64_t> latencies;
    std::map<std::pair<std::uint8_t, Client>, std::vector<std::pair<std::uint64_t, std::uint64_t>>> spans;
    for (const auto& [key, open] : open_) {
      if (!open.replay) continue;
      ++replayed;
      if (*open.replay < open.last || *open.replay - open.begin > kLongest) {
        ++backwards;
        continue;
      }
      times.service += seconds(*open.replay - open.begin);
      spans[{std::get<0>(key), std::get<1>(key)}].emplace_back(open.begin, *open.replay);
      for (const auto written : open.written) {
        if (*open.gpu_replay < written || *open.gpu_replay - written > kLongest)
          ++early;
        else
          latencies.push_back(*open.gpu_replay - written);
      }
    }
    for (auto& [gpu, list] : spans) {
      std::sort(list.begin(), list.end());
      for (std::size_t i = 1; i < list.size(); ++i) {
        if (list[i].first > list[i - 1].second) times.between += seconds(list[i].first - list[i - 1].second);
      }
    }
    times.throttled = throttled();
    doubt(backwards, replayed, "batches are replayed before their faults were fetched or over a minute later");
    doubt(early, latencies.size() + early, "faults are replayed before the GPU wrote them or over a minute later");
    if (!latencies.empty()) {
      std::sort(latencies.begin(), latencies.end());
      times.latency_p50 = quantile(latencies, 0.5);
      times.latency_p95 = quantile(latencies, 0.95);
    }
    if (found_.problems.empty()) found_.times = times;
  }

  /// Returns the sum of throttled times in seconds. A page is throttled until the throttling ends; throttling whose
  /// begin or end is missing is omitted.
  double throttled() {
    double sum = 0;
    for (auto& [page, marks] : throttled_) {
      auto& [begins, ends] = marks;
      std::sort(begins.begin(), begins.end());
      std::sort(ends.begin(), ends.end());
      std::size_t next = 0;
      for (const auto end : ends) {
        if (next == begins.size() || begins[next] > end) continue;
        sum += seconds(end - begins[next++]);
      }
    }
    return sum;
  }

  Figures found_;
  std::uint64_t first_ = std::numeric_limits<std::uint64_t>::max();
  std::map<Key, OpenBatch> open_;
  std::vector<std::uint64_t> pages_;
  std::vector<Replay> replays_;
  std::vector<Migration> moves_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> cpu_faults_;  // time and address of each
  std::map<std::pair<std::uint8_t, std::uint64_t>, std::pair<std::vector<std::uint64_t>, std::vector<std::uint64_t>>>
      throttled_;
  double transfer_ = 0;
};

}  // namespace

Figures figures_of(std::span<const Event> events) {
  Reckoning reckoning;
  for (const auto& event : events) std::visit(reckoning, event);
  return std::move(reckoning).figures();
}

}  // namespace isthmus::trace::uvm
