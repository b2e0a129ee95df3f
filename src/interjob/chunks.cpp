#include "interjob/chunks.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "device/api/ignoring_errors.hpp"
#include "device/api/mapped_memory.hpp"

namespace isthmus::interjob {

namespace {

/// Releases all chunks, even if releasing one fails; throws the first failure.
void release_all(const std::vector<device::PhysicalMemory>& chunks) {
  std::exception_ptr failure;
  for (const auto& chunk : chunks) {
    try {
      device::release_memory(chunk);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

ChunkPool::ChunkPool(std::size_t chunk_bytes, std::size_t limit)
    : chunk_bytes_(device::mapped_bytes(std::max<std::size_t>(chunk_bytes, 1))),
      device_(device::selected()),
      limit_(limit) {}

ChunkPool::~ChunkPool() {
  device::ignoring_errors([this] { trim(); });
}

ChunkPool::Usage ChunkPool::usage() const {
  const std::lock_guard lock(mutex_);
  return {used_ * chunk_bytes_, idle_.size() * chunk_bytes_, peak_ * chunk_bytes_};
}

void ChunkPool::set_limit(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

void ChunkPool::trim() {
  std::vector<device::PhysicalMemory> idle;
  {
    const std::lock_guard lock(mutex_);
    idle.swap(idle_);
  }
  release_all(idle);
}

void ChunkPool::note_peak() {
  peak_ = std::max(peak_, used_ + idle_.size());
}

std::vector<device::PhysicalMemory> ChunkPool::take(std::size_t most) {
  const device::Selected on(device_);
  std::vector<device::PhysicalMemory> taken;
  taken.reserve(most);
  std::size_t fresh = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto kept = idle_.end() - static_cast<std::ptrdiff_t>(std::min(most, idle_.size()));
    taken.assign(kept, idle_.end());
    idle_.erase(kept, idle_.end());
    used_ += taken.size();
    fresh = most - taken.size();
    if (limit_ != 0) {
      const std::size_t held = used_ + idle_.size(), allowed = limit_ / chunk_bytes_;
      fresh = std::min(fresh, allowed > held ? allowed - held : 0);
    }
    used_ += fresh;  // reserve the bytes, so that no other thread uses the same space
    note_peak();
  }
  for (; fresh > 0; --fresh) {
    try {
      taken.push_back(device::create_memory(chunk_bytes_));
    } catch (const device::Error& error) {
      {
        const std::lock_guard lock(mutex_);
        used_ -= fresh;
      }
      if (error.kind() == device::ErrorKind::out_of_memory && !taken.empty()) break;
      give(std::move(taken));
      throw;
    }
  }
  return taken;
}

void ChunkPool::give(std::vector<device::PhysicalMemory> chunks) {
  const std::lock_guard lock(mutex_);
  used_ -= chunks.size();
  idle_.insert(idle_.end(), chunks.begin(), chunks.end());
}

ChunkedBlock::ChunkedBlock(ChunkPool& pool, std::size_t bytes)
    : pool_(pool), bytes_(pool.in_chunks(bytes)), addresses_(nullptr) {
  chunks_.reserve(bytes_ / pool.chunk_bytes());
  addresses_ = static_cast<std::byte*>(device::reserve_addresses(bytes_));
}

ChunkedBlock::~ChunkedBlock() {
  device::ignoring_errors([this] { shrink(); });
  if (!lost_) device::ignoring_errors([this] { device::release_addresses(addresses_, bytes_); });
}

bool ChunkedBlock::grow() {
  if (lost_)
    throw device::Error(device::ErrorKind::failure, "interjob", "a block that the driver did not shrink cannot grow",
                        "drop it");
  if (complete()) return true;
  const std::size_t unit = pool_.chunk_bytes();
  auto fresh = pool_.take(bytes_ / unit - chunks_.size());
  if (fresh.empty()) return false;
  std::byte* const from = addresses_ + mapped();
  std::size_t done = 0;
  try {
    for (; done < fresh.size(); ++done) device::map_memory(from + done * unit, fresh[done]);
    device::set_access(from, fresh.size() * unit, pool_.device(), device::Access::read_write);
  } catch (...) {
    const auto mapped_now = fresh.begin() + static_cast<std::ptrdiff_t>(done);
    pool_.give({mapped_now, fresh.end()});
    if (done > 0) {  // treat these chunks as grown, so that shrink() undoes it
      const std::size_t before = mapped();
      chunks_.insert(chunks_.end(), fresh.begin(), mapped_now);
      device::ignoring_errors([&] { shrink(before); });
    }
    throw;
  }
  chunks_.insert(chunks_.end(), fresh.begin(), fresh.end());
  return complete();
}

void ChunkedBlock::shrink(std::size_t kept) {
  const std::size_t unit = pool_.chunk_bytes(), stay = (kept + unit - 1) / unit;
  if (stay >= chunks_.size()) return;
  const auto first = chunks_.begin() + static_cast<std::ptrdiff_t>(stay);
  std::vector<device::PhysicalMemory> gone(first, chunks_.end());
  chunks_.erase(first, chunks_.end());
  try {
    device::unmap_memory(addresses_ + stay * unit, gone.size() * unit);
  } catch (...) {
    // It is now unknown what is mapped there, so neither pass the chunks on nor map over them.
    lost_ = true;
    device::ignoring_errors([&] { release_all(gone); });  // the memory is freed when it is no longer mapped
    throw;
  }
  pool_.give(std::move(gone));
}

}  // namespace isthmus::interjob
