#include "interjob/pipeline.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "interjob/changes.hpp"
#include "interjob/chunks.hpp"
#include "interjob/costs.hpp"

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
  std::vector<Request> requests;  ///< the job's, in whole units
  State state = State::waiting;
  std::size_t wanted = 0, chunks_wanted = 0;  ///< bytes of the device, in one piece each and in chunks
  // As the job asked for it; nullptr: not there (yet). A request has either memory or a block, which has its address.
  std::vector<void*> memory;
  std::vector<std::unique_ptr<ChunkedBlock>> blocks;
  device::Event ready, began, in_done, kernel_done, out_done;
  bool in_ready = false;  ///< holds what its first phase needs: `in` may be queued, or is
  bool queued = false;    ///< all of it, or all until it failed
  bool starved = false;   ///< waits for others to release
  Outcome outcome;

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

  void run_serially(std::size_t first, std::size_t last);
  void run_as_it_pays();
  void learn(Costs& costs, std::size_t first) const;

  void count(Entry& entry) const;
  bool chunked(const Entry& entry) const { return entry.chunks_wanted > 0; }
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
  std::size_t held() const;
  std::exception_ptr fill(Entry& entry, std::vector<void*>& handed_on, device::Stream& stream);
  void grow(Entry& entry, Phase needed, device::Stream& stream, Lock& lock);
  bool make_room(Entry& entry, std::uint64_t seen, device::Stream& stream, Lock& lock);
  void drop_kept(device::Stream& stream, Lock& lock);
  void give_back(Entry& entry, device::Stream& stream, bool for_others, Lock& lock);
  void finish_with(Entry& entry);

  void queue(Entry& entry);
  void await_rest(Entry& entry);
  void shrink_after(Entry& entry, Phase phase, device::Event& done);
  void conclude(Entry& entry, device::Stream& stream);
  Span span(const device::Event& begin, const device::Event& end) const;
  Span clocked(const std::function<void()>& body);

  Options options_;
  std::vector<Entry> entries_;
  device::Stream in_, kernel_, out_, releasing_;
  std::vector<device::Stream> allocating_;  // one a thread
  device::Event base_;                      // what device times are counted from
  double base_seconds_ = 0, began_ = 0;     // that event, and the batch, on the host's clock
  bool three_streams_, overlapping_ = false;
  double kernel_end_ = 0, out_end_ = 0;  ///< of the last job that ended
  std::unique_ptr<ChunkPool> chunks_;    // nullptr: no job asks for any

  std::mutex mutex_;
  Changes changed_;
  // Under the mutex:
  int holding_ = 0;  // jobs that hold memory or are about to
  // Of the device: memory in one piece, what is kept included; and with chunks, used and idle.
  std::size_t held_bytes_ = 0, peak_bytes_ = 0;
  std::uint64_t given_back_ = 0;  // how often a job gave anything back, other than to try again
  struct Kept {
    Request request;
    void* pointer;
  };
  std::vector<Kept> kept_;
  std::exception_ptr lost_;  // the device is

  Mode ran_ = Mode::serial;
  std::string reason_;
};

constexpr std::size_t kLargestChunk = std::size_t{64} << 20;

Batch::Batch(std::span<const Job> jobs, const Options& options)
    : options_(options),
      entries_(jobs.size()),
      three_streams_(options.mode == Mode::overlap_all || options.mode == Mode::recycled) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    entries_[i].job = &jobs[i];
    entries_[i].outcome.name = jobs[i].name;
  }
  std::size_t largest = 0;
  for (const auto& job : jobs) {
    for (const auto& request : job.memory)
      if (request.kind == Kind::chunked) largest = std::max(largest, request.bytes);
  }
  if (largest > 0) {
    // Fewer calls where there is room; under a cap the pieces that a job takes as the one before gives them back.
    const std::size_t usual = std::min(largest / (options.device_limit > 0 ? 16 : 4), kLargestChunk);
    chunks_ = std::make_unique<ChunkPool>(options.chunk_bytes > 0 ? options.chunk_bytes : usual);
  }
  for (auto& entry : entries_) count(entry);
  if (options.pool_keeps) device::set_pool_release_threshold(*options.pool_keeps);
}

void Batch::count(Entry& entry) const {
  for (const auto& asked : entry.job->memory) {
    const auto& request = entry.requests.emplace_back(in_whole_units(asked));
    entry.wanted += device_bytes(request);
    if (request.kind != Kind::chunked) continue;
    const std::size_t unit = chunks_->chunk_bytes();
    entry.chunks_wanted += (std::max<std::size_t>(request.bytes, 1) + unit - 1) / unit * unit;
  }
}

Result Batch::run() {
  // The moment of the event on the host's clock lies between two readings: of a few, those that are closest.
  double apart = 1e9;
  for (int i = 0; i < 3; ++i) {
    device::Event event;
    const double before = seconds_now();
    event.record(kernel_);
    event.synchronize();
    const double after = seconds_now();
    if (after - before >= apart) continue;
    apart = after - before;
    base_seconds_ = (before + after) / 2;
    base_ = std::move(event);
  }
  began_ = seconds_now();
  if (options_.mode == Mode::serial) {
    reason_ = "as asked";
    run_serially(0, entries_.size());
    if (options_.costs != nullptr) learn(*options_.costs, 0);
  } else if (options_.force) {
    reason_ = "forced";
    run_overlapped();
  } else {
    run_as_it_pays();
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
  result.mode = ran_;
  result.reason = std::move(reason_);
  result.peak_device_bytes = peak_bytes_;
  for (auto& entry : entries_) result.jobs.push_back(std::move(entry.outcome));
  return result;
}

/// Serially until it is known what a job costs; overlapped from there on, where that gains.
void Batch::run_as_it_pays() {
  constexpr std::size_t timed_alone = 2;  // the first is cold
  Costs own;
  Costs& costs = options_.costs != nullptr ? *options_.costs : own;
  std::size_t done = 0;
  if (!costs.known()) {
    done = std::min(timed_alone, entries_.size());
    run_serially(0, done);
    if (done == timed_alone) learn(costs, 1);
  }
  const std::size_t left = entries_.size() - done;
  auto verdict = judge(costs, thread_costs(), options_, left);
  reason_ = std::move(verdict.reason);
  if (!verdict.overlap) {
    run_serially(done, entries_.size());
    return learn(costs, done);
  }
  const double begin = seconds_now();
  run_overlapped();
  const double seconds = (seconds_now() - begin) / static_cast<double>(left);
  auto& seen = costs.overlapped[options_.mode];
  seen.job = seen.batches++ == 0 ? seconds : std::min(seen.job, seconds);
}

/// What jobs cost that ran serially, from `first` on.
void Batch::learn(Costs& costs, std::size_t first) const {
  std::vector<Outcome> jobs;
  std::vector<Request> requests;
  for (std::size_t i = first; i < entries_.size(); ++i) {
    const auto& entry = entries_[i];
    if (entry.state == State::done) jobs.push_back(entry.outcome);
    requests.insert(requests.end(), entry.requests.begin(), entry.requests.end());
  }
  auto learnt = costs_of(jobs);
  if (!learnt.known()) return;
  learnt.overlapped = std::move(costs.overlapped);
  learnt.memory = habits_of(requests);
  costs = std::move(learnt);
}

void Batch::run_overlapped() {
  ran_ = options_.mode;
  overlapping_ = true;
  allocating_.resize(static_cast<std::size_t>(options_.allocating_threads));
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

void Batch::run_serially(std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; ++i) {
    auto& entry = entries_[i];
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

/// Jobs take their turn in order, so that none holds what one before it waits for. A job that grows by chunks allocates
/// while no other does: it holds some of what it needs, and may not wait for one that waits for it.
bool Batch::may_begin(const Entry& entry) {
  if (holding_ >= options_.depth) return false;
  if (std::any_of(entries_.begin(), entries_.end(), [&](const Entry& each) {
        return each.state == State::allocating && (chunked(each) || chunked(entry));
      }))
    return false;
  if (lost_ || options_.device_limit == 0 || !options_.wait_for_room) return true;
  std::size_t idle = chunks_ ? chunks_->held().idle : 0;
  for (const auto& each : kept_) idle += device_bytes(each.request);
  const std::size_t limit = options_.device_limit;
  return entry.wanted + entry.chunks_wanted > limit || held() - idle + entry.wanted <= limit;
}

/// From `allocating` to `ready`, or to `done` with the failure. The lock is held before and after.
void Batch::allocate(Entry& entry, device::Stream& stream, Lock& lock) {
  auto& outcome = entry.outcome;
  outcome.allocate.begin = seconds_now() - began_;
  held_bytes_ += entry.wanted;
  const std::size_t limit = options_.device_limit;
  try {
    if (limit != 0 && entry.wanted + entry.chunks_wanted > limit) throw no_room(entry);
    for (;;) {
      if (lost_) std::rethrow_exception(lost_);
      const auto seen = given_back_;
      auto handed_on = take_kept(entry);
      if (over_limit()) drop_kept(stream, lock);
      std::exception_ptr failure;
      if (over_limit()) {
        failure = std::make_exception_ptr(no_room(entry));
      } else {
        peak_bytes_ = std::max(peak_bytes_, held());
        lock.unlock();
        failure = fill(entry, handed_on, stream);
        lock.lock();
      }
      if (!failure) break;
      give_back(entry, stream, false, lock);
      for (std::size_t i = 0; i < handed_on.size(); ++i) {  // what it had not come to
        if (handed_on[i] != nullptr) keep(entry.requests[i], handed_on[i]);
      }
      if (over_limit() || kind_of(failure) != ErrorKind::out_of_memory || !make_room(entry, seen, stream, lock))
        std::rethrow_exception(failure);
    }
    if (chunked(entry)) {
      try {
        grow(entry, Phase::in, stream, lock);
        if (overlapping_) {
          entry.in_ready = true;
          changed_.announce();
        }
        grow(entry, Phase::finish, stream, lock);
      } catch (...) {
        if (!entry.in_ready) give_back(entry, stream, false, lock);
        throw;
      }
    }
    entry.state = State::ready;
  } catch (...) {
    note(outcome, std::current_exception());
    if (kind_of(outcome.failure) == ErrorKind::device_lost) lost_ = outcome.failure;
    if (entry.in_ready) {  // whoever queues it finds the failure, and whoever concludes it releases what it holds
      entry.state = State::ready;
    } else {
      held_bytes_ -= entry.wanted;
      finish_with(entry);
    }
  }
  outcome.allocate.end = seconds_now() - began_;
  changed_.announce();
}

/// For each of the job's requests what was kept of its kind and size, else nullptr. It counts as the job's now.
std::vector<void*> Batch::take_kept(const Entry& entry) {
  std::vector<void*> taken(entry.requests.size(), nullptr);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const auto same =
        std::find_if(kept_.begin(), kept_.end(), [&](const Kept& each) { return each.request == entry.requests[i]; });
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
  return options_.device_limit != 0 && held() > options_.device_limit;
}

std::size_t Batch::held() const {
  if (!chunks_) return held_bytes_;
  const auto chunks = chunks_->held();
  return held_bytes_ + chunks.used + chunks.idle;
}

device::Error Batch::no_room(const Entry& entry) const {
  return {ErrorKind::out_of_memory, "interjob",
          entry.job->name + " asks for " + std::to_string(entry.wanted + entry.chunks_wanted) +
              " bytes of device memory where jobs may hold " + std::to_string(options_.device_limit),
          options_.wait_for_room ? "raise the limit" : "raise the limit, or let jobs wait for room"};
}

/// Allocates what was not handed on; what was, it takes out of the list. Of chunked memory only the addresses. Returns
/// the failure.
std::exception_ptr Batch::fill(Entry& entry, std::vector<void*>& handed_on, device::Stream& stream) {
  try {
    const auto& requests = entry.requests;
    entry.memory.assign(requests.size(), nullptr);
    entry.blocks.resize(requests.size());
    for (std::size_t i = 0; i < handed_on.size(); ++i) {
      if (requests[i].kind == Kind::chunked) {
        entry.blocks[i] = std::make_unique<ChunkedBlock>(*chunks_, requests[i].bytes);
        entry.memory[i] = entry.blocks[i]->data();
      } else {
        entry.memory[i] = handed_on[i] != nullptr ? handed_on[i] : interjob::allocate(requests[i], stream);
        handed_on[i] = nullptr;
      }
    }
    entry.ready.record(stream);
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

/// Maps the chunks of all that phases up to `needed` use, as they come free. Throws the failure; what was mapped by
/// then stays.
void Batch::grow(Entry& entry, Phase needed, device::Stream& stream, Lock& lock) {
  const auto& requests = entry.requests;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].kind != Kind::chunked || requests[i].from > needed) continue;
    auto& block = *entry.blocks[i];
    while (!block.complete()) {
      if (lost_) std::rethrow_exception(lost_);
      if (entry.failed()) std::rethrow_exception(entry.outcome.failure);
      const auto seen = given_back_;
      // Nobody else allocates meanwhile, so that what is left is left for chunks; a limit of 0 would be none.
      if (const auto limit = options_.device_limit; limit != 0)
        chunks_->set_limit(limit > held_bytes_ ? limit - held_bytes_ : 1);
      lock.unlock();
      std::exception_ptr failure;
      bool complete = false;
      try {
        complete = block.grow();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      peak_bytes_ = std::max(peak_bytes_, held());
      if (complete) break;
      if (failure && kind_of(failure) != ErrorKind::out_of_memory) std::rethrow_exception(failure);
      if (!make_room(entry, seen, stream, lock)) {
        if (failure) std::rethrow_exception(failure);
        throw no_room(entry);
      }
    }
  }
}

/// After an attempt to allocate that found too little memory: true where another may find more. `seen` is what
/// given_back_ was before that attempt.
bool Batch::make_room(Entry& entry, std::uint64_t seen, device::Stream& stream, Lock& lock) {
  if (given_back_ != seen) return true;
  if (!kept_.empty() || (chunks_ && !chunked(entry) && chunks_->held().idle > 0)) {
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
  changed_.announce();  // those who wait for this one need not
  changed_.wait(lock, [&] { return lost_ || given_back_ != seen || others() < before || who_gives_way() != nullptr; });
  entry.starved = false;
  if (Entry* later = who_gives_way()) {
    later->state = State::waiting;
    later->in_ready = false;
    give_back(*later, stream, false, lock);
    held_bytes_ -= later->wanted;
    --holding_;
    ++given_back_;
    changed_.announce();
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
  try {
    if (chunks_) chunks_->trim();
  } catch (const device::Error&) {
  }
  lock.lock();
  for (const auto& each : kept) held_bytes_ -= device_bytes(each.request);
}

/// Frees what the entry holds, or keeps it for others; chunks are kept in any case. Its bytes stay counted.
void Batch::give_back(Entry& entry, device::Stream& stream, bool for_others, Lock& lock) {
  auto memory = std::exchange(entry.memory, {});
  auto blocks = std::exchange(entry.blocks, {});
  const auto& requests = entry.requests;
  for (std::size_t i = 0; for_others && i < memory.size(); ++i) {
    if (blocks[i] == nullptr) keep(requests[i], std::exchange(memory[i], nullptr));
  }
  lock.unlock();
  std::exception_ptr failure;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    try {
      if (blocks[i] != nullptr) {
        blocks[i]->shrink();
      } else if (memory[i] != nullptr) {
        release(requests[i], memory[i], stream);
      }
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  blocks.clear();
  lock.lock();
  if (failure) note(entry.outcome, failure);
}

void Batch::finish_with(Entry& entry) {
  entry.state = State::done;
  --holding_;
  ++given_back_;
  changed_.announce();
}

// --- running -----------------------------------------------------------------------------------------------

void Batch::submit_jobs() {
  for (auto& entry : entries_) {
    {
      Lock lock(mutex_);
      changed_.wait(lock, [&] { return entry.in_ready || entry.state == State::ready || entry.state == State::done; });
      if (entry.state == State::done) continue;
      if (entry.state == State::ready) entry.state = State::running;
    }
    queue(entry);
    {
      const Lock lock(mutex_);
      entry.queued = true;
      changed_.announce();
    }
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
  entry.outcome.submit = clocked([&] {
    try {
      in.wait(entry.ready);
      entry.began.record(in);
      phase(entry.job->in, in, entry.in_done);
      await_rest(entry);
      if (three_streams_) kernel_.wait(entry.in_done);
      phase(entry.job->kernel, kernel_, entry.kernel_done);
      if (three_streams_) out.wait(entry.kernel_done);
      phase(entry.job->out, out, entry.out_done);
    } catch (...) {
      const Lock lock(mutex_);
      note(entry.outcome, std::current_exception());
    }
    try {
      await_rest(entry);
    } catch (...) {  // is noted
    }
  });
}

/// Until the job holds all of its memory; throws what it failed with.
void Batch::await_rest(Entry& entry) {
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return entry.state != State::allocating; });
  entry.state = State::running;
  if (entry.failed()) std::rethrow_exception(entry.outcome.failure);
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
      shrink_after(entry, Phase::in, entry.in_done);
      shrink_after(entry, Phase::kernel, entry.kernel_done);
      entry.out_done.synchronize();
      outcome.in = span(entry.began, entry.in_done);
      outcome.kernel = span(entry.in_done, entry.kernel_done);
      outcome.out = span(entry.kernel_done, entry.out_done);
      // What is queued in one stream waits there for the job before, which is no work of its own.
      for (auto [phase, before] : {std::pair{&outcome.kernel, &kernel_end_}, std::pair{&outcome.out, &out_end_}}) {
        phase->begin = std::min(std::max(phase->begin, *before), phase->end);
        *before = phase->end;
      }
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
  held_bytes_ -= entry.wanted;
  if (kind_of(outcome.failure) == ErrorKind::device_lost) lost_ = outcome.failure;
  finish_with(entry);
}

/// Gives back the chunks of what no phase after this one uses, once it is over: another job may be waiting for them.
void Batch::shrink_after(Entry& entry, Phase phase, device::Event& done) {
  const auto& requests = entry.requests;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (entry.blocks[i] == nullptr || requests[i].until != phase || entry.blocks[i]->mapped() == 0) continue;
    done.synchronize();
    entry.blocks[i]->shrink();
    const Lock lock(mutex_);
    ++given_back_;
    changed_.announce();
  }
}

Span Batch::span(const device::Event& begin, const device::Event& end) const {
  const double since = base_seconds_ - began_;
  return {since + device::elapsed(base_, begin), since + device::elapsed(base_, end)};
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
