#include "paging/kernels.hpp"

#include "device/kernel/warp_in_grid.hpp"
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
  // After a failure, some pages may contain results computed from undefined data, so nothing is written back.
  if (device::load_relaxed(&table->failure->claimed) != 0) return;
  const Lanes lanes = Lanes::warp();
  const std::uint32_t filled = *table->filled < table->frame_count ? *table->filled : table->frame_count;
  for (std::uint64_t number = device::warp_in_grid(); number < filled; number += device::warps_in_grid())
    detail::clean_frame(*table, lanes, static_cast<std::uint32_t>(number));
}

// for (each request of this warp's slot) copy its page;
//
// The host ends the kernel by setting a word in host memory. One warp polls that word and copies it to the device's
// memory for the other warps, so that the link remains free for pages.
__global__ void relay_pages(Channel channel, const std::uint32_t* host_ended, std::uint32_t* ended, double patience) {
  const Lanes lanes = Lanes::full_warp();
  const std::uint64_t slot = device::warp_in_grid();
  const Request* request = channel.requests + slot;
  const std::uint32_t* asked = channel.numbers + slot;
  std::uint32_t answered = 0;
  double since = device::device_seconds();
  for (;;) {
    std::uint32_t number = answered, bytes = 0;  // 0 bytes: the relay has ended
    unsigned long long from = 0, to = 0;
    // One lane polls and the others wait for it: while all lanes of a block only wait, blocks that have not begun can
    // run.
    const auto look = [&]() -> bool {
      number = device::load_relaxed(asked);
      if (number != answered) return true;
      if (slot == 0 && device::load_relaxed(host_ended) != 0) device::store_relaxed(ended, 1u);
      return device::load_relaxed(ended) != 0 || device::device_seconds() - since > patience;
    };
    if (lanes.leads()) {
      device::spin_until(look);
      if (number != answered) {
        device::load_acquire(asked);
        from = reinterpret_cast<unsigned long long>(device::load_relaxed(&request->from));
        to = reinterpret_cast<unsigned long long>(device::load_relaxed(&request->to));
        bytes = device::load_relaxed(&request->bytes);
      }
    }
    bytes = device::shuffle(lanes.mask, bytes, lanes.leader);
    if (bytes == 0) return;
    from = device::shuffle(lanes.mask, from, lanes.leader);
    to = device::shuffle(lanes.mask, to, lanes.leader);
    device::sync_warp(lanes.mask);  // every lane now sees all accesses to the frame that the leader has seen
    detail::copy_page<8>(lanes, reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from), bytes);
    device::sync_warp(lanes.mask);
    if (lanes.leads()) {
      device::store_release(channel.served + slot, number);
      answered = number;
      since = device::device_seconds();
    }
  }
}

}  // namespace

void queue_prefetch(device::Stream& stream, const device::LaunchShape& shape, const Region& region, std::uint64_t first,
                    std::uint64_t last) {
  device::launch(stream, ISTHMUS_KERNEL(prefetch_pages), shape, Array<std::byte>(region), first, last);
}

void queue_flush(device::Stream& stream, const device::LaunchShape& shape, const Table* table) {
  device::launch(stream, ISTHMUS_KERNEL(flush_frames), shape, table);
}

std::size_t relay_blocks(unsigned threads) {
  const auto of_each =
      device::kernel_info(ISTHMUS_KERNEL(relay_pages), {.grid = 1, .block = threads}).blocks_per_multiprocessor;
  return static_cast<std::size_t>(device::info(device::selected()).multiprocessors) *
         static_cast<std::size_t>(of_each.value_or(1));
}

void queue_relay(device::Stream& stream, const device::LaunchShape& shape, const Channel& channel,
                 const std::uint32_t* host_ended, std::uint32_t* ended, double patience) {
  device::launch(stream, ISTHMUS_KERNEL(relay_pages), shape, channel, host_ended, ended, patience);
}

}  // namespace isthmus::paging
