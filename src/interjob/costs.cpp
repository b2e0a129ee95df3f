#include "interjob/costs.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "interjob/changes.hpp"

namespace isthmus::interjob {

namespace {

using Clock = std::chrono::steady_clock;

/// Largest ratio of expected to serial time at which jobs are overlapped; below 1, because predictions are only this
/// accurate.
constexpr double kWorth = 0.9;
/// Factor by which a driver call takes longer while threads call the driver all the time. Of 369 batches that were
/// overlapped by force on one NVIDIA H200 host, this factor would have chosen 188, and none of these was slower than
/// serial; 1.0 would have chosen 221, of which 15 were slower (papers/data/h200/interjob.jsonl.gz).
constexpr double kContended = 1.7;
/// Largest ratio of measured overlapped time to serial time at which jobs are overlapped; below 1, because measured
/// times may be slightly wrong too.
constexpr double kSeenWorth = 0.98;
/// Number of batches that are overlapped because of predictions alone, before measured times decide; more than one,
/// because the first may be cold.
constexpr int kTrials = 2;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g ms", seconds * 1e3);
  return text;
}

ThreadCosts measure_threads() {
  constexpr int rounds = 50, starts = 10;
  ThreadCosts costs;
  std::mutex mutex;
  Changes changed;
  int turn = 0;
  const auto play = [&](int parity) {
    std::unique_lock lock(mutex);
    for (int i = 0; i < rounds; ++i) {
      changed.wait(lock, [&] { return turn % 2 == parity; });
      ++turn;
      changed.announce();
    }
  };
  {
    std::jthread other(play, 1);
    const auto begin = Clock::now();
    play(0);
    costs.wake = seconds_since(begin) / (2 * rounds);
  }
  const auto begin = Clock::now();
  for (int i = 0; i < starts; ++i) std::jthread([] {}).join();
  costs.start = seconds_since(begin) / starts;
  return costs;
}

/// Returns the seconds that the driver needs between two jobs if all threads call it, and the name of the cause.
std::pair<double, const char*> driver_interval(const Costs& c, Mode mode) {
  const auto& memory = c.memory;
  if (memory.page_locked || (mode == Mode::recycled && memory.handed_on)) return {0, ""};
  const double memory_calls = kContended * (c.allocate + c.release);
  const double calls = kContended * c.submit + memory_calls;
  const bool one_by_one = mode == Mode::overlap_alloc || memory.faults;
  const double device = one_by_one ? c.in + c.kernel + c.out : std::max({c.in, c.kernel, c.out});
  // Freeing memory blocks all other calls until the device is idle.
  if (memory.freeing_waits && device + memory_calls > calls) return {device + memory_calls, "freeing, which waits"};
  return {calls, "the driver"};
}

}  // namespace

MemoryTraits memory_traits_of(std::span<const Request> requests) {
  MemoryTraits traits;
  for (const auto& [source, bytes, from, until] : requests) {
    traits.handed_on &= source != kChunked;
    if (!source) continue;
    traits.freeing_waits |= source == Kind::device || is_managed(*source);
    traits.faults |= is_managed(*source);
    traits.page_locked |= page_locked(*source);
  }
  return traits;
}

Costs costs_of(std::span<const Outcome> jobs) {
  const auto over_jobs = [&](auto seconds_of) {
    double sum = 0;
    int count = 0;
    for (const auto& job : jobs) {
      if (job.failure || job.release.end <= 0) continue;
      sum += seconds_of(job);
      ++count;
    }
    return count == 0 ? 0 : sum / count;
  };
  const auto length = [](const Span& span) { return span.end - span.begin; };
  Costs costs;
  costs.allocate = over_jobs([&](const Outcome& job) { return length(job.allocate); });
  costs.submit = over_jobs([&](const Outcome& job) { return length(job.submit); });
  costs.in = over_jobs([&](const Outcome& job) { return length(job.in); });
  costs.kernel = over_jobs([&](const Outcome& job) { return length(job.kernel); });
  costs.out = over_jobs([&](const Outcome& job) { return length(job.out); });
  costs.finish = over_jobs([&](const Outcome& job) { return length(job.finish); });
  costs.release = over_jobs([&](const Outcome& job) { return length(job.release); });
  costs.job = over_jobs([](const Outcome& job) { return job.release.end - job.allocate.begin; });
  return costs;
}

Ideal ideal(const Costs& c, Mode mode, std::size_t jobs, int depth, int allocating_threads) {
  // The device begins while later work is still being queued, so a single job may take less time than the sum of its
  // phases.
  const double phases = c.allocate + c.submit + c.in + c.kernel + c.out + c.finish + c.release;
  const double one = c.known() ? std::min(c.job, phases) : phases;
  const auto n = static_cast<double>(jobs);
  if (jobs == 0 || mode == Mode::serial) return {n * one, "all"};
  const bool recycled = mode == Mode::recycled;
  using Resource = std::pair<double, const char*>;
  std::vector<Resource> resources{{c.submit, "submitting"}};
  if (mode == Mode::overlap_alloc) {
    resources.emplace_back(c.in + c.kernel + c.out, "stream");
  } else {
    resources.insert(resources.end(), {{c.in, "in"}, {c.kernel, "kernel"}, {c.out, "out"}});
  }
  resources.emplace_back(c.finish + (recycled ? 0 : c.release), "releasing");
  if (!recycled) resources.emplace_back(c.allocate / allocating_threads, "allocating");
  const auto busiest = *std::max_element(resources.begin(), resources.end());
  const double pipe = one + (n - 1) * busiest.first;
  if (!recycled) return {pipe, busiest.second};
  // Each job in flight needs separate memory, which is allocated and freed once.
  const double held = std::min(n, static_cast<double>(depth));
  const double calls = held * c.allocate / allocating_threads + (one - c.allocate) + (held - 1) * c.release;
  return calls > pipe ? Ideal{calls, "allocating"} : Ideal{pipe, busiest.second};
}

const ThreadCosts& thread_costs() {
  static const ThreadCosts costs = measure_threads();
  return costs;
}

Verdict judge(const Costs& costs, const ThreadCosts& threads, const Options& options, std::size_t jobs) {
  if (!costs.known()) return {false, "the cost of such a job is unknown"};
  const double serial = static_cast<double>(jobs) * costs.job;
  const auto seen = costs.overlapped.find(options.mode);
  if (seen != costs.overlapped.end() && seen->second.batches >= kTrials) {
    const double serially = costs.least > 0 ? costs.least : costs.job;  // the smaller; otherwise noise could decide
    const bool overlap = seen->second.job < kSeenWorth * serially;
    return {overlap, "a job took " + milliseconds(seen->second.job) + " overlapped and " + milliseconds(serially) +
                         " serially in batches before"};
  }
  // Each job wakes each thread once, and each thread may be asleep at that moment.
  Costs handed = costs;
  for (auto* phase : {&handed.allocate, &handed.submit, &handed.release}) *phase += threads.wake;
  handed.job += 3 * threads.wake;
  auto best = ideal(handed, options.mode, jobs, options.depth, options.allocating_threads);
  const auto [interval, caller] = driver_interval(costs, options.mode);
  const double by_driver = costs.job + static_cast<double>(jobs - 1) * interval;
  if (jobs > 0 && by_driver > best.seconds) best = {by_driver, caller};
  const double expected = best.seconds + threads.start * (options.allocating_threads + 1);
  const std::string figures = milliseconds(serial) + " serially, " + milliseconds(expected) + " overlapped at best (" +
                              best.busiest + " is busiest)";
  return {expected < kWorth * serial, figures};
}

}  // namespace isthmus::interjob
