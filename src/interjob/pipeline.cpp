#include "interjob/pipeline.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <utility>

#include "device/api/ignoring_errors.hpp"
#include "interjob/allocator.hpp"
#include "interjob/costs.hpp"
#include "interjob/releaser.hpp"
#include "interjob/submitter.hpp"

namespace isthmus::interjob {

namespace {

/// Schedule of the roles. In serial mode, one thread calls all of them. In overlapped modes, each Allocator and the
/// Releaser has a thread, and the Submitter uses the caller's thread.
class Pipeline {
 public:
  Pipeline(std::span<const Job> jobs, const Options& options) : batch_(jobs, options) {}
  Result run();

 private:
  void run_serially(std::size_t first, std::size_t last);
  void run_overlapped();
  void run_as_it_pays();
  void on_device(const std::function<void()>& body);
  void learn(Costs& costs, std::size_t first) const;

  Batch batch_;
  Submitter submitter_{batch_};
  Releaser releaser_{batch_};
  Mode ran_ = Mode::serial;
  std::string reason_;
};

Result Pipeline::run() {
  const auto& options = batch_.options;
  batch_.clock.start(batch_.kernel);
  if (options.mode == Mode::serial) {
    reason_ = "as asked";
    run_serially(0, batch_.entries.size());
    if (options.costs != nullptr) learn(*options.costs, 0);
  } else if (options.force) {
    reason_ = "forced";
    run_overlapped();
  } else {
    run_as_it_pays();
  }
  {
    Batch::Lock lock(batch_.mutex);
    batch_.memory.drop_kept(batch_.releasing, lock);
  }
  device::ignoring_errors([this] { batch_.releasing.synchronize(); });  // pooled memory is freed in stream order
  Result result;
  result.seconds = batch_.clock.now();
  result.mode = ran_;
  result.reason = std::move(reason_);
  result.peak_device_bytes = batch_.memory.peak();
  for (auto& entry : batch_.entries) result.jobs.push_back(std::move(entry.outcome));
  return result;
}

void Pipeline::run_serially(std::size_t first, std::size_t last) {
  Allocator allocator(batch_, batch_.kernel, false);
  for (auto& entry : std::span(batch_.entries).subspan(first, last - first)) {
    {
      Batch::Lock lock(batch_.mutex);
      allocator.allocate(entry, lock);
      if (entry.state == State::done) continue;
    }
    submitter_.queue(entry);
    releaser_.conclude(entry);
  }
}

void Pipeline::run_overlapped() {
  ran_ = batch_.options.mode;
  batch_.allocating.resize(static_cast<std::size_t>(batch_.options.allocating_threads));
  std::atomic<int> go = 0;  // 0 until all threads have started; -1 makes them return
  std::vector<std::jthread> threads;
  const auto start = [&](std::function<void()> body) {
    threads.emplace_back([&go, this, body = std::move(body)] {
      go.wait(0);
      if (go > 0) on_device(body);
    });
  };
  const auto open = [&go](int how) {
    go = how;
    go.notify_all();
  };
  try {
    for (auto& stream : batch_.allocating) start([this, &stream] { Allocator(batch_, stream, true).run(); });
    start([this] { releaser_.run(); });
  } catch (...) {
    open(-1);
    throw;
  }
  open(1);
  submitter_.run();
}

/// Runs `body` on the batch's device. If a thread cannot select the device, it runs `body` nevertheless: every job that
/// it handles then fails with the reason.
void Pipeline::on_device(const std::function<void()>& body) {
  std::optional<device::Selected> selected;
  try {
    selected.emplace(batch_.options.device);
  } catch (...) {
    const Batch::Lock lock(batch_.mutex);
    batch_.lost = std::current_exception();
  }
  body();
}

/// Runs jobs serially until their cost is known, then overlapped if that is expected to be faster.
void Pipeline::run_as_it_pays() {
  constexpr std::size_t timed_alone = 2;  // two, because the first job is cold
  const auto& options = batch_.options;
  const std::size_t all = batch_.entries.size();
  Costs own;
  Costs& costs = options.costs != nullptr ? *options.costs : own;
  std::size_t done = 0;
  if (!costs.known()) {
    done = std::min(timed_alone, all);
    run_serially(0, done);
    if (done == timed_alone) learn(costs, 1);
  }
  const std::size_t left = all - done;
  auto verdict = judge(costs, thread_costs(), options, left);
  reason_ = std::move(verdict.reason);
  if (!verdict.overlap) {
    run_serially(done, all);
    return learn(costs, done);
  }
  const Span taken = batch_.clock.span([this] { run_overlapped(); });
  const double seconds = (taken.end - taken.begin) / static_cast<double>(left);
  auto& seen = costs.overlapped[options.mode];
  seen.job = seen.batches++ == 0 ? seconds : std::min(seen.job, seconds);
}

/// Updates `costs` with those of jobs that ran serially, starting with the job at `first`.
void Pipeline::learn(Costs& costs, std::size_t first) const {
  std::vector<Outcome> jobs;
  std::vector<Request> requests;
  for (const auto& entry : std::span(batch_.entries).subspan(first)) {
    if (entry.state == State::done) jobs.push_back(entry.outcome);
    requests.insert(requests.end(), entry.requests.begin(), entry.requests.end());
  }
  auto learnt = costs_of(jobs);
  if (!learnt.known()) return;
  learnt.least = costs.least > 0 ? std::min(costs.least, learnt.job) : learnt.job;
  learnt.overlapped = std::move(costs.overlapped);
  learnt.memory = memory_traits_of(requests);
  costs = std::move(learnt);
}

}  // namespace

std::string_view name(Mode mode) noexcept {
  switch (mode) {
    case Mode::serial:
      return "serial";
    case Mode::overlap_alloc:
      return "overlap_alloc";
    case Mode::overlap_all:
      return "overlap_all";
    case Mode::recycled:
      return "recycled";
  }
  return "";
}

Result run(std::span<const Job> jobs, const Options& options) {
  if (options.depth < 1)
    throw std::invalid_argument("interjob: a depth below 1 lets no job allocate memory; choose at least 1");
  if (options.allocating_threads < 1) throw std::invalid_argument("interjob: at least one thread must allocate");
  const device::Selected on(options.device);
  return Pipeline(jobs, options).run();
}

}  // namespace isthmus::interjob
