#include "interjob/batch.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace isthmus::interjob {

namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void Entry::note(const std::exception_ptr& failure) {
  if (outcome.failure) return;
  outcome.failure = failure;
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    outcome.error = error.what();
  } catch (...) {
    outcome.error = "the job threw something that is not a std::exception";
  }
}

std::optional<device::ErrorKind> kind_of(const std::exception_ptr& failure) {
  if (!failure) return std::nullopt;
  try {
    std::rethrow_exception(failure);
  } catch (const device::Error& error) {
    return error.kind();
  } catch (...) {
    return std::nullopt;
  }
}

void BatchClock::start(device::Stream& stream) {
  // The event happens between two readings of the host's clock; of several pairs of readings, use the closest pair.
  double apart = 1e9;
  for (int i = 0; i < 3; ++i) {
    device::Event event;
    const double before = seconds_now();
    event.record(stream);
    event.synchronize();
    const double after = seconds_now();
    if (after - before >= apart) continue;
    apart = after - before;
    base_at_ = (before + after) / 2;
    base_ = std::move(event);
  }
  began_ = seconds_now();
}

double BatchClock::now() const {
  return seconds_now() - began_;
}

Span BatchClock::span(const device::Event& begin, const device::Event& end) const {
  const double since = base_at_ - began_;
  return {since + device::elapsed(base_, begin), since + device::elapsed(base_, end)};
}

Batch::Batch(std::span<const Job> jobs, const Options& with)
    : options(with),
      entries(jobs.size()),
      three_streams(with.mode == Mode::overlap_all || with.mode == Mode::recycled),
      slots(std::min(static_cast<std::size_t>(with.depth), std::max<std::size_t>(jobs.size(), 1))),
      memory(jobs, with) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    auto& entry = entries[i];
    entry.job = &jobs[i];
    entry.outcome.name = jobs[i].name;
    for (const auto& asked : jobs[i].memory) {
      const auto& request = entry.requests.emplace_back(in_whole_units(asked));
      entry.wanted += device_bytes(request);
      if (request.source == kChunked) entry.chunks_wanted += memory.chunks()->in_chunks(request.bytes);
    }
  }
  if (options.pool_keeps) device::set_pool_release_threshold(*options.pool_keeps);
}

}  // namespace isthmus::interjob
