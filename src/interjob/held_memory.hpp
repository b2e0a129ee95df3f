#pragma once

// The memory of a batch: what jobs hold, what is kept for the next job that asks for the same, and the chunks.

#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "interjob/chunks.hpp"
#include "interjob/pipeline.hpp"

namespace isthmus::interjob {

/// Of one job, as it asked for it; nullptr: not there (yet). A request has either memory or a block, which has its
/// address.
struct JobMemory {
  std::vector<void*> addresses;
  std::vector<std::unique_ptr<ChunkedBlock>> blocks;
};

/// Any call wants the batch's mutex held; what takes the lock frees it meanwhile. Bytes are of the device.
class HeldMemory {
 public:
  using Lock = std::unique_lock<std::mutex>;

  HeldMemory(std::span<const Job> jobs, const Options& options);

  ChunkPool* chunks() const noexcept { return chunks_.get(); }  ///< nullptr: no job asks for any
  /// What a job asks for in one piece each.
  void add(std::size_t bytes) { pieces_ += bytes; }
  void remove(std::size_t bytes) { pieces_ -= bytes; }

  std::size_t bytes() const;  ///< with what is kept and with chunks, used and idle
  std::size_t idle() const;   ///< of them what no job uses
  std::size_t peak() const noexcept { return peak_; }
  void note_peak();
  bool over_limit() const { return limit_ != 0 && bytes() > limit_; }
  /// While one job alone allocates: the chunks may take what is left.
  void leave_the_rest_to_chunks();

  /// For each request what was kept of its kind and size, else nullptr. It counts as the job's now.
  std::vector<void*> take_kept(std::span<const Request> requests);
  void keep(const Request& request, void* pointer);
  /// Frees what is kept, and idle chunks.
  void drop_kept(device::Stream& stream, Lock& lock);
  bool can_drop(bool chunks_too) const;

  /// Frees what a job holds, or keeps it for others; chunks are kept in any case. Its bytes stay counted. Returns the
  /// first failure.
  std::exception_ptr give_back(JobMemory& memory, std::span<const Request> requests, device::Stream& stream,
                               bool for_others, Lock& lock);

 private:
  struct Kept {
    Request request;
    void* pointer;
  };
  std::size_t limit_;  // 0: none
  std::unique_ptr<ChunkPool> chunks_;
  std::size_t pieces_ = 0, peak_ = 0;  // in one piece each, what is kept included
  std::vector<Kept> kept_;
};

}  // namespace isthmus::interjob
