#pragma once

// Memory of a batch: memory of jobs, memory kept for later jobs with the same request, and chunks.

#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "interjob/chunks.hpp"
#include "interjob/pipeline.hpp"

namespace isthmus::interjob {

/// Memory of one job, in the order of its requests; nullptr: not allocated (yet). Each request is served by a single
/// allocation or by a ChunkedBlock; `addresses` has its address either way.
struct JobMemory {
  std::vector<void*> addresses;
  std::vector<std::unique_ptr<ChunkedBlock>> blocks;
};

/// Memory of a batch. All calls require the batch's mutex; those with a lock parameter release it while they call the
/// driver. Bytes are bytes of device memory.
class HeldMemory {
 public:
  using Lock = std::unique_lock<std::mutex>;

  HeldMemory(std::span<const Job> jobs, const Options& options);

  ChunkPool* chunks() const noexcept { return chunks_.get(); }  ///< nullptr: no job requests chunked memory
  /// Add or remove the bytes that a job requests as single allocations.
  void add(std::size_t bytes) { pieces_ += bytes; }
  void remove(std::size_t bytes) { pieces_ -= bytes; }

  std::size_t bytes() const;  ///< includes kept memory and all chunks, used and idle
  std::size_t idle() const;   ///< part of bytes() that no job uses
  std::size_t peak() const noexcept { return peak_; }
  void note_peak();
  bool over_limit() const { return limit_ != 0 && bytes() > limit_; }
  /// Sets the chunks' limit to the bytes that single allocations leave free. Call only while one job allocates.
  void leave_the_rest_to_chunks();

  /// Returns, for each request, kept memory of its kind and size, or nullptr; the memory no longer counts as kept.
  std::vector<void*> take_kept(std::span<const Request> requests);
  void keep(const Request& request, void* pointer);
  /// Frees kept memory and idle chunks.
  void drop_kept(device::Stream& stream, Lock& lock);
  bool can_drop(bool chunks_too) const;

  /// Frees a job's memory, or keeps it for other jobs; chunks are always kept. The bytes remain counted. Returns the
  /// first failure.
  std::exception_ptr give_back(JobMemory& memory, std::span<const Request> requests, device::Stream& stream,
                               bool for_others, Lock& lock);

 private:
  struct Kept {
    Request request;
    void* pointer;
  };
  std::size_t limit_;  // 0: no limit
  std::unique_ptr<ChunkPool> chunks_;
  std::size_t pieces_ = 0, peak_ = 0;  // pieces_: bytes of single allocations, including kept memory
  std::vector<Kept> kept_;
};

}  // namespace isthmus::interjob
