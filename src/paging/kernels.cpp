#include "paging/kernels.hpp"

#include "device/warp_in_grid.hpp"
#include "paging/array.hpp"

namespace isthmus::paging {
namespace {

// for (page = first; page < last; ++page) fetch(page);
__global__ void prefetch_pages(Array<std::byte> array, std::uint64_t first, std::uint64_t last) {
  auto reader = array.reader();
  for (std::uint64_t page = first + device::warp_in_grid(); page < last; page += device::warps_in_grid())
    reader.move_to(array.first_of(static_cast<std::uint32_t>(page)));
}

// for (frame = 0; frame < filled; ++frame) write_back(frame);
__global__ void flush_frames(const Table* table) {
  // After a failure some pages may hold what was computed from nothing.
  if (device::load_relaxed(&table->failure->claimed) != 0) return;
  const Lanes lanes = Lanes::warp();
  const std::uint32_t filled = *table->filled < table->frame_count ? *table->filled : table->frame_count;
  for (std::uint64_t number = device::warp_in_grid(); number < filled; number += device::warps_in_grid())
    detail::clean_frame(*table, lanes, static_cast<std::uint32_t>(number));
}

}  // namespace

void queue_prefetch(device::Stream& stream, const device::LaunchShape& shape, const Region& region, std::uint64_t first,
                    std::uint64_t last) {
  device::launch(stream, ISTHMUS_KERNEL(prefetch_pages), shape, Array<std::byte>(region), first, last);
}

void queue_flush(device::Stream& stream, const device::LaunchShape& shape, const Table* table) {
  device::launch(stream, ISTHMUS_KERNEL(flush_frames), shape, table);
}

}  // namespace isthmus::paging
