#pragma once

// What the threads of a batch share. Three roles work on it, each a class of its own: an Allocator gives jobs their
// memory, the Submitter queues their phases, the Releaser waits for their ends and frees what they held. Pipeline
// (pipeline.cpp) says which of them run at the same time.

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
  waiting,     ///< for memory
  allocating,  ///< a thread is at it
  ready,       ///< holds its memory
  running,     ///< queued, or found to fail on the way
  done,        ///< holds nothing
};

/// A job on its way.
struct Entry {
  const Job* job = nullptr;
  std::vector<Request> requests{};            ///< the job's, in whole units
  std::size_t wanted = 0, chunks_wanted = 0;  ///< bytes of the device, in one piece each and in chunks
  JobMemory memory{};
  std::size_t slot = 0;  ///< while it holds memory, its own
  device::Event ready{}, began{}, in_done{}, kernel_done{}, out_done{};
  Outcome outcome{};

  // Under the batch's mutex:
  State state = State::waiting;
  bool in_ready = false;  ///< holds what its first phase needs: `in` may be queued, or is
  bool queued = false;    ///< all of it, or all until it failed
  bool starved = false;   ///< waits for others to release

  bool failed() const { return outcome.failure != nullptr; }
  bool chunked() const { return chunks_wanted > 0; }
  /// The first failure of a job is the cause, and stays.
  void note(const std::exception_ptr& failure);
};

/// nullopt: not of the device.
std::optional<device::ErrorKind> kind_of(const std::exception_ptr& failure);

/// The host's clock and the device's, both in seconds since the batch began.
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
  device::Event base_;              // what device times are counted from
  double base_at_ = 0, began_ = 0;  // that event, and the batch, on the host's clock
};

/// Invariants:
/// - An entry goes from one State to the next; only from `ready` may it go back to `waiting`, to help an earlier one.
/// - What stands under "the mutex" is read and written with the mutex held, and every change that another thread may
///   wait for is announced before the mutex is free again.
/// - An entry's other members belong to one thread at a time: to an Allocator while it is `allocating`, then to the
///   Submitter until it is `queued`, then to the Releaser. Of a job that begins early (`in_ready`) the Allocator still
///   maps chunks while the Submitter queues; both note failures with the mutex held.
/// - Whoever holds memory has a slot, and in `memory` with all bytes that it asked for.
struct Batch {
  using Lock = std::unique_lock<std::mutex>;

  Batch(std::span<const Job> jobs, const Options& options);

  const Options options;
  std::vector<Entry> entries;  ///< as they were given
  const bool three_streams;
  device::Stream in, kernel, out, releasing;
  std::vector<device::Stream> allocating;  ///< one an Allocator that has a thread
  BatchClock clock;

  std::mutex mutex;
  Changes changed;
  // Under the mutex:
  std::vector<bool> slots;  ///< taken by jobs that hold memory or are about to; as many as `depth`
  HeldMemory memory;
  std::uint64_t given_back = 0;  ///< how often a job gave anything back, other than to try again
  std::exception_ptr lost;       ///< the device is

  /// A job gave something back that another may be waiting for.
  void gave_back() {
    ++given_back;
    changed.announce();
  }
  /// And holds nothing any more.
  void let_go(const Entry& entry) {
    memory.remove(entry.wanted);
    slots[entry.slot] = false;
    gave_back();
  }
  /// Frees what a job holds, or keeps it for others; a failure is noted. Its bytes stay counted.
  void give_back(Entry& entry, device::Stream& stream, bool for_others, Lock& lock) {
    if (const auto failure = memory.give_back(entry.memory, entry.requests, stream, for_others, lock))
      entry.note(failure);
  }
  /// The end of a job that has given back what it held.
  void end(Entry& entry) {
    note_lost(entry);
    entry.state = State::done;
    let_go(entry);
  }
  /// Where it failed for that reason, nobody else need try.
  void note_lost(const Entry& entry) {
    if (kind_of(entry.outcome.failure) == device::ErrorKind::device_lost) lost = entry.outcome.failure;
  }
};

}  // namespace isthmus::interjob
