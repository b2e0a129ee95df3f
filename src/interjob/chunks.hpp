#pragma once

// Device memory that grows and shrinks under addresses that stay: a block reserves its addresses at once and is mapped
// chunk by chunk as chunks come free, so that what one job gives up early another can have before the first has ended.
// All chunks of a pool are of one size: no free chunk is ever too small, and no more than a chunk a block is wasted.

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <vector>

#include "device/api/device.hpp"

namespace isthmus::interjob {

/// Chunks of memory of the device that was selected when it was made. Any thread may call anything.
class ChunkPool {
 public:
  /// Of `chunk_bytes`, rounded up to the device's granularity; all of them together take no more than `limit` bytes
  /// (0: what the device has). Throws device::Error where the device knows no addresses apart from memory.
  explicit ChunkPool(std::size_t chunk_bytes, std::size_t limit = 0);
  /// After all blocks are gone.
  ~ChunkPool();
  ChunkPool(const ChunkPool&) = delete;
  ChunkPool& operator=(const ChunkPool&) = delete;

  std::size_t chunk_bytes() const noexcept { return chunk_bytes_; }
  /// Bytes of as many whole chunks, at least one.
  std::size_t in_chunks(std::size_t bytes) const noexcept {
    return std::max<std::size_t>((bytes + chunk_bytes_ - 1) / chunk_bytes_, 1) * chunk_bytes_;
  }
  int device() const noexcept { return device_; }
  /// Of memory, in bytes: in blocks, and kept for the next one; the most of both together so far.
  struct Usage {
    std::size_t used = 0, idle = 0, peak = 0;
  };
  Usage usage() const;
  void set_limit(std::size_t bytes);
  /// Gives the device back what no block uses. Throws device::Error; what could not be released is not kept either.
  void trim();

 private:
  friend class ChunkedBlock;
  /// At most `most` chunks: idle ones, then new ones as far as limit and device go. None where the limit is reached;
  /// throws out_of_memory where the device refuses the first.
  std::vector<device::PhysicalMemory> take(std::size_t most);
  void give(std::vector<device::PhysicalMemory> chunks);
  void note_peak();

  std::size_t chunk_bytes_;
  int device_;
  mutable std::mutex mutex_;
  // Under the mutex:
  std::size_t limit_, used_ = 0, peak_ = 0;  // used and peak in chunks
  std::vector<device::PhysicalMemory> idle_;
};

/// A range of addresses with memory behind its first part. One thread at a time.
class ChunkedBlock {
 public:
  /// Reserves addresses, nothing else. Throws device::Error.
  ChunkedBlock(ChunkPool& pool, std::size_t bytes);
  /// Shrinks to nothing; never throws.
  ~ChunkedBlock();
  ChunkedBlock(const ChunkedBlock&) = delete;
  ChunkedBlock& operator=(const ChunkedBlock&) = delete;

  void* data() const noexcept { return addresses_; }
  /// Bytes from data() on that may be used.
  std::size_t mapped() const noexcept { return chunks_.size() * pool_.chunk_bytes(); }
  /// Bytes that the whole block takes.
  std::size_t size() const noexcept { return bytes_; }
  bool complete() const noexcept { return mapped() == bytes_; }
  /// Maps what chunks can be had now; true once the block is complete. Throws device::Error, out_of_memory where the
  /// device has not one chunk more; the block is then as it was.
  bool grow();
  /// Gives up all but the chunks that hold the first `kept` bytes. Nothing queued may use the others any more. Throws
  /// device::Error where the driver does not take them back: those chunks, and the addresses, are then lost.
  void shrink(std::size_t kept = 0);

 private:
  ChunkPool& pool_;
  std::size_t bytes_;
  std::byte* addresses_;
  std::vector<device::PhysicalMemory> chunks_;
  bool lost_ = false;  // something is still mapped that is no chunk of ours
};

}  // namespace isthmus::interjob
