#include "interjob/held_memory.hpp"

#include <algorithm>
#include <utility>

#include "device/api/ignoring_errors.hpp"

namespace isthmus::interjob {

HeldMemory::HeldMemory(std::span<const Job> jobs, const Options& options) : limit_(options.device_limit) {
  constexpr std::size_t largest_chunk = std::size_t{64} << 20;
  std::size_t largest = 0;
  for (const auto& job : jobs) {
    for (const auto& request : job.memory)
      if (request.source == kChunked) largest = std::max(largest, request.bytes);
  }
  if (largest == 0) return;
  // If there is enough memory, large chunks mean fewer calls; with a limit, small chunks let a job use what the
  // previous job releases.
  const std::size_t default_bytes = std::min(largest / (limit_ > 0 ? 16 : 4), largest_chunk);
  chunks_ = std::make_unique<ChunkPool>(options.chunk_bytes > 0 ? options.chunk_bytes : default_bytes);
}

std::size_t HeldMemory::bytes() const {
  if (!chunks_) return pieces_;
  const auto chunks = chunks_->usage();
  return pieces_ + chunks.used + chunks.idle;
}

std::size_t HeldMemory::idle() const {
  std::size_t bytes = chunks_ ? chunks_->usage().idle : 0;
  for (const auto& each : kept_) bytes += device_bytes(each.request);
  return bytes;
}

void HeldMemory::note_peak() {
  peak_ = std::max(peak_, bytes());
}

void HeldMemory::leave_the_rest_to_chunks() {
  if (limit_ != 0) chunks_->set_limit(limit_ > pieces_ ? limit_ - pieces_ : 1);  // 0 would mean no limit
}

std::vector<void*> HeldMemory::take_kept(std::span<const Request> requests) {
  std::vector<void*> taken;
  for (const auto& request : requests) {
    const auto same = std::ranges::find(kept_, request, &Kept::request);
    taken.push_back(same == kept_.end() ? nullptr : same->pointer);
    if (same == kept_.end()) continue;
    pieces_ -= device_bytes(request);
    kept_.erase(same);
  }
  return taken;
}

void HeldMemory::keep(const Request& request, void* pointer) {
  kept_.push_back({request, pointer});
  pieces_ += device_bytes(request);
}

bool HeldMemory::can_drop(bool chunks_too) const {
  return !kept_.empty() || (chunks_too && chunks_ && chunks_->usage().idle > 0);
}

void HeldMemory::drop_kept(device::Stream& stream, Lock& lock) {
  const auto kept = std::exchange(kept_, {});
  lock.unlock();
  // A failure here is not attributed to any job: the next call on the device reports the problem.
  for (const auto& each : kept) device::ignoring_errors([&] { release(each.request, each.pointer, stream); });
  if (chunks_) device::ignoring_errors([&] { chunks_->trim(); });
  lock.lock();
  for (const auto& each : kept) pieces_ -= device_bytes(each.request);
}

std::exception_ptr HeldMemory::give_back(JobMemory& memory, std::span<const Request> requests, device::Stream& stream,
                                         bool for_others, Lock& lock) {
  auto [addresses, blocks] = std::exchange(memory, {});
  for (std::size_t i = 0; for_others && i < addresses.size(); ++i) {
    if (blocks[i] == nullptr) keep(requests[i], std::exchange(addresses[i], nullptr));
  }
  lock.unlock();
  std::exception_ptr failure;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    try {
      if (blocks[i] != nullptr) {
        blocks[i]->shrink();
      } else if (addresses[i] != nullptr) {
        release(requests[i], addresses[i], stream);
      }
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  blocks.clear();
  lock.lock();
  return failure;
}

}  // namespace isthmus::interjob
