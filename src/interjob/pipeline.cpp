#include "interjob/pipeline.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace isthmus::interjob {

namespace {

using device::ErrorKind;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

enum class State {
  waiting,     ///< for memory
  allocating,  ///< a thread is at it
  ready,       ///< holds its memory
  running,     ///< queued, or found to fail on the way
  done,        ///< holds nothing
};

/// A job on its way.
struct Entry {
  const Job* job = nullptr;
  State state = State::waiting;
  std::vector<void*> memory;  ///< as the job asked for it; shorter while allocating
  device::Event ready, began, in_done, kernel_done, out_done;
  bool queued = false;   ///< all of it, or all until it failed
  bool starved = false;  ///< holds nothing and waits for others to release
  Outcome outcome;

  std::size_t wanted() const {
    std::size_t bytes = 0;
    for (const auto& request : job->memory) bytes += device_bytes(request);
    return bytes;
  }
  bool failed() const { return outcome.failure != nullptr; }
};

void note(Outcome& outcome, const std::exception_ptr& failure) {
  if (outcome.failure) return;  // the first is the cause
  outcome.failure = failure;
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    outcome.error = error.what();
  } catch (...) {
    outcome.error = "the job threw something that is no std::exception";
  }
}

std::optional<ErrorKind> kind_of(const std::exception_ptr& failure) {
  if (!failure) return std::nullopt;
  try {
    std::rethrow_exception(failure);
  } catch (const device::Error& error) {
    return error.kind();
  } catch (...) {
    return std::nullopt;
  }
}

class Batch {
 public:
  Batch(std::span<const Job> jobs, const Options& options);
  Result run();

 private:
  using Lock = std::unique_lock<std::mutex>;

  // Each is the body of a thread.
  void allocate_jobs(device::Stream& stream);
  void submit_jobs();
  void release_jobs();
  void run_overlapped();
  void on_device(const std::function<void()>& body);

  void run_serially();

  bool all_past(State state) const {
    return std::all_of(entries_.begin(), entries_.end(), [&](const auto& each) { return each.state > state; });
  }
  Entry* first_waiting();
  bool may_begin(const Entry& entry);
  void allocate(Entry& entry, device::Stream& stream, Lock& lock);
  std::vector<void*> take_kept(const Entry& entry);
  void keep(const Request& request, void* pointer);
  bool over_limit() const;
  device::Error no_room(const Entry& entry) const;
  static std::exception_ptr fill(Entry& entry, std::vector<void*>& handed_on, device::Stream& stream);
  bool make_room(Entry& entry, device::Stream& stream, Lock& lock);
  void drop_kept(device::Stream& stream, Lock& lock);
  void give_back(Entry& entry, device::Stream& stream, bool for_others, Lock& lock);
  void finish_with(Entry& entry);

  void queue(Entry& entry);
  void conclude(Entry& entry, device::Stream& stream);
  Span span(const device::Event& begin, const device::Event& end) const;
  Span clocked(const std::function<void()>& body);

  Options options_;
  std::vector<Entry> entries_;
  device::Stream in_, kernel_, out_, releasing_;
  std::vector<device::Stream> allocating_;  // one a thread
  device::Event base_;                      // what device times are counted from
  double began_ = 0;                        // on the host's clock
  bool three_streams_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex:
  int holding_ = 0;                              // jobs that hold memory or are about to
  std::size_t held_bytes_ = 0, peak_bytes_ = 0;  // of the device, kept memory included
  struct Kept {
    Request request;
    void* pointer;
  };
  std::vector<Kept> kept_;
  std::exception_ptr lost_;  // the device is
};

Batch::Batch(std::span<const Job> jobs, const Options& options)
    : options_(options),
      entries_(jobs.size()),
      three_streams_(options.mode == Mode::overlap_all || options.mode == Mode::recycled) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    entries_[i].job = &jobs[i];
    entries_[i].outcome.name = jobs[i].name;
    entries_[i].memory.reserve(jobs[i].memory.size());
  }
  if (options.mode != Mode::serial) allocating_.resize(static_cast<std::size_t>(options.allocating_threads));
}

Result Batch::run() {
  base_.record(kernel_);
  kernel_.synchronize();
  began_ = seconds_now();
  if (options_.mode == Mode::serial) {
    run_serially();
  } else {
    run_overlapped();
  }
  {
    Lock lock(mutex_);
    drop_kept(releasing_, lock);
  }
  try {
    releasing_.synchronize();       // pooled memory goes in the order of its stream
  } catch (const device::Error&) {  // the jobs have said what there is to say
  }
  Result result;
  result.seconds = seconds_now() - began_;
  result.peak_device_bytes = peak_bytes_;
  for (auto& entry : entries_) result.jobs.push_back(std::move(entry.outcome));
  return result;
}

void Batch::run_overlapped() {
  std::atomic<int> go = 0;  // until all threads are there: -1 sends them home
  std::vector<std::jthread> threads;
  const auto start = [&](std::function<void()> body) {
    threads.emplace_back([&go, body = std::move(body)] {
      go.wait(0);
      if (go > 0) body();
    });
  };
  const auto open = [&go](int how) {
    go = how;
    go.notify_all();
  };
  try {
    for (auto& stream : allocating_) start([this, &stream] { on_device([&] { allocate_jobs(stream); }); });
    start([this] { on_device([this] { release_jobs(); }); });
  } catch (...) {
    open(-1);
    throw;
  }
  open(1);
  submit_jobs();
}

/// A thread that cannot have the device goes on all the same: every job that comes to it then fails with the reason.
void Batch::on_device(const std::function<void()>& body) {
  std::optional<device::Selected> selected;
  try {
    selected.emplace(options_.device);
  } catch (...) {
    const Lock lock(mutex_);
    lost_ = std::current_exception();
  }
  body();
}

// --- one after the other -------------------------------------------------------------------------------

void Batch::run_serially() {
  for (auto& entry : entries_) {
    Lock lock(mutex_);
    holding_ = 1;
    entry.state = State::allocating;
    allocate(entry, kernel_, lock);
    if (entry.state == State::done) continue;
    entry.state = State::running;
    lock.unlock();
    queue(entry);
    conclude(entry, releasing_);
  }
}

// --- allocating ------------------------------------------------------------------------------------------

void Batch::allocate_jobs(device::Stream& stream) {
  Lock lock(mutex_);
  for (;;) {
    // A job that is ready may have to give its memory to one before it, and then waits again.
    changed_.wait(lock, [this] {
      const Entry* next = first_waiting();
      return next != nullptr ? may_begin(*next) : all_past(State::ready);
    });
    Entry* next = first_waiting();
    if (next == nullptr) return;
    next->state = State::allocating;
    ++holding_;
    allocate(*next, stream, lock);
  }
}

Entry* Batch::first_waiting() {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [](const auto& each) { return each.state == State::waiting; });
  return found == entries_.end() ? nullptr : &*found;
}

/// Jobs take their turn in order, so that none holds what one before it waits for.
bool Batch::may_begin(const Entry& entry) {
  if (holding_ >= options_.depth) return false;
  if (lost_ || options_.device_limit == 0 || !options_.wait_for_room) return true;
  const std::size_t wanted = entry.wanted();
  std::size_t kept = 0;
  for (const auto& each : kept_) kept += device_bytes(each.request);
  return wanted > options_.device_limit || held_bytes_ - kept + wanted <= options_.device_limit;
}

/// From `allocating` to `ready`, or to `done` with the failure. The lock is held before and after.
void Batch::allocate(Entry& entry, device::Stream& stream, Lock& lock) {
  auto& outcome = entry.outcome;
  outcome.allocate.begin = seconds_now() - began_;
  const std::size_t wanted = entry.wanted();
  held_bytes_ += wanted;
  try {
    for (;;) {
      if (lost_) std::rethrow_exception(lost_);
      auto handed_on = take_kept(entry);
      if (over_limit()) drop_kept(stream, lock);
      std::exception_ptr failure;
      if (over_limit()) {
        failure = std::make_exception_ptr(no_room(entry));
      } else {
        peak_bytes_ = std::max(peak_bytes_, held_bytes_);
        lock.unlock();
        failure = fill(entry, handed_on, stream);
        lock.lock();
      }
      if (!failure) break;
      give_back(entry, stream, false, lock);
      for (std::size_t i = 0; i < handed_on.size(); ++i) {  // what it had not come to
        if (handed_on[i] != nullptr) keep(entry.job->memory[i], handed_on[i]);
      }
      if (over_limit() || kind_of(failure) != ErrorKind::out_of_memory || !make_room(entry, stream, lock))
        std::rethrow_exception(failure);
    }
    entry.state = State::ready;
  } catch (...) {
    note(outcome, std::current_exception());
    if (kind_of(outcome.failure) == ErrorKind::device_lost) lost_ = outcome.failure;
    held_bytes_ -= wanted;
    finish_with(entry);
  }
  outcome.allocate.end = seconds_now() - began_;
  changed_.notify_all();
}

/// For each of the job's requests what was kept of its kind and size, else nullptr. It counts as the job's now.
std::vector<void*> Batch::take_kept(const Entry& entry) {
  std::vector<void*> taken(entry.job->memory.size(), nullptr);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const auto same = std::find_if(kept_.begin(), kept_.end(),
                                   [&](const Kept& each) { return each.request == entry.job->memory[i]; });
    if (same == kept_.end()) continue;
    taken[i] = same->pointer;
    held_bytes_ -= device_bytes(same->request);
    kept_.erase(same);
  }
  return taken;
}

void Batch::keep(const Request& request, void* pointer) {
  kept_.push_back({request, pointer});
  held_bytes_ += device_bytes(request);
}

bool Batch::over_limit() const {
  return options_.device_limit != 0 && held_bytes_ > options_.device_limit;
}

device::Error Batch::no_room(const Entry& entry) const {
  return {ErrorKind::out_of_memory, "interjob",
          entry.job->name + " asks for " + std::to_string(entry.wanted()) +
              " bytes of device memory where jobs may hold " + std::to_string(options_.device_limit),
          options_.wait_for_room ? "raise the limit" : "raise the limit, or let jobs wait for room"};
}

/// Allocates what was not handed on; what was, it takes out of the list. Returns the failure.
std::exception_ptr Batch::fill(Entry& entry, std::vector<void*>& handed_on, device::Stream& stream) {
  try {
    for (std::size_t i = 0; i < handed_on.size(); ++i) {
      auto* pointer = handed_on[i] != nullptr ? handed_on[i] : interjob::allocate(entry.job->memory[i], stream);
      handed_on[i] = nullptr;
      entry.memory.push_back(pointer);
    }
    entry.ready.record(stream);
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

/// After an allocation that found no memory: true where another attempt may find some.
bool Batch::make_room(Entry& entry, device::Stream& stream, Lock& lock) {
  if (!kept_.empty()) {
    drop_kept(stream, lock);
    return true;
  }
  if (!options_.wait_for_room) return false;
  const auto holds = [&](const Entry& each) {
    return &each != &entry && !each.starved && each.state != State::waiting && each.state != State::done;
  };
  const auto others = [&] { return std::count_if(entries_.begin(), entries_.end(), holds); };
  // A later job whose turn to run has not come gives its memory to an earlier one that nobody else can help, or both
  // would wait for ever.
  const auto who_gives_way = [&]() -> Entry* {
    const auto self = entries_.begin() + (&entry - entries_.data());
    if (std::any_of(entries_.begin(), self, holds)) return nullptr;
    const auto last = std::find_if(entries_.rbegin(), std::make_reverse_iterator(self + 1),
                                   [](const Entry& each) { return each.state == State::ready; });
    return last == std::make_reverse_iterator(self + 1) ? nullptr : &*last;
  };
  const auto before = others();
  if (before == 0) return false;  // nobody has anything to release
  entry.starved = true;
  changed_.notify_all();  // those who wait for this one need not
  changed_.wait(lock, [&] { return lost_ || others() < before || who_gives_way() != nullptr; });
  entry.starved = false;
  if (Entry* later = who_gives_way()) {
    later->state = State::waiting;
    give_back(*later, stream, false, lock);
    held_bytes_ -= later->wanted();
    --holding_;
    changed_.notify_all();
  }
  return true;
}

void Batch::drop_kept(device::Stream& stream, Lock& lock) {
  auto kept = std::exchange(kept_, {});
  lock.unlock();
  for (const auto& each : kept) {
    try {
      release(each.request, each.pointer, stream);
    } catch (const device::Error&) {  // nobody's job: the next call on the device says what is wrong
    }
  }
  lock.lock();
  for (const auto& each : kept) held_bytes_ -= device_bytes(each.request);
}

/// Frees what the entry holds, or keeps it for others. Its bytes stay counted.
void Batch::give_back(Entry& entry, device::Stream& stream, bool for_others, Lock& lock) {
  auto memory = std::exchange(entry.memory, {});
  if (for_others) {
    for (std::size_t i = 0; i < memory.size(); ++i) keep(entry.job->memory[i], memory[i]);
    return;
  }
  lock.unlock();
  std::exception_ptr failure;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    try {
      release(entry.job->memory[i], memory[i], stream);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  lock.lock();
  if (failure) note(entry.outcome, failure);
}

void Batch::finish_with(Entry& entry) {
  entry.state = State::done;
  --holding_;
  changed_.notify_all();
}

// --- running -----------------------------------------------------------------------------------------------

void Batch::submit_jobs() {
  for (auto& entry : entries_) {
    {
      Lock lock(mutex_);
      changed_.wait(lock, [&] { return entry.state == State::ready || entry.state == State::done; });
      if (entry.state == State::done) continue;
      entry.state = State::running;
    }
    queue(entry);
    {
      const Lock lock(mutex_);
      entry.queued = true;
    }
    changed_.notify_all();
  }
}

/// Queues a job's phases; a failure is noted, and whoever concludes it waits for what was queued.
void Batch::queue(Entry& entry) {
  auto& in = three_streams_ ? in_ : kernel_;
  auto& out = three_streams_ ? out_ : kernel_;
  const auto phase = [&](const std::function<void(const Work&)>& body, device::Stream& stream, device::Event& after) {
    if (body) body({stream, entry.memory});
    after.record(stream);
  };
  try {
    in.wait(entry.ready);
    entry.began.record(in);
    phase(entry.job->in, in, entry.in_done);
    if (three_streams_) kernel_.wait(entry.in_done);
    phase(entry.job->kernel, kernel_, entry.kernel_done);
    if (three_streams_) out.wait(entry.kernel_done);
    phase(entry.job->out, out, entry.out_done);
  } catch (...) {
    note(entry.outcome, std::current_exception());
  }
}

void Batch::release_jobs() {
  for (auto& entry : entries_) {
    {
      Lock lock(mutex_);
      changed_.wait(lock, [&] { return entry.queued || entry.state == State::done; });
      if (entry.state == State::done) continue;
    }
    conclude(entry, releasing_);
  }
}

/// Waits for a job's end, lets it look at its results and releases what it holds.
void Batch::conclude(Entry& entry, device::Stream& stream) {
  auto& outcome = entry.outcome;
  const auto attempt = [&](const auto& body) {
    try {
      body();
    } catch (...) {
      note(outcome, std::current_exception());
    }
  };
  if (!entry.failed()) {
    attempt([&] {
      entry.out_done.synchronize();
      outcome.in = span(entry.began, entry.in_done);
      outcome.kernel = span(entry.in_done, entry.kernel_done);
      outcome.out = span(entry.kernel_done, entry.out_done);
    });
  }
  if (entry.failed()) {  // something of it may still run
    for (auto* each : {&in_, &kernel_, &out_}) attempt([&] { each->synchronize(); });
  } else if (entry.job->finish) {
    outcome.finish = clocked([&] { attempt([&] { entry.job->finish(entry.memory); }); });
  }
  Lock lock(mutex_);
  outcome.release =
      clocked([&] { give_back(entry, stream, options_.mode == Mode::recycled && !entry.failed(), lock); });
  held_bytes_ -= entry.wanted();
  if (kind_of(outcome.failure) == ErrorKind::device_lost) lost_ = outcome.failure;
  finish_with(entry);
}

Span Batch::span(const device::Event& begin, const device::Event& end) const {
  return {device::elapsed(base_, begin), device::elapsed(base_, end)};
}

Span Batch::clocked(const std::function<void()>& body) {
  Span span{seconds_now() - began_, 0};
  body();
  span.end = seconds_now() - began_;
  return span;
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
  if (options.depth < 1) throw std::invalid_argument("interjob: a depth below 1 lets no job hold memory");
  if (options.allocating_threads < 1) throw std::invalid_argument("interjob: at least one thread allocates");
  const device::Selected on(options.device);
  return Batch(jobs, options).run();
}

}  // namespace isthmus::interjob
