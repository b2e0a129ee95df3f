#include "harness/measure/watch/observer.hpp"

#include <utility>

#include "workload/clock.hpp"

namespace isthmus::harness {

void TimeAccount::book() {
  const double until = now(), since = std::exchange(since_, until);
  if (!open_.empty()) seconds_[static_cast<std::size_t>(open_.back())] += until - since;
}

void TimeAccount::begin(const char* /*reading*/, Part part, std::size_t /*sample*/) {
  book();
  open_.push_back(part);
}

void TimeAccount::end() {
  book();
  open_.pop_back();
}

void Heartbeat::begin(const char* /*reading*/, Part /*part*/, std::size_t /*sample*/) {
  watchdog_.progress();
}

void ProfilerRanges::begin(const char* reading, Part /*part*/, std::size_t /*sample*/) {
  auto& range = open_.emplace_back();
  if (*reading != '\0') range.emplace(reading);
}

void ProfilerRanges::end() {
  open_.pop_back();
}

}  // namespace isthmus::harness
