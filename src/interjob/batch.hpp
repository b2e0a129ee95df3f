#pragma once

// State shared by the threads of a batch. Three roles use it, each with its own class: an Allocator allocates the
// memory of jobs, the Submitter queues their phases, the Releaser waits for them to end and frees their memory.
// Pipeline (pipeline.cpp) decides which roles run at the same time.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "interjob/changes.hpp"
#include "interjob/held_memory.hpp"
#include "interjob/pipeline.hpp"

namespace isthmus::interjob {

enum class State {
  waiting,     ///< waits for memory
  allocating,  ///< a thread is allocating its memory
  ready,       ///< all its memory is allocated
  running,     ///< queued, or failed while being queued
  done,        ///< has no memory
};

/// Job in progress.
struct Entry {
  const Job* job = nullptr;
  std::vector<Request> requests{};            ///< requests of the job, rounded up to whole units
  std::size_t wanted = 0, chunks_wanted = 0;  ///< device bytes requested as single allocations, and in chunks
  JobMemory memory{};
  std::size_t slot = 0;  ///< slot of this job, while it has memory
  device::Event ready{}, began{}, in_done{}, kernel_done{}, out_done{};
  Outcome outcome{};

  // Members that are protected by the batch's mutex:
  State state = State::waiting;
  bool in_ready = false;  ///< the memory of the first phase is ready: `in` may be queued
  bool queued = false;    ///< all phases are queued, or all those before a failure
  bool starved = false;   ///< waits for other jobs to release memory

  bool failed() const { return outcome.failure != nullptr; }
  bool chunked() const { return chunks_wanted > 0; }
  /// Records a failure. The first failure of a job is its cause and is kept.
  void note(const std::exception_ptr& failure);
};

/// Returns the kind of a device error; nullopt for any other failure.
std::optional<device::ErrorKind> kind_of(const std::exception_ptr& failure);

/// Clock of the host and the device, both in seconds since the batch began.
class BatchClock {
 public:
  void start(device::Stream& stream);
  double now() const;
  Span span(const device::Event& begin, const device::Event& end) const;
  template <class Body>
  Span span(const Body& body) const {
    Span taken{now(), 0};
    body();
    taken.end = now();
    return taken;
  }

 private:
  device::Event base_;              // event that device times are relative to
  double base_at_ = 0, began_ = 0;  // times of that event and of the start of the batch, on the host's clock
};

/// State of a batch. Invariants:
/// - An entry goes from one State to the next; only from `ready` may it go back to `waiting`, to help an earlier job.
/// - Members protected by the mutex are read and written only with the mutex held, and every change that another thread
///   may wait for is announced before the mutex is released.
/// - Only one thread at a time uses an entry's other members: an Allocator while the entry is `allocating`, then the
///   Submitter until it is `queued`, then the Releaser. If a job begins early (`in_ready`), the Allocator still maps
///   chunks while the Submitter queues; both record failures with the mutex held.
/// - A job with memory has a slot, and `memory` counts all bytes that the job requested.
struct Batch {
  using Lock = std::unique_lock<std::mutex>;

  Batch(std::span<const Job> jobs, const Options& options);

  const Options options;
  std::vector<Entry> entries;  ///< entries of the jobs, in the same order
  const bool three_streams;
  device::Stream in, kernel, out, releasing;
  std::vector<device::Stream> allocating;  ///< one stream for each Allocator that has a thread
  BatchClock clock;

  std::mutex mutex;
  Changes changed;
  // Members that are protected by the mutex:
  std::vector<bool> slots;  ///< `depth` slots; true if in use by a job that has memory or is about to
  HeldMemory memory;
  std::uint64_t given_back = 0;  ///< number of times a job released memory, not counting releases before a retry
  std::exception_ptr lost;       ///< set when the device is lost

  /// Announces that a job released something that other jobs may be waiting for.
  void gave_back() {
    ++given_back;
    changed.announce();
  }
  /// Releases a job's slot and its count of bytes, once it no longer has memory.
  void let_go(const Entry& entry) {
    memory.remove(entry.wanted);
    slots[entry.slot] = false;
    gave_back();
  }
  /// Frees a job's memory, or keeps it for other jobs; records a failure. The bytes remain counted until let_go().
  void give_back(Entry& entry, device::Stream& stream, bool for_others, Lock& lock) {
    if (const auto failure = memory.give_back(entry.memory, entry.requests, stream, for_others, lock))
      entry.note(failure);
  }
  /// Ends a job that has released its memory.
  void end(Entry& entry) {
    note_lost(entry);
    entry.state = State::done;
    let_go(entry);
  }
  /// Notes that the device is lost, so that other jobs do not try.
  void note_lost(const Entry& entry) {
    if (kind_of(entry.outcome.failure) == device::ErrorKind::device_lost) lost = entry.outcome.failure;
  }
};

}  // namespace isthmus::interjob
