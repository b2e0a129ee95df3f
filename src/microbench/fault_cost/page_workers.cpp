#include "microbench/fault_cost/page_workers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "memory/numa_nodes.hpp"
#include "workload/workload.hpp"

namespace isthmus::microbench::fault_cost {

namespace {

/// Performs the only access that may fault. Returns the word that is read, or 0 for a write.
template <bool Writes>
std::uint64_t access(const FaultingRegion& region, std::size_t index) {
  auto* word = reinterpret_cast<volatile std::uint64_t*>(region.data() + offset_of(index, region.stride()));
  if constexpr (!Writes) return *word;
  *word = region.word(index);
  return 0;
}

}  // namespace

PageWorkers::PageWorkers(Event event, unsigned threads, int numa_node)
    : writes_(facts(event).writes), numa_node_(numa_node), pool_(threads, numa_node), readings_(pool_.size()) {}

template <class Touch>
Pass PageWorkers::pass(const FaultingRegion& region, Touch touch) {
  pool_.run([&](unsigned i) {
    const memory::ScopedMemoryNode on_node(numa_node_);
    const memory::Part part = memory::part_of(region.touches(), pool_.size(), i);
    Reading& reading = readings_[i];
    const memory::PageFaults before = memory::thread_page_faults();
    reading.begin = workload::now();
    reading.sum = touch(part);
    reading.end = workload::now();
    reading.faults = memory::thread_page_faults() - before;
  });
  Pass all;
  double begin = readings_.front().begin, end = readings_.front().end;
  for (const auto& reading : readings_) {
    begin = std::min(begin, reading.begin);
    end = std::max(end, reading.end);
    all.faults.minor += reading.faults.minor;
    all.faults.major += reading.faults.major;
    all.sum += reading.sum;
  }
  all.seconds = end - begin;
  return all;
}

Pass PageWorkers::touch(const FaultingRegion& region) {
  const auto loop = [&region]<bool Writes>(std::bool_constant<Writes>) {
    return [&region](const memory::Part& part) {
      std::uint64_t sum = 0;
      for (std::size_t i = part.first; i < part.last; ++i) sum += access<Writes>(region, i);
      return sum;
    };
  };
  return writes_ ? pass(region, loop(std::true_type{})) : pass(region, loop(std::false_type{}));
}

Pass PageWorkers::touch_timed(const FaultingRegion& region, std::span<double> seconds) {
  const auto loop = [&]<bool Writes>(std::bool_constant<Writes>) {
    return [&](const memory::Part& part) {
      std::uint64_t sum = 0;
      for (std::size_t i = part.first; i < part.last; ++i) {
        const double begin = workload::now();
        sum += access<Writes>(region, i);
        seconds[i] = workload::now() - begin;
      }
      return sum;
    };
  };
  return writes_ ? pass(region, loop(std::true_type{})) : pass(region, loop(std::false_type{}));
}

void Account::note(std::string reason) {
  if (wrong_++ == 0) reason_ = std::move(reason);
}

void Account::before(const FaultingRegion& region) {
  if (const auto there = region.present(); there && *there > 0)
    note(fmt::format("{} pages were present before they were touched", *there));
}

void Account::after(const FaultingRegion& region, const Pass& pass) {
  ++passes_;
  const auto touches = static_cast<long>(region.touches());
  const auto& event = facts(event_);
  const long counted = event.major ? pass.faults.major : pass.faults.minor;
  const long others = event.major ? pass.faults.minor : pass.faults.major;
  faults_per_touch_ = static_cast<double>(counted) / static_cast<double>(touches);
  const long most = allowance(region.touches());
  const long all = counted + others;
  // A page that left the page cache before its touch causes the other kind of fault.
  if (all < touches || all > touches + most || counted < touches - most)
    note(fmt::format("{} touches made {} minor and {} major faults", touches, pass.faults.minor, pass.faults.major));
  disturbed_ = disturbed_ || all != touches || counted != touches;
  if (const auto there = region.present()) {
    const std::size_t missing = region.present_after_touches() - std::min(region.present_after_touches(), *there);
    if (static_cast<long>(missing) > most)
      note(fmt::format("{} of {} pages were not present after they were touched", missing,
                       region.present_after_touches()));
    disturbed_ = disturbed_ || missing > 0;
  }
  std::uint64_t expected = 0;
  std::size_t lost = 0;
  for (std::size_t i = 0; i < region.touches(); ++i) {
    expected += region.word(i);
    lost += region.holds(i) ? 0 : 1;
  }
  if (lost > 0) note(fmt::format("{} of {} pages do not contain their word", lost, touches));
  if (!event.writes && pass.sum != expected) note("the words read are not those of the pages");
}

void Account::size(const FaultingRegion& region) {
  if (auto wrong = region.wrong_size()) note(std::move(*wrong));
}

void Account::present(const Pass& pass) {
  const long faults = pass.faults.minor + pass.faults.major;
  if (faults > allowance(0)) note(fmt::format("{} pages that were present faulted", faults));
  disturbed_ = disturbed_ || faults > 0;
}

}  // namespace isthmus::microbench::fault_cost
