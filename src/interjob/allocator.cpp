#include "interjob/allocator.hpp"

#include <algorithm>
#include <string>

namespace isthmus::interjob {

namespace {

using device::ErrorKind;

Entry* first_waiting(Batch& batch) {
  const auto found = std::ranges::find(batch.entries, State::waiting, &Entry::state);
  return found == batch.entries.end() ? nullptr : &*found;
}

/// Returns whether a job may begin to allocate. Jobs begin in order, so that no job occupies memory that an earlier job
/// is waiting for. A job that grows by chunks allocates only while no other job does: it already has some of its
/// memory, and must not wait for a job that is waiting for it.
bool may_begin(const Batch& batch, const Entry& entry) {
  const auto& options = batch.options;
  if (std::ranges::find(batch.slots, false) == batch.slots.end()) return false;
  if (std::ranges::any_of(batch.entries, [&](const Entry& each) {
        return each.state == State::allocating && (each.chunked() || entry.chunked());
      }))
    return false;
  const std::size_t limit = options.device_limit;
  if (batch.lost || limit == 0 || !options.wait_for_room) return true;
  const auto& memory = batch.memory;
  return entry.wanted + entry.chunks_wanted > limit || memory.bytes() - memory.idle() + entry.wanted <= limit;
}

device::Error no_room(const Options& options, const Entry& entry) {
  return {ErrorKind::out_of_memory, "interjob",
          entry.job->name + " requests " + std::to_string(entry.wanted + entry.chunks_wanted) +
              " bytes of device memory, but jobs may use at most " + std::to_string(options.device_limit),
          options.wait_for_room ? "raise the limit" : "raise the limit, or let jobs wait for room"};
}

}  // namespace

void Allocator::run() {
  Batch::Lock lock(batch_.mutex);
  for (;;) {
    // Even when all jobs are allocated, a ready job may have to release its memory to an earlier job and then wait for
    // memory again.
    batch_.changed.wait(lock, [this] {
      const Entry* next = first_waiting(batch_);
      return next != nullptr
                 ? may_begin(batch_, *next)
                 : std::ranges::all_of(batch_.entries, [](const auto& each) { return each.state > State::ready; });
    });
    Entry* next = first_waiting(batch_);
    if (next == nullptr) return;
    allocate(*next, lock);
  }
}

void Allocator::allocate(Entry& entry, Batch::Lock& lock) {
  entry.state = State::allocating;
  const auto slot = std::ranges::find(batch_.slots, false);
  entry.slot = static_cast<std::size_t>(slot - batch_.slots.begin());
  *slot = true;
  batch_.memory.add(entry.wanted);
  entry.outcome.allocate = batch_.clock.span([&] {
    try {
      take(entry, lock);
      if (entry.chunked()) {
        grow(entry, Phase::in, lock);
        if (early_) {
          entry.in_ready = true;
          batch_.changed.announce();
        }
        grow(entry, Phase::finish, lock);
      }
    } catch (...) {
      entry.note(std::current_exception());
      // A job that began early is queued nevertheless; the Submitter finds the failure, and the Releaser releases its
      // memory as usual.
      if (!entry.in_ready) batch_.give_back(entry, stream_, false, lock);
    }
  });
  if (entry.failed() && !entry.in_ready) return batch_.end(entry);
  batch_.note_lost(entry);
  entry.state = State::ready;
  batch_.changed.announce();
}

/// Allocates everything that is not chunked, and reserves the addresses of chunked memory. Throws the failure; the job
/// then has no memory.
void Allocator::take(Entry& entry, Batch::Lock& lock) {
  auto& memory = batch_.memory;
  const std::size_t limit = batch_.options.device_limit;
  if (limit != 0 && entry.wanted + entry.chunks_wanted > limit) throw no_room(batch_.options, entry);
  for (;;) {
    if (batch_.lost) std::rethrow_exception(batch_.lost);
    const auto seen = batch_.given_back;
    auto handed_on = memory.take_kept(entry.requests);
    if (memory.over_limit()) memory.drop_kept(stream_, lock);
    std::exception_ptr failure;
    if (memory.over_limit()) {
      failure = std::make_exception_ptr(no_room(batch_.options, entry));
    } else {
      memory.note_peak();
      lock.unlock();
      failure = fill(entry, handed_on);
      lock.lock();
    }
    if (!failure) return;
    batch_.give_back(entry, stream_, false, lock);
    for (std::size_t i = 0; i < handed_on.size(); ++i) {  // kept memory that the job has not used
      if (handed_on[i] != nullptr) memory.keep(entry.requests[i], handed_on[i]);
    }
    if (memory.over_limit() || kind_of(failure) != ErrorKind::out_of_memory || !make_room(entry, seen, lock))
      std::rethrow_exception(failure);
  }
}

/// Fills the job's memory. For chunked requests it only reserves addresses. For other requests it moves the memory out
/// of `handed_on`, leaving nullptr there, or, if there is none, allocates memory. Returns the failure.
std::exception_ptr Allocator::fill(Entry& entry, std::vector<void*>& handed_on) {
  try {
    const auto& requests = entry.requests;
    auto& [addresses, blocks] = entry.memory;
    addresses.assign(requests.size(), nullptr);
    blocks.resize(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].source == kChunked) {
        blocks[i] = std::make_unique<ChunkedBlock>(*batch_.memory.chunks(), requests[i].bytes);
        addresses[i] = blocks[i]->data();
      } else {
        addresses[i] = handed_on[i] != nullptr ? handed_on[i] : interjob::allocate(requests[i], stream_);
        handed_on[i] = nullptr;
      }
    }
    entry.ready.record(stream_);
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

/// Maps chunks, as they become free, for all memory that phases up to `needed` use. Throws the failure; chunks that are
/// already mapped stay mapped.
void Allocator::grow(Entry& entry, Phase needed, Batch::Lock& lock) {
  auto& memory = batch_.memory;
  for (std::size_t i = 0; i < entry.requests.size(); ++i) {
    if (entry.requests[i].source != kChunked || entry.requests[i].from > needed) continue;
    auto& block = *entry.memory.blocks[i];
    while (!block.complete()) {
      if (batch_.lost) std::rethrow_exception(batch_.lost);
      if (entry.failed()) std::rethrow_exception(entry.outcome.failure);
      const auto seen = batch_.given_back;
      memory.leave_the_rest_to_chunks();
      lock.unlock();
      std::exception_ptr failure;
      bool complete = false;
      try {
        complete = block.grow();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      memory.note_peak();
      if (complete) break;
      if (failure && kind_of(failure) != ErrorKind::out_of_memory) std::rethrow_exception(failure);
      if (make_room(entry, seen, lock)) continue;
      if (failure) std::rethrow_exception(failure);
      throw no_room(batch_.options, entry);
    }
  }
}

/// Waits, after an allocation that found too little memory, until another attempt may succeed; returns false if none
/// can. `seen` is the value of given_back before the failed attempt.
bool Allocator::make_room(Entry& entry, std::uint64_t seen, Batch::Lock& lock) {
  if (batch_.given_back != seen) return true;
  if (batch_.memory.can_drop(!entry.chunked())) {
    batch_.memory.drop_kept(stream_, lock);
    return true;
  }
  if (!batch_.options.wait_for_room) return false;
  auto& entries = batch_.entries;
  const auto holds = [&](const Entry& each) {
    return &each != &entry && !each.starved && each.state != State::waiting && each.state != State::done;
  };
  const auto others = [&] { return std::ranges::count_if(entries, holds); };
  // If no other job can help an earlier job, a later job that is not running yet releases its memory for it; otherwise
  // both would wait forever.
  const auto who_gives_way = [&]() -> Entry* {
    const auto self = entries.begin() + (&entry - entries.data());
    if (std::any_of(entries.begin(), self, holds)) return nullptr;
    const auto last = std::find_if(entries.rbegin(), std::make_reverse_iterator(self + 1),
                                   [](const Entry& each) { return each.state == State::ready; });
    return last == std::make_reverse_iterator(self + 1) ? nullptr : &*last;
  };
  const auto before = others();
  if (before == 0) return false;  // no other job has anything to release
  entry.starved = true;
  batch_.changed.announce();  // jobs that wait for this one must stop waiting
  batch_.changed.wait(lock, [&] {
    return batch_.lost || batch_.given_back != seen || others() < before || who_gives_way() != nullptr;
  });
  entry.starved = false;
  if (Entry* later = who_gives_way()) {
    later->state = State::waiting;
    later->in_ready = false;
    batch_.give_back(*later, stream_, false, lock);
    batch_.let_go(*later);
  }
  return true;
}

}  // namespace isthmus::interjob
