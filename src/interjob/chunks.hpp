#pragma once

// Device memory that grows and shrinks at fixed addresses. A block reserves all its addresses at first and is mapped
// chunk by chunk as chunks become free, so that another job can use memory that a job releases early, before that job
// has ended. All chunks of a pool have the same size: no free chunk is ever too small, and at most one chunk per block
// is wasted.

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <vector>

#include "device/api/device.hpp"

namespace isthmus::interjob {

/// Chunks of memory of the device that was selected at construction. All members are thread-safe.
class ChunkPool {
 public:
  /// Makes a pool of chunks of `chunk_bytes` bytes, rounded up to the device's granularity; all chunks together have at
  /// most `limit` bytes (0: as many as the device has). Throws device::Error if the device has no virtual memory
  /// management.
  explicit ChunkPool(std::size_t chunk_bytes, std::size_t limit = 0);
  /// Releases idle chunks; all blocks must have been destroyed before.
  ~ChunkPool();
  ChunkPool(const ChunkPool&) = delete;
  ChunkPool& operator=(const ChunkPool&) = delete;

  std::size_t chunk_bytes() const noexcept { return chunk_bytes_; }
  /// Returns the bytes rounded up to whole chunks, at least one chunk.
  std::size_t in_chunks(std::size_t bytes) const noexcept {
    return std::max<std::size_t>((bytes + chunk_bytes_ - 1) / chunk_bytes_, 1) * chunk_bytes_;
  }
  int device() const noexcept { return device_; }
  /// Bytes of memory that blocks use, bytes that are kept for later blocks, and the peak of the sum.
  struct Usage {
    std::size_t used = 0, idle = 0, peak = 0;
  };
  Usage usage() const;
  void set_limit(std::size_t bytes);
  /// Returns idle chunks to the device. Throws device::Error; chunks that could not be released are not kept either.
  void trim();

 private:
  friend class ChunkedBlock;
  /// Returns at most `most` chunks: idle ones first, then new ones as far as the limit and the device allow. Returns
  /// none if the limit is reached; throws device::Error (out_of_memory) if the device refuses the first chunk.
  std::vector<device::PhysicalMemory> take(std::size_t most);
  void give(std::vector<device::PhysicalMemory> chunks);
  void note_peak();

  std::size_t chunk_bytes_;
  int device_;
  mutable std::mutex mutex_;
  // Members that are protected by the mutex:
  std::size_t limit_, used_ = 0, peak_ = 0;  // used_ and peak_ count chunks
  std::vector<device::PhysicalMemory> idle_;
};

/// Range of addresses whose first part is mapped to memory. Not thread-safe.
class ChunkedBlock {
 public:
  /// Reserves addresses, without memory. Throws device::Error.
  ChunkedBlock(ChunkPool& pool, std::size_t bytes);
  /// Releases all chunks and the addresses; never throws.
  ~ChunkedBlock();
  ChunkedBlock(const ChunkedBlock&) = delete;
  ChunkedBlock& operator=(const ChunkedBlock&) = delete;

  void* data() const noexcept { return addresses_; }
  /// Returns how many bytes from data() on may be used.
  std::size_t mapped() const noexcept { return chunks_.size() * pool_.chunk_bytes(); }
  /// Returns the size of the whole block in bytes.
  std::size_t size() const noexcept { return bytes_; }
  bool complete() const noexcept { return mapped() == bytes_; }
  /// Maps the chunks that are available now; returns true once the block is complete. Throws device::Error, whose kind
  /// is out_of_memory if the device does not have a single chunk left; the block is then unchanged.
  bool grow();
  /// Releases all chunks except those that contain the first `kept` bytes. Queued work must not use the released
  /// chunks. Throws device::Error if the driver fails to unmap them: those chunks, and the addresses, are then lost.
  void shrink(std::size_t kept = 0);

 private:
  ChunkPool& pool_;
  std::size_t bytes_;
  std::byte* addresses_;
  std::vector<device::PhysicalMemory> chunks_;
  bool lost_ = false;  // something that is not in chunks_ is still mapped
};

}  // namespace isthmus::interjob
